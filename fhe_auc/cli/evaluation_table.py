"""An evaluation, printed for a person to read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fhe_auc import quantities, registry
from fhe_auc.cli import output
from fhe_auc.cli.session import SessionOptions
from fhe_auc.evaluation import FIRST_SESSION, Evaluation

_PHASES = {
    "keys": "before the first round: choose parameters, certify, make and seal keys",
    "key parts": "each party (mean): its parts of the joint keys, both rounds",
    "submit": "each party (mean): count and encrypt",
    "ingest": "aggregator: check and add up what arrives",
    "circuit": "aggregator: compute the encrypted result",
    "decrypt": "each party (mean): its partial decryption, sealed to the others",
    "recover": "each party (mean): decrypt, check, and read the result",
}

_PHASES_WITHOUT_ENCRYPTION = {
    "keys": "before the first round: announce the session",
    "submit": "each party (mean): count, and add noise",
    "circuit": "aggregator: send the sums",
    "recover": "each party (mean): compute the AUC",
}

_KEYS = {
    "sealed": "each party can decrypt: a key holder has sealed the secret key to it",
    "joint": "only all parties together can decrypt; nobody has the whole secret key",
    "none": "nothing is encrypted",
}


def print_evaluation(
    evaluation: Evaluation,
    wall_seconds: float,
    session: SessionOptions,
    *,
    beside_auc: Iterable[tuple[output.Cell, ...]] = (),
    auc_note: str = "",
    sent_note: str = "",
    whole: str = "all roles in this process, one after another",
) -> None:
    """Print an evaluation for a person to read, on stdout.

    `beside_auc` are more rows (label, value, note) below the AUC; `auc_note`, where given, replaces its usual note, and
    `sent_note` says more on the bytes; `whole` is the note on `wall_seconds`, the time that the session took.
    """
    verified = "aggregation" if evaluation.verified else "nothing"
    noticed = f"a lying aggregator would {'' if evaluation.verified else 'not '}be noticed"
    if evaluation.soundness is not None:
        noticed += f", but for a chance below {quantities.bound_text(evaluation.soundness)} (proved)"
    encryption = (f"{evaluation.security_bits}-bit security", evaluation.backend)
    if evaluation.security_bits == 0:
        encryption = ("none", "noise protects what parties send")
    output.print_table(
        [
            _auc(evaluation, auc_note),
            *_interval(evaluation, session.common["interval"]),
            *beside_auc,
            *(() if evaluation.study is None else evaluation.study.rows()),
            ("parties", f"{evaluation.parties:,}", ""),
            *_rows(evaluation),
            ("thresholds", f"{evaluation.thresholds:,}", _thresholds(session)),
            ("protocol", evaluation.protocol, f"trust: {registry.load(evaluation.protocol).trust}"),
            ("verified", verified, f"{noticed}; what parties put in is not verified: a party can enter any rows"),
            ("encryption", *encryption),
            ("keys", evaluation.keys, _KEYS.get(evaluation.keys, "")),
            *_settings(evaluation),
            ("rounds", str(evaluation.rounds), "messages of the aggregator that each party answers"),
            ("a party sent", quantities.bytes_text(evaluation.upload_bytes_per_party), _sent(evaluation) or sent_note),
            ("a party received", quantities.bytes_text(evaluation.download_bytes_per_party), ""),
        ]
    )
    output.print_text()
    rows: list[tuple[output.Cell, ...]] = [
        (phase, quantities.seconds_text(seconds), _who_does_what(phase, evaluation))
        for phase, seconds in _in_order(evaluation.seconds)
    ]
    output.print_table(
        [*rows, ("whole session", quantities.seconds_text(wall_seconds), whole)],
        header=("phase", "time", "who does what"),
        numbers=1,
    )
    output.print_text()
    output.print_warnings(evaluation.warnings)


def _who_does_what(phase: str, evaluation: Evaluation) -> str:
    does = dict(_PHASES)
    if evaluation.security_bits == 0:
        does |= _PHASES_WITHOUT_ENCRYPTION
    return does.get(phase.removeprefix(FIRST_SESSION), "")


def _in_order(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return phases in the order in which they happen, those of a session for thresholds first."""
    order = [prefix + phase for prefix in (FIRST_SESSION, "") for phase in _PHASES]
    return sorted(seconds.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def _thresholds(session: SessionOptions) -> str:
    decimals = session.options.get("round_scores")
    return session.specification if decimals is None else f"every multiple of {_step(decimals)}"


def _step(decimals: int) -> str:
    return f"{10**-decimals:.{decimals}f}"


def _auc(evaluation: Evaluation, own_note: str) -> tuple[output.Cell, ...]:
    value = interval_text(evaluation)
    if math.isnan(evaluation.resolution):
        label, note = "AUC, with noise", "the noise is random and has no bound; fhe-auc compare shows what to expect"
    else:
        error = "sums are exact"
        if evaluation.precision:
            error = f"numerical error < {quantities.bound_text(evaluation.precision)}"
        label, note = "AUC, encrypted", f"the AUC of all rows lies within ({error})"
    return output.styled(label, "bold"), output.styled(value, "bold"), own_note or note


def _interval(evaluation: Evaluation, wanted: float | None) -> list[tuple[output.Cell, ...]]:
    """Return the confidence interval, or why there is none where one was wanted."""
    found = evaluation.interval
    if found is not None:
        note = f"{found.method}; takes rows as independent: repeated patients or alike sites make it too narrow"
        ends = output.styled(f"{found.low:.4f} to {found.high:.4f}", "bold")
        return [(output.styled(f"{100 * found.level:.6g} % interval", "bold"), ends, note)]
    if wanted is None or evaluation.positives is not None:  # where a class is too small, a warning says so
        return []
    return [("interval", "none", f"protocol {evaluation.protocol} releases too little; verified has DeLong's")]


def _rows(evaluation: Evaluation) -> list[tuple[output.Cell, ...]]:
    """Return what a protocol in integers releases beside the AUC, and the AUC over its thresholds as it is."""
    found: list[tuple[output.Cell, ...]] = []
    positives, negatives = evaluation.positives, evaluation.negatives
    if positives is not None and negatives is not None:
        split = f"{positives:,} positive, {negatives:,} negative; released exactly"
        found.append(("rows", f"{positives + negatives:,}", split))
    if evaluation.fraction is not None:
        decimals = evaluation.settings.get("round_scores")
        of = "over these thresholds" if decimals is None else f"of scores rounded to multiples of {_step(decimals)}"
        found.append(("fraction", "exact", f"{evaluation.fraction} {of}"))
    return found


def _settings(evaluation: Evaluation) -> list[tuple[output.Cell, ...]]:
    if not evaluation.settings:
        return []
    shown = (
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}".lower()
        for name, value in evaluation.settings.items()
    )
    return [("settings", "", ", ".join(shown))]


def _sent(evaluation: Evaluation) -> str:
    if not evaluation.key_bytes_per_party:
        return ""
    return f"of which {quantities.bytes_text(evaluation.key_bytes_per_party)} are its parts of the joint keys"


def interval_text(evaluation: Evaluation) -> str:
    """Write AUC ± resolution; the AUC alone where there is no resolution."""
    if math.isnan(evaluation.resolution):
        return f"{evaluation.auc:.6f}"
    shown = round(evaluation.auc, 6)
    # What is rounded off must not push the AUC out of the interval.
    half_width = (evaluation.resolution + abs(evaluation.auc - shown) + evaluation.precision) * 1e6
    upwards = math.ceil(round(half_width, 6)) / 1e6  # 0.027 may be 0.0270…04
    return f"{shown:.6f} ± {upwards:.6f}"
