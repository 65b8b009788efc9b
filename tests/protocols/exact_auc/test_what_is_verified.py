"""What a result that says "verified" covers: every number in it is proved, or says that it is not."""

import dataclasses
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.quantities import chance_text
from fhe_auc.results import estimates, evaluation, heterogeneity, intervals
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.session import one_process, registry
from fhe_auc.session.protocol import Request
from tests.support.exact_sessions import GRID, Play, rows

PROVED, DERIVED, PUBLIC, NOT_VERIFIED = "proved", "derived from proved and public numbers", "public", "not verified"
"""Proved: the theorem of docs/security/verified.md covers the integer. Public: agreed, or counted by the party itself;
the aggregator does not compute it."""


def sorted_as(proved: str = "", derived: str = "", public: str = "", not_verified: str = "") -> dict[str, str]:
    kinds = {PROVED: proved, DERIVED: derived, PUBLIC: public, NOT_VERIFIED: not_verified}
    return {name: kind for kind, fields in kinds.items() for name in fields.split()}


_OUTCOME = sorted_as(
    proved="parties",  # the theorem is of the sums of just these
    public="protocol backend security_bits keys rounds upload_bytes_per_party download_bytes_per_party "
    "seconds settings study verified soundness",  # with epsilon, what follows from the budget too
    # Text, of the session before as well; and what both servers of a session with proofs say
    not_verified="warnings unproved_parties",
)
SORTED: Mapping[type, Mapping[str, str]] = {
    Evaluation: _OUTCOME
    | sorted_as(
        proved="positives negatives histogram",  # the last by two tags; None with verified
        # D, P and N; ties; Q10 and Q01
        derived="auc binning_error fraction binning_error_fraction standard_error interval estimates comparisons sites",
        public="numerical_error thresholds inputs_proved inputs_not_proved decimals",  # 0, None, or the plan's
    ),
    QuantileThresholds: _OUTCOME | sorted_as(derived="grid"),
    estimates.GroupEstimate: sorted_as(
        "positives negatives", "auc standard_error binning_error interval fraction missing", "model group contrast"
    ),
    estimates.Comparison: sorted_as(
        derived="difference binning_error standard_error standard_error_off interval p_value p_at_most p_holm missing",
        public="first second",
    ),
    heterogeneity.SiteSummary: sorted_as(
        "both_classes usable",
        "within within_interval one_class mean i2 tau2 prediction random_mean random_interval",
        "model",
    ),
    intervals.Interval: sorted_as(derived="low high", public="level method"),
}


def names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set(kind._fields)


@pytest.mark.parametrize("kind", SORTED, ids=lambda kind: kind.__name__)
def test_every_field_of_a_result_is_proved_derived_public_or_said_to_be_not_verified(kind: type) -> None:
    assert names(kind) == set(SORTED[kind])


PROOFS = Path(__file__).parents[3] / "proofs"


def test_the_proofs_page_says_of_every_field_which_theorem_covers_it_or_that_none_does() -> None:
    rows = re.findall(r"^\| `(\w+)`: ([^|]+) \| ([^|]+) \|$", (PROOFS / "README.md").read_text("utf-8"), re.MULTILINE)
    told = {(kind, name): text for kind, fields, text in rows for name in re.findall(r"`(\w+)`", fields)}
    theorems = set(re.findall(r"^Print Assumptions (\w+)\.", (PROOFS / "Check.v").read_text("utf-8"), re.MULTILINE))
    beginnings = {PROVED: "`", DERIVED: "from `", PUBLIC: "not covered: ", NOT_VERIFIED: "not covered: "}
    sorts = {(kind.__name__, name): sort for kind, fields in SORTED.items() for name, sort in fields.items()}
    for (kind, name), sort in sorts.items():
        text = told.get((kind, name), "")
        assert text.startswith(beginnings[sort]), (
            f"proofs/README.md, last table: add `{name}` to a row of `{kind}` that begins with {beginnings[sort]!r} "
            f"(here it is {sort}): a theorem of Check.v, or why none covers it; found {text!r}"
        )
        assert sort in (PUBLIC, NOT_VERIFIED) or theorems & set(re.findall(r"`(\w+)`", text)), (kind, name, text)
    assert set(told) == set(sorts), "proofs/README.md, last table: it names fields that no result has"


def test_what_tables_and_json_call_by_other_names_is_sorted_too() -> None:
    renamed = {
        "n",
        "events",
        "minus",
        "variable",
        "confidence",
    }  # rows; the first model; a group's; an interval's level
    sorted_ones = {name for each in SORTED.values() for name in each}
    assert {*evaluation._OF_AUCS, *evaluation._OF_DIFFERENCES} - renamed <= sorted_ones - {"histogram"}
    found = played_honestly()
    assert set(found.as_dict()) <= set(SORTED[Evaluation])
    assert all(set(each) - renamed <= set(SORTED[estimates.GroupEstimate]) for each in found.as_dict()["estimates"])


def played_honestly() -> Evaluation:
    sites = rows(5, 11)
    request = Request(parties=tuple(data.name for data in sites), thresholds=GRID, max_rows=2000, interval=0.95)
    return one_process.run(registry.evaluating("verified"), request, sites, quiet)


def quiet(*_: object) -> None:
    """Report no progress."""


def test_a_verified_result_has_no_number_that_nobody_proves() -> None:
    """Beside warnings, which are text, and names."""
    not_verified = {name for name, sort in SORTED[Evaluation].items() if sort == NOT_VERIFIED}
    assert not_verified == {"warnings", "unproved_parties"}
    found = played_honestly()
    assert found.verified
    assert found.as_dict()["verified"] == {"aggregation": True, "parties": False}


SESSIONS = [
    (3, {}, 1),
    (3, {"keys": "helper"}, 3),
    (20, {"keys": "helper"}, 20),
    (20, {}, 1),
]
"""Parties, the rest of the request, and how many of them, or groups, may be given results of their own."""


@pytest.mark.parametrize(("parties", "request_of", "tries"), SESSIONS)
def test_a_session_states_the_proved_chance_that_a_lie_passes(
    parties: int, request_of: dict[str, Any], tries: int
) -> None:
    sites = rows(parties, 5)
    play = Play("verified", sites, GRID, max_rows=10_000, backend="tenseal", **{"interval": 0.95, **request_of})
    degree = 3 if play.plan.interval else 2
    exact = Fraction(tries * degree, min(play.plan.parameters.plain_moduli) - 1)
    stated = play.plugin.soundness(play.manifest)
    assert stated == pytest.approx(float(exact), rel=1e-12)
    assert math.log2(exact) <= float(chance_text(stated).removeprefix("2^")) <= math.log2(exact) + 0.1
    assert play.plan.as_dict()["soundness"] == play.plan.soundness
    ((_, shown, _),) = (row for row in play.plan.describe() if row.name == "a lie passes")
    assert shown == f"< {chance_text(play.plan.soundness)}"
    if parties == 3 and play.helper is None:
        assert {found.soundness for found in play.read()} == {stated}


def test_not_every_session_is_below_2_to_the_minus_40_and_one_that_proves_nothing_states_no_chance() -> None:
    helped = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, keys="helper", backend="tenseal")
    sealed = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, backend="tenseal")
    assert [chance_text(each.plugin.soundness(each.manifest)) for each in (helped, sealed)] == ["2^-33.3", "2^-40"]
    play = Play("exact", rows(3, 5), GRID, backend="tenseal")
    assert "a lie passes" not in {row.name for row in play.plan.describe()}
    assert (play.plugin.soundness(play.manifest), play.read()[0].soundness) == (None, None)
