"""An evaluation, printed for a person to read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click

from fhe_auc.base import quantities
from fhe_auc.base.errors import InputError
from fhe_auc.cli import output
from fhe_auc.cli.inputs import gathered, option
from fhe_auc.results import result_tables
from fhe_auc.results.evaluation import CURVE_SESSION, FIRST_SESSION, Evaluation
from fhe_auc.results.intervals import Interval
from fhe_auc.session import registry
from fhe_auc.session.plan import ONE_TIME_PADS

_Row: TypeAlias = tuple[output.Cell, ...]

_LONG = 16  # characters of a note that has a column of its own

_PHASES = {
    "keys": "before the first round: choose parameters, make keys, announce the session",
    "submit": "each party (mean): count, and encrypt, pad or add noise",
    "ingest": "aggregator: check and add up what arrives",
    "circuit": "aggregator: compute the result",
    "recover": "each party (at most): decrypt or take pads off, check, and read the result",
}

_KEYS = {
    "sealed": "each party can decrypt: a key holder has sealed the secret key to it",
    "helper": "a helper can decrypt, in place of the parties",
    "none": "nobody deals any",
}

_PADS = {
    "sealed": "no party reads another's counts: a key holder has drawn the pads, and the parties' common secret",
    "helper": "a helper takes the pads off the sum, and sees neither",
}

_ELSEWHERE = "grid", "definition", "censored", "weights", "effective_events", "effective_others"
"""Settings that stand beside the number of bin edges, the AUC, or the rows."""

_LEARNT = (
    "Every party learnt the pooled counts behind these numbers, and how many rows of each label each group has, also "
    "of groups that are not shown. The aggregator learnt {aggregator}. Names of models and groups are public."
)
_AGGREGATOR = {
    (): ("nothing", "of the rows; it adds up"),
    (FIRST_SESSION,): ("bin edges", "that follow from all scores"),
    (CURVE_SESSION,): ("the censoring curve", "that weights follow from"),
    (FIRST_SESSION, CURVE_SESSION): ("bin edges and the censoring curve", "that follow from all rows"),
}
"""What the aggregator learns, by the sessions before, which find bin edges, or pool the censoring curve."""


@dataclass(frozen=True)
class Form:
    """How an evaluation is printed: as a table, with what it has cost, as one line, or as JSON."""

    costs: bool
    brief: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.costs + self.brief + self.as_json > 1:
            raise InputError("--brief, --costs and --json contradict one another; give one of them")


form_options = gathered(
    "form",
    Form,
    option("--brief", "Print one line a horizon; warnings go to stderr."),
    option("--costs", "Print keys, rounds, bytes and times too."),
    output.json_option,
)


def print_evaluation(
    evaluation: Evaluation,
    form: Form,
    *,
    wall_seconds: float | None = None,
    specification: str = "",
    title: str = "",
    beside_auc: Iterable[_Row] = (),
    beside_json: Mapping[str, Any] | None = None,
    plot: Path | None = None,
) -> None:
    """Print an evaluation on stdout, in the form that is wanted.

    In the table `title` is a paragraph above it, and `beside_auc` are more rows below the AUC. `specification` is how
    bin edges were given. `beside_json` are more entries of the JSON object. The forest plot is saved as `plot`: after
    text, which is not lost where that fails, and before JSON, which stays one object.
    """
    if form.as_json:
        _save(plot, evaluation)
        output.print_json({**evaluation.as_dict(), **(beside_json or {})})
        return
    if form.brief:
        click.echo("\n".join(evaluation.headlines))
        for warning in evaluation.warnings:
            output.print_warning(warning)
    else:
        _print_tables(evaluation, form, wall_seconds, specification, title, beside_auc)
    _save(plot, evaluation)


def _save(plot: Path | None, evaluation: Evaluation) -> None:
    if plot is not None:
        from fhe_auc.figures import forest_plot
        from fhe_auc.figures.plot import save_figure

        save_figure(forest_plot.draw(evaluation), plot)
        output.print_line(f"forest plot saved as {plot}")


def _print_tables(
    evaluation: Evaluation,
    form: Form,
    wall_seconds: float | None,
    specification: str,
    title: str,
    beside_auc: Iterable[_Row],
) -> None:
    rows = [*_results(evaluation), *beside_auc, *result_tables.of_sites(evaluation.sites)]
    if title:
        output.print_text(title + "\n")
    named = (FIRST_SESSION, CURVE_SESSION)
    before = tuple(name for name in named if any(phase.startswith(name) for phase in evaluation.seconds))
    if len(evaluation.estimates) > 1:
        output.print_table(rows)
        tables = [result_tables.of_estimates(evaluation.estimates)]
        if evaluation.comparisons:
            tables.append(result_tables.of_comparisons(evaluation.comparisons))
        output.print_text()
        print_tables(tables)
        output.print_text()
        output.print_text(_LEARNT.format(aggregator=" ".join(_AGGREGATOR[before])) + "\n")
        rows = []
    rows += _session_rows(evaluation)
    if evaluation.positives is not None and len(evaluation.estimates) == 1:  # of several it stands below their table
        rows += [("parties learn", "pooled counts", "and these numbers"), ("aggregator learns", *_AGGREGATOR[before])]
    if form.costs or evaluation.keys == "none":  # noise is to be named
        rows += _protection(evaluation)
    if form.costs:
        rows += _costs(evaluation, specification)
    elif "of these rows" in str(evaluation.settings.get("grid")):
        rows.append(("bin edges", f"{evaluation.thresholds:,}", str(evaluation.settings["grid"])))
    output.print_table(rows)
    if form.costs:
        phases = [*_phases(evaluation)]
        if wall_seconds is not None:
            phases.append(("whole session", quantities.seconds_text(wall_seconds), "all roles, on this machine"))
        output.print_text()
        output.print_table(phases, header=("phase", "time", "who does what"), numbers=1)
    if evaluation.warnings:
        output.print_text()
    output.print_warnings(evaluation.warnings)


def print_tables(tables: Sequence[result_tables.TextTable]) -> None:
    """Print tables, each with its heading, and a blank line between; long notes stand below where they do not fit."""
    for number, table in enumerate(tables):
        if number:
            output.print_text()
        widths = [max(map(len, column)) for column in zip(table.header, *table.rows, strict=True)]
        fits = output.fits(sum(widths), len(widths))
        notes = dict.fromkeys(row[-1] for row in table.rows if len(row[-1]) > _LONG and not fits)
        marks = {note: f"({mark})" for mark, note in zip("abcdefghijk", notes, strict=False)}
        rows = [(*row[:-1], marks.get(row[-1], row[-1])) for row in table.rows]
        numbers = len(table.header) - table.words - 1
        output.print_table(rows, header=table.header, words=table.words, numbers=numbers)
        for note, mark in marks.items():
            output.print_text(f"{mark} {note}")


def _results(evaluation: Evaluation) -> Iterator[_Row]:
    """Say what has been found of all rows."""
    label, first = "AUC", evaluation.estimates[0]
    note = f"{first.model}, of all parties' rows together".removeprefix(", ")
    if math.isnan(evaluation.binning_error):
        label, note = "AUC, with noise", "noise was drawn for privacy, and may be large"
        if evaluation.interval is not None:
            note = "noise was drawn for privacy, and is in the interval"
        if (deviation := evaluation.settings.get("noise_standard_error")) is not None:
            note = f"noise was drawn for privacy: its standard deviation is {deviation:.2g}"
    elif first.contrast:  # of one class from others
        note = "the average over all pairs of classes (Hand and Till)"
    elif evaluation.horizon is not None:
        label, note = f"AUC at {evaluation.horizon:g}", f"{note}; {evaluation.settings.get('definition', '')}"
    yield output.styled(label, "bold"), output.styled(evaluation.auc_text(6), "bold"), note
    yield from interval_rows(evaluation.interval)
    if "epsilon_unit" in evaluation.settings:
        unit = str(evaluation.settings["epsilon_unit"]).replace("row", "row replaced")
        note = f"the privacy budget of a {unit}, spent by this session"
        yield "epsilon", f"{evaluation.settings['epsilon']:g}", note
        how = "fhe-auc report --epsilon" if evaluation.study is None else "a study with report = true"
        if evaluation.histogram is None:
            yield "curves", "none", f"{how} has them, with more noise, and spends its epsilon besides: both add up"
    may_have = registry.load(evaluation.protocol).several or "noise_deviation" in evaluation.settings
    if evaluation.interval is None and not may_have:  # else a warning says why, or none was wanted
        yield "interval", "none", f"it takes more than {evaluation.protocol} tells; protocol verified tells it"
    if evaluation.rows is not None:
        label = "label 1" if evaluation.horizon is None else f"by {evaluation.horizon:g}"
        note = f"{evaluation.positives:,} events ({label}), {evaluation.negatives:,} others"
        if evaluation.horizon is not None:
            lost = _of_first(evaluation, "censored")
            told = "some" if lost is None else f"{int(lost):,}"
            note += f"; {told} were censored before, and are not among them"
        if "patients" in evaluation.settings:
            note += f"; of {evaluation.settings['patients']:,} patients, who count once at each site"
        yield output.styled("rows", "bold"), output.styled(f"{evaluation.rows:,}", "bold"), note
    if weights := evaluation.settings.get("weights"):
        effective = (_of_first(evaluation, f"effective_{name}") for name in ("events", "others"))
        events, others = ("" if each is None else f"{each:,.0f}" for each in effective)
        at = "" if evaluation.horizon is None else f"at {evaluation.horizon:g} "
        note = f"{at}worth {events} events and {others} others that count once (effective rows)" * bool(events)
        if at and events:
            note += "; weights are taken as known, which makes errors larger, mostly by less than 1 %"
        yield "weights", str(weights), note.removeprefix("; ")
    for row in binning_error_rows(evaluation.auc, evaluation.binning_error, evaluation.numerical_error):
        yield (*row[:-1], f"{row[-1]}; that weights are rounded to {weights} is not in it" if weights else row[-1])


def _of_first(evaluation: Evaluation, name: str) -> Any:
    """Return a setting, of several horizons that of the first; None where there is none."""
    return evaluation.settings.get(f"{name}_at_{evaluation.horizon or 0:g}", evaluation.settings.get(name))


def _session_rows(evaluation: Evaluation) -> Iterator[_Row]:
    """Say what was evaluated and how, and what is noticed of lies."""
    if evaluation.study is not None:
        yield from evaluation.study.lines()
    yield "parties", f"{evaluation.parties:,}", "sites"
    if evaluation.fraction is not None:  # the protocol computes in integers
        decimals = evaluation.settings.get("round_scores")
        of = "binned scores" if decimals is None else f"scores rounded to multiples of {_step(int(decimals))}"
        yield "AUC as a fraction", str(evaluation.fraction), f"the AUC of {of}, not rounded"
    yield "protocol", evaluation.protocol, f"it assumes: {registry.load(evaluation.protocol).trust}"
    if evaluation.keys == "helper" and evaluation.backend != ONE_TIME_PADS:
        yield "helper", "trusted", "it decrypts; if it worked with the aggregator, both could read every party's counts"
    if not evaluation.verified:
        yield "if aggregator lies", "unnoticed", "it could give any result"
    elif evaluation.soundness is None:
        yield "if aggregator lies", "noticed", "as far as measured, not proved"
    else:
        chance = quantities.chance_text(evaluation.soundness)
        yield "if aggregator lies", "noticed", f"except with a chance of {chance}"
    if not evaluation.inputs_proved:
        pairs = evaluation.keys == "none" and evaluation.security_bits > 0  # parties compare rows with each other
        yield "if a party lies", "unnoticed", "it could enter any rows" + pairs * ", and read scores of others"
        return
    caps = (
        "each proved that its counts are not negative, and of no more rows than its row cap, which is public; rows "
        "that are made up go unnoticed"
    )
    unproved = [*["the noise"] * evaluation.inputs_proved.endswith("noise"), *evaluation.inputs_not_proved]
    yield "if a party lies", "perhaps noticed", "; ".join((caps, *(f"{name} is not proved" for name in unproved)))


def _protection(evaluation: Evaluation) -> Iterator[_Row]:
    texts = [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}".lower()
        for name, value in evaluation.settings.items()
        if name.partition("_at_")[0] not in _ELSEWHERE
    ]
    if texts:
        yield "settings", "", ", ".join(texts)
    if evaluation.security_bits == 0:
        yield "encryption", "none", "noise protects what parties send"
    else:
        yield "encryption", f"{evaluation.security_bits}-bit security", evaluation.backend
    texts_of = _PADS if evaluation.backend == ONE_TIME_PADS else _KEYS
    yield "keys", evaluation.keys, texts_of.get(evaluation.keys, "")


def _costs(evaluation: Evaluation, specification: str) -> list[_Row]:
    decimals = evaluation.settings.get("round_scores")
    specification = str(evaluation.settings.get("grid", specification))
    if decimals is not None:
        specification = f"every multiple of {_step(int(decimals))}"
    return [
        ("bin edges", f"{evaluation.thresholds:,}", specification),
        ("rounds", str(evaluation.rounds), "messages of the aggregator that each party answers"),
        ("a party sent", quantities.bytes_text(evaluation.upload_bytes_per_party), ""),
        ("a party received", quantities.bytes_text(evaluation.download_bytes_per_party), ""),
    ]


def _phases(evaluation: Evaluation) -> Iterator[_Row]:
    """Say how long phases took, in the order in which they happen, those of sessions before first."""
    order = [prefix + phase for prefix in (FIRST_SESSION, CURVE_SESSION, "") for phase in _PHASES]
    order += [phase for phase in evaluation.seconds if phase not in order]
    for phase in order:
        if phase in evaluation.seconds:
            seconds = quantities.seconds_text(evaluation.seconds[phase])
            yield phase, seconds, _PHASES.get(phase.rpartition(": ")[2], "")


def _step(decimals: int) -> str:
    return f"{10**-decimals:.{decimals}f}"


def interval_rows(interval: Interval | None) -> list[_Row]:
    """Return the row of a confidence interval, if there is one."""
    if interval is None:
        return []
    cells = (output.styled(text, "bold") for text in (interval.heading, result_tables.ends(interval)))
    return [(*cells, f"{interval.method}, for independent {interval.independent}")]


def binning_error_rows(
    auc: float, binning_error: float, numerical_error: float = 0.0, *, digits: int = 6
) -> list[_Row]:
    """Return the row that says what bins leave open, where it is known (not NaN), to so many digits."""
    if math.isnan(binning_error):
        return []
    # What is rounded off the AUC must not push it out of the bound.
    off = binning_error + abs(auc - round(auc, digits)) + numerical_error
    bound = math.ceil(round(off * 10**digits, 6)) / 10**digits  # 0.027 may be 0.0270…04
    note = "bins have moved the AUC by this at most"
    if numerical_error:
        note += f" (numerical error < {quantities.bound_text(numerical_error)})"
    return [("binning error", f"{output.sign('≤', '<=')} {bound:.{digits}f}", note)]
