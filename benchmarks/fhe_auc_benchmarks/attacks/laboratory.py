"""What all attacks have in common: a lie is a row of a table, which is played many times over against real sessions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.party import Party

PASSED, HARMLESS = "passed", "harmless"  # a wrong result is accepted, or a right one
CONFIDENCE = 0.95  # of the upper bounds on pass rates
SITES = ("north", "south", "east")
_SITE_ROWS = (40, 81)
_POSITIVES = 0.4


class Row(NamedTuple):
    """A row of the table: who lies, what they do, and by protocol all that may come of it; None: anything.

    `play` plays one session of a protocol, with a generator for rows and choices, and returns what comes of it:
    `PASSED`, `HARMLESS`, the check or error with which somebody refuses, or what is read. A trial is so many
    `sessions`; of these at most the share `proved` may pass.
    """

    who: str
    what: str
    may: Mapping[str, frozenset[str] | None]
    play: Callable[[str, np.random.Generator], str]
    sessions: int = 1
    proved: float | None = None

    def came(self, protocol: str, seed: Sequence[int]) -> str:
        """Play one session, and return what comes of it, also where that is an error."""
        try:
            return self.play(protocol, np.random.default_rng(seed))
        except FheAucError as error:
            return refused_by(error)

    def run(self, protocol: str, trials: int, seed: int) -> dict[str, Any]:
        """Return, for JSON, what came of so many trials, how many passed, and what was not to come of it."""
        number, may = trials * self.sessions, self.may[protocol]
        found = Counter(self.came(protocol, [seed, session]) for session in range(number))
        return {
            "sessions": number,
            "passed": found[PASSED],
            "pass_rate_below": clopper_pearson(found[PASSED], number),
            "came": {each: found[each] for each in sorted(found)},
            "beyond": sorted(set(found) - may) if may is not None else [],
        }


def known(name: str, lies: Mapping[str, Any]) -> None:
    """Raise `InputError`, which names those that there are, where there is no such lie."""
    if name not in lies:
        raise InputError(f"there is no attack {name!r} on this protocol; known are {', '.join(lies)}")


def clopper_pearson(passes: int, trials: int) -> float:
    """Return the one-sided Clopper-Pearson upper bound on a probability, with `CONFIDENCE`, from passes in trials."""
    if passes >= trials:
        return 1.0
    from scipy import stats  # `demo --cheat` does without

    return float(stats.beta.ppf(CONFIDENCE, passes + 1, trials - passes))


def made_up_sites(
    generator: np.random.Generator, names: Sequence[str] = SITES, analysis: Analysis = PLAIN
) -> list[PartyData]:
    """Return sites with 40 to 80 rows each, of both labels, for an analysis without classes."""
    found = []
    for name in names:
        labels = generator.random(int(generator.integers(*_SITE_ROWS))) < _POSITIVES
        labels[:2] = True, False
        scores = {}
        for model in analysis.models:
            shift = generator.uniform(0.05, 0.3)
            scores[model] = np.clip(generator.normal(0.4 + shift * labels, 0.2), 0, 1)
        groups = {each.name: generator.choice(each.levels, len(labels)) for each in analysis.by}
        found.append(PartyData.from_columns(name, labels, scores, groups, analysis))
    return found


def answering(aggregator: Aggregator, roles: Sequence[Party[Any]]) -> Callable[[bytes], Iterator[tuple[str, bytes]]]:
    """Return the exchange, for `conduct`, in which all answer who are asked."""

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for role in roles:
            if role.name in aggregator.asked:
                yield role.name, role.respond(message)

    return exchange


def refused_by(error: FheAucError) -> str:
    """Return the name of the check that refuses, or of the error where it names none."""
    return getattr(error, "check", None) or type(error).__name__


class LyingSide(AggregatorSide):
    """What an aggregator sends that is honest but after the round `at`: then it sends what `made` returns.

    `sent` are the payloads of the first round, by party.
    """

    def __init__(
        self, honest: AggregatorSide, at: int, made: Callable[[Mapping[str, bytes], tuple[str, ...]], bytes]
    ) -> None:
        self.honest, self.rounds = honest, honest.rounds
        self.at, self._made = at, made
        self.sent: dict[str, bytes] = {}

    def limit(self, number: int) -> int:
        """Return that of an honest one."""
        return self.honest.limit(number)

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Take what an honest one takes, and keep it."""
        self.honest.accept(number, party, payload)
        if number == 1:
            self.sent[party] = payload

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return whom an honest one counts."""
        return self.honest.counts(number, parties)

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return the lie, or what an honest one sends."""
        if number == self.at:
            return self._made(self.sent, counted)
        return self.honest.close(number, counted, keep)
