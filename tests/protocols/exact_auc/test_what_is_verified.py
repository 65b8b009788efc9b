"""What a result that says "verified" covers: every number in it is proved, or says that it is not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import average_precision_score

from fhe_auc.base.quantities import chance_text
from fhe_auc.cli import evaluation_table, main
from fhe_auc.results import estimates, evaluation, heterogeneity, intervals
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.rows.counts import PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.histograms.encrypted_sums import encrypted_sum
from tests.support.exact_sessions import GRID, Play, rows

# --- Every number is sorted -------------------------------------------------------------------------------------------

PROVED, DERIVED, PUBLIC, NOT_VERIFIED = "proved", "derived from proved and public numbers", "public", "not verified"
"""Proved: the theorem of docs/security/verified.md covers the integer. Public: agreed, or counted by the party itself;
the aggregator does not compute it."""

_OUTCOME = {
    "protocol": PUBLIC,
    "backend": PUBLIC,
    "parties": PROVED,  # the theorem is of the sums of just these
    "security_bits": PUBLIC,
    "keys": PUBLIC,
    "rounds": PUBLIC,
    "upload_bytes_per_party": PUBLIC,
    "download_bytes_per_party": PUBLIC,
    "key_bytes_per_party": PUBLIC,
    "seconds": PUBLIC,
    "settings": PUBLIC,  # with epsilon: what follows from the budget too
    "warnings": NOT_VERIFIED,  # text, of the session before as well
    "study": PUBLIC,
}
SORTED: Mapping[type, Mapping[str, str]] = {
    Evaluation: {
        **_OUTCOME,
        "auc": DERIVED,  # D, P, N
        "binning_error": DERIVED,  # ties, P, N
        "numerical_error": PUBLIC,  # 0, or the plan's
        "thresholds": PUBLIC,
        "verified": PUBLIC,
        "histogram": NOT_VERIFIED,  # of protocols that verify nothing
        "fraction": DERIVED,
        "binning_error_fraction": DERIVED,
        "positives": PROVED,
        "negatives": PROVED,
        "standard_error": DERIVED,  # Q10, Q01; with joint keys of the AUC, P and N
        "interval": DERIVED,
        "average_precision": NOT_VERIFIED,  # a proved sum, of entries divided by what the session before has told
        "estimates": DERIVED,
        "comparisons": DERIVED,
        "sites": DERIVED,
        "soundness": PUBLIC,
    },
    QuantileThresholds: {**_OUTCOME, "parties": NOT_VERIFIED, "grid": NOT_VERIFIED, "rows_above": NOT_VERIFIED},
    estimates.Estimate: {
        "model": PUBLIC,
        "group": PUBLIC,
        "contrast": PUBLIC,
        "auc": DERIVED,
        "standard_error": DERIVED,
        "binning_error": DERIVED,
        "interval": DERIVED,
        "positives": PROVED,
        "negatives": PROVED,
        "fraction": DERIVED,
        "missing": DERIVED,
    },
    estimates.Comparison: {
        "first": PUBLIC,
        "second": PUBLIC,
        "difference": DERIVED,
        "binning_error": DERIVED,
        "standard_error": DERIVED,
        "standard_error_off": DERIVED,
        "interval": DERIVED,
        "p_value": DERIVED,
        "missing": DERIVED,
    },
    heterogeneity.SiteSummary: {
        "model": PUBLIC,
        "within": DERIVED,
        "both_classes": PROVED,
        "one_class": DERIVED,
        "usable": PROVED,
        "mean": DERIVED,
        "i2": DERIVED,
        "tau2": DERIVED,
        "prediction": DERIVED,
    },
    intervals.Interval: {"level": PUBLIC, "low": DERIVED, "high": DERIVED, "method": PUBLIC},
}


def names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set(kind._fields)


@pytest.mark.parametrize("kind", SORTED, ids=lambda kind: kind.__name__)
def test_every_field_of_a_result_is_proved_derived_public_or_said_to_be_not_verified(kind: type) -> None:
    assert names(kind) == set(SORTED[kind])


def test_what_tables_and_json_call_by_other_names_is_sorted_too() -> None:
    renamed = {"n", "events", "minus"}  # positives and negatives; the first model of a comparison
    sorted_ones = {name for each in SORTED.values() for name in each}
    assert set(evaluation._FRAME) - renamed <= sorted_ones - {"average_precision", "histogram"}
    found = played_honestly()
    assert set(found.as_dict()) <= set(SORTED[Evaluation])
    assert all(set(each) - renamed <= set(SORTED[estimates.Estimate]) for each in found.as_dict()["estimates"])


def played_honestly() -> Evaluation:
    sites = rows(5, 11)
    request = Request(parties=tuple(data.name for data in sites), thresholds=GRID, max_rows=2000, interval=0.95)
    return one_process.run(registry.evaluating("verified"), request, sites, quiet)


def test_a_verified_result_has_no_number_that_nobody_proves_but_average_precision() -> None:
    """Beside warnings, which are text."""
    unproved = {name for name, sort in SORTED[Evaluation].items() if sort == NOT_VERIFIED} - {"warnings"}
    assert unproved == {"histogram", "average_precision"}
    found = played_honestly()
    assert found.verified
    assert (found.histogram, found.average_precision) == (None, None)
    assert found.as_dict()["verified"] == {"aggregation": True, "parties": False}


# --- A false average precision ----------------------------------------------------------------------------------------


def quiet(*_: object) -> None:
    """Report no progress."""


def sites_of(number: int = 5) -> list[PartyData]:
    rng = np.random.default_rng(3)
    found = []
    for at in range(number):
        labels = rng.random(3000) < 0.05
        scores = np.clip(rng.normal(0.25 + 0.25 * labels, 0.12), 0, 1).round(2)
        found.append(PartyData.from_arrays(f"site {at}", labels, scores))
    return found


def found_by_a_liar(sites: Sequence[PartyData], moved: int, request: Request) -> dict[str, QuantileThresholds]:
    """What parties find in a first session whose aggregator says that so many rows score 0.95 and not 0.25."""
    plugin: Any = registry.finding("boundaries-federated")
    session = plugin.prepare(request)
    delivery = session.delivery()
    aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    computation = aggregator._computation
    plan = computation.plan
    lie = np.zeros((plan.vectors, plan.thresholds), np.int64)
    for score, more in ((0.25, -moved), (0.95, moved)):
        lie[0, int(np.searchsorted(session.manifest.thresholds, score, side="right")) - 1] += more

    def circuit(keys: Any, sums: Any) -> Any:
        keys.add_in_place(sums[0], keys.encrypt(*plan.pack(lie)))
        return encrypted_sum(keys, sums)

    computation._circuit = circuit
    parties = [plugin.party(session.manifest, delivery.parties[data.name], data) for data in sites]
    message = aggregator.start()
    while message is not None:
        for party in parties:
            aggregator.receive(party.name, party.respond(message))
        message = aggregator.finish_round()
    return {party.name: party.result() for party in parties}


def evaluated_after(moved: int) -> Evaluation:
    sites = sites_of()
    plugin = registry.evaluating("verified")
    asked = Request(parties=tuple(data.name for data in sites), thresholds=np.empty(0), max_rows=10**5)
    first, second = plugin.staged(asked, 100)
    found = found_by_a_liar(sites, moved, first)
    told = next(iter(found.values()))
    second = dataclasses.replace(second, thresholds=told.grid, average_precision=True)
    return one_process.run(plugin, second, sites, quiet, None, found)


def test_an_aggregator_that_lies_before_does_not_pass_off_a_false_average_precision_as_verified() -> None:
    sites = sites_of()
    labels, scores = (np.concatenate([getattr(data, name) for data in sites]) for name in ("y_true", "y_score"))
    right = average_precision_score(labels, scores)
    honest, lied = evaluated_after(0), evaluated_after(300)
    assert honest.average_precision == pytest.approx(right, abs=0.02)
    assert lied.average_precision is not None
    assert abs(lied.average_precision - right) > 0.05  # the lie got through
    for each in (honest, lied):
        assert each.as_dict()["verified"] == {"aggregation": True, "parties": False, "average_precision": False}
        ((_, _, note),) = evaluation_table._average_precision(each)
        assert note.startswith("not verified")
        assert "but not in average precision" in str(evaluation_table._verified(each)[-1])
        told = f"{each.average_precision:.4f}"
        assert not any(told in shown for shown in (str(each), each._repr_html_()))  # which have no place for the mark
    assert abs(lied.auc - honest.auc) <= lied.binning_error + honest.binning_error


def test_evaluate_prints_that_average_precision_is_not_verified() -> None:
    printed = CliRunner().invoke(main, ["demo", "--thresholds", "quantile:50"], catch_exceptions=False).stdout
    (line,) = (line for line in printed.splitlines() if line.startswith("average precision"))
    assert "not verified" in line


# --- The chance that a lie passes -------------------------------------------------------------------------------------

SESSIONS = [
    (3, {}, 1),
    (3, {"keys": "joint", "interval": None}, 1),
    (3, {"keys": "helper"}, 3),
    (20, {"keys": "helper"}, 20),
    (100, {"keys": "helper"}, 100),
    (100, {"min_parties": 2}, 50),
    (100, {"min_parties": 60}, 1),
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
    assert play.plan.as_dict()["soundness"] == play.plan.soundness(parties)
    ((_, shown, _),) = (row for row in play.plan.describe() if row.name == "a lie passes")
    assert shown == f"< {chance_text(play.plan.soundness(parties))}"
    if parties == 3 and play.helper is None:
        assert {found.soundness for found in play.read()} == {stated}


def test_not_every_session_is_below_2_to_the_minus_40() -> None:
    helped = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, keys="helper", backend="tenseal")
    sealed = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, min_parties=2, backend="tenseal")
    assert [chance_text(each.plugin.soundness(each.manifest)) for each in (helped, sealed)] == ["2^-33.3", "2^-34.3"]


def test_protocols_that_prove_nothing_state_no_chance() -> None:
    play = Play("exact", rows(3, 5), GRID, backend="tenseal")
    assert play.plugin.soundness(play.manifest) is None
    assert "a lie passes" not in {row.name for row in play.plan.describe()}
    assert play.read()[0].soundness is None
