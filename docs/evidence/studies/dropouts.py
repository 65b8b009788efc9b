"""How often a session of `verified` has a result at the first try, where sites are away. Draws docs/guide/dropouts.png.

    OMP_NUM_THREADS=1 python docs/evidence/studies/dropouts.py --sessions 100 --plot dropouts.png

Each site is away with the same probability, on its own, and then misses the whole session. In a second model a site
that has submitted also vanishes with that probability, and answers no later round. The aggregator, the key holder who
opens late and the helper are there. "At the first try": nobody is asked again.

Lines are sums of binomial probabilities, of the rule in `ends`. Sessions of the second model are played too, by the
real roles under real keys, two thresholds and two rows each; with joint keys of 20 sites alone, as they are dear. Each
ends as the rule says, or the study does not go on; so shares are off the lines by chance alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from fhe_auc.base.errors import TooFewPartiesError
from fhe_auc.figures.plot import save_figure, tidy
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.counts import PartyData
from fhe_auc.session import registry
from fhe_auc.session.plan import Keys
from fhe_auc.session.protocol import Request
from fhe_auc.session.rounds import conduct
from fhe_auc_benchmarks.drawing import blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES = (20, 40, 100)
ABSENCES = (0.01, 0.02, 0.03, 0.04, 0.05)
KEYS: tuple[Keys, ...] = ("helper", "sealed", "joint")
SHARE = 0.85  # of the sites must submit, where some may be missing
_MOST_JOINT = 20
_MARK: Mapping[str, Any] = {"fillstyle": "none", "markersize": 6.5, "markeredgewidth": 1.4}


class Curve(NamedTuple):
    """A line of the figure: whose it is, whether sites that have submitted vanish, and how it is drawn."""

    keys: Keys
    vanishing: bool
    label: str
    style: Mapping[str, Any]


_CURVES = (
    Curve(
        "helper",
        False,
        "helper; sealed keys if no site vanishes",
        {"color": "#009E73", "linewidth": 3.0, "linestyle": "-", "marker": "o"},
    ),
    Curve(
        "joint",
        False,
        "joint keys, or sealed keys where all must submit (the default)",
        {"color": "#D55E00", "linewidth": 1.2, "linestyle": "-", "marker": ""},
    ),
    Curve(
        "sealed",
        True,
        "sealed keys, and sites also vanish after they have submitted",
        {"color": "#0072B2", "linewidth": 2.2, "linestyle": (0, (4, 2)), "marker": "s"},
    ),
    Curve(
        "joint",
        True,
        "joint keys, or sealed where all must submit, and sites also vanish",
        {"color": "#D55E00", "linewidth": 1.8, "linestyle": (0, (1, 1.5)), "marker": "^"},
    ),
)
"""With a helper it makes no difference whether sites vanish; if none does, sealed keys do as well as a helper."""


def needed(keys: Keys, sites: int) -> int:
    """Return how many of so many sites must submit (`min_parties`)."""
    return sites if keys == "joint" else round(SHARE * sites)


def ends(keys: Keys, sites: int, least: int, submitted: int, stayed: int) -> bool:
    """Whether a session ends with a result: so many of the sites have submitted, and of these so many have stayed."""
    if keys == "joint":
        return stayed == sites
    return submitted >= least and (keys == "helper" or stayed == submitted)


def probability(keys: Keys, sites: int, least: int, absence: float, vanishing: float = 0.0) -> float:
    """Return how probable a result at the first try is, where sites are away, and vanish, with such probabilities."""
    total = 0.0
    for submitted in range(sites + 1):
        stayed = [each for each in range(submitted + 1) if ends(keys, sites, least, submitted, each)]
        if stayed:
            lasting = stats.binom.pmf(stayed, submitted, 1 - vanishing).sum()
            total += stats.binom.pmf(submitted, sites, 1 - absence) * lasting
    return float(total)


def play(keys: Keys, sites: int, least: int, away: Collection[int], vanished: Collection[int]) -> bool:
    """Play a session of `verified`; return whether it ends, and every site that is still there has a result.

    Sites are numbered from 0: who is `away` answers nothing, and who has `vanished` nothing after its submission.
    """
    plugin, names = registry.evaluating("verified"), tuple(f"site {number}" for number in range(sites))
    request = Request(parties=names, thresholds=thresholds.uniform(2), max_rows=1000, min_parties=least, keys=keys)
    session = plugin.prepare(request)
    delivery = plugin.local_delivery(session)
    aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    aggregator.open_late = delivery.open_late
    helper = plugin.helper(session.manifest, delivery.helper) if delivery.helper else None
    rows = (PartyData.from_arrays(name, [0, 1], [0.2, 0.7]) for name in names)
    roles = [plugin.party(session.manifest, delivery.parties[data.name], data) for data in rows]

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        if helper is not None and helper.name in aggregator.asked:
            yield helper.name, helper.respond(message)
        for number, role in enumerate(roles):
            gone = number in away or (number in vanished and role.submitted)
            if not gone and role.name in aggregator.asked:
                yield role.name, role.respond(message)

    try:
        conduct(aggregator, exchange)
    except TooFewPartiesError:
        return False
    found: list[Evaluation] = [
        role.result() for number, role in enumerate(roles) if number not in away and number not in vanished
    ]
    return all(each.parties == len(aggregator.counted) for each in found)


def share_of_played(keys: Keys, sites: int, absence: float, sessions: int, generator: np.random.Generator) -> float:
    """Return the share of so many sessions that ended, where sites are away and vanish with that probability."""
    ended, enough = 0, needed(keys, sites)
    for _ in range(sessions):
        away, vanished = (set(np.flatnonzero(generator.random(sites) < absence).tolist()) for _ in range(2))
        ending = play(keys, sites, enough, away, vanished)
        if ending != ends(keys, sites, enough, sites - len(away), sites - len(away | vanished)):
            raise RuntimeError(f"a session of {sites} sites with {keys} keys has ended otherwise than the rule says")
        ended += ending
    return ended / sessions


def draw(played: Mapping[tuple[Keys, int, float], float]) -> Figure:
    """Return the figure, a panel for each number of sites; `played` are the shares of `share_of_played`."""
    figure = blank(11, 4.4, "Sessions of verified that end with a result at the first try (marks: sessions played)")
    panels = figure.subplots(1, len(SITES), sharey=True)
    xs = np.linspace(0, max(ABSENCES), 51)
    for axes, sites in zip(panels, SITES, strict=True):
        for keys, vanishing, label, style in _CURVES:
            ys = [probability(keys, sites, needed(keys, sites), x, x if vanishing else 0.0) for x in xs]
            axes.plot(xs, ys, **{**style, "marker": ""})
            marks = [(at[2], share) for at, share in played.items() if at[:2] == (keys, sites)]
            if marks and style["marker"]:
                axes.plot(*zip(*marks, strict=True), **{**_MARK, **style, "linestyle": ""}, zorder=4)
            if axes is panels[0]:
                axes.plot([], [], **{**_MARK, **style}, label=label)
        axes.set_title(f"{sites} sites ({needed('helper', sites)} must submit)", fontsize=10, loc="left")
        axes.set_xlabel("each site is away with probability")
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.grid(visible=True, color="0.9", linewidth=0.7)
        tidy(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False, handlelength=4.4)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    generator, played = np.random.default_rng(20), {}
    print("| sites | keys | must submit | absence | result | with vanishing | played |\n" + "| --- " * 7 + "|")
    for sites, keys, absence in product(SITES, KEYS, ABSENCES):
        enough, told = needed(keys, sites), ""
        expected = probability(keys, sites, enough, absence, absence)
        if arguments.sessions and (keys != "joint" or sites <= _MOST_JOINT):
            share = share_of_played(keys, sites, absence, arguments.sessions, generator)
            played[keys, sites, absence] = share
            told = f"{share:.1%}"
        print(
            f"| {sites} | {keys} | {enough} | {absence:.0%} | {probability(keys, sites, enough, absence):.1%} "
            f"| {expected:.1%} | {told} |",
            flush=True,
        )
    if arguments.plot:
        save_figure(draw(played), arguments.plot)


if __name__ == "__main__":
    main()
