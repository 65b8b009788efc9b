"""Exact sessions with real encryption: AUC, half-width, P and N are those of the rows, as integers say."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score

from fhe_auc.base.errors import InputError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.base.serialise import decode
from fhe_auc.bfv.context import StoredPublic
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.intervals import hanley_mcneil, on_logit_scale
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.one_process import run
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.roles.echo import Echo
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.roles.padded_roles import padded_party
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.padded_computation import ExactPaddedComputation
from fhe_auc_protocols.exact_auc.precision_sum import precision_bits
from tests.support import delong
from tests.support.chosen import federated_auc, federated_thresholds
from tests.support.exact_sessions import (
    BACKENDS,
    GRID,
    PLUGINS,
    Play,
    all_keys,
    both_backends,
    both_protocols,
    found_in,
    pairs_of,
    rows,
)
from tests.support.pooled import pooled, pooled_counts
from tests.support.wire import payload_of

slow = partial(pytest.param, marks=pytest.mark.slow)


def mann_whitney(y_true: np.ndarray, y_score: np.ndarray) -> tuple[Fraction, Fraction]:  # type: ignore[type-arg]
    """AUC and share of tied pairs by counting them, in integers."""
    at = {label: Counter(y_score[y_true == label].tolist()) for label in (True, False)}
    below = np.sort(y_score[~y_true])
    tied = sum(number * at[False][value] for value, number in at[True].items())
    right = sum(number * int(np.searchsorted(below, value)) for value, number in at[True].items())
    pairs = at[True].total() * at[False].total()
    return Fraction(2 * right + tied, 2 * pairs), Fraction(tied, pairs)


# --- What a session yields --------------------------------------------------------------------------------------------


@both_backends
@both_protocols
def test_every_party_finds_the_integers_of_the_rows(protocol: str, backend: str) -> None:
    for seed in range(3):
        play = Play(protocol, rows(3, seed), backend=backend)
        assert len(list(play.messages())) == (3 if protocol == "verified" else 2)
        for party in play.parties:
            found = party.result()
            assert found_in(found) == pairs_of(play.sites)
            assert (found.auc, found.binning_error) == (float(found.fraction), float(found.binning_error_fraction))
            assert (found.verified, found.numerical_error, found.keys) == (protocol == "verified", 0.0, "sealed")
        assert play.aggregator.result().counted == play.manifest.parties


@both_backends
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
@pytest.mark.parametrize("number", [2, 6])
def test_with_joint_keys_they_are_the_same(protocol: str, number: int, backend: str) -> None:
    """Of four primes three are left, as messages show: all first parts of keys, result, and all partial decryptions."""
    play = Play(protocol, rows(number, 20), keys="joint", backend=backend)
    _, commitments, keys, result, partials = map(len, play.messages())
    polynomial, envelopes = 8192 * 6 * 3, 2_000 * (number + 1)
    assert commitments < 200 * (number + 1)
    for size, polynomials in ((keys, 2 * number), (result, 2), (partials, number)):
        assert polynomials * polynomial < size < polynomials * polynomial + envelopes
    planned = play.plan.download_bytes
    for found in (party.result() for party in play.parties):
        assert found_in(found) == pairs_of(play.sites)
        assert (found.keys, found.verified, found.backend) == ("joint", protocol == "verified", backend)
        assert planned < found.download_bytes_per_party < planned + 4 * envelopes
        assert found.key_bytes_per_party == play.plan.key_bytes == 4 * polynomial


_NO_LIBRARY = """
import json, sys
sys.modules["openfhe"] = sys.modules["tenseal"] = None  # importing either fails
from fhe_auc.rlwe.backends import available_backends
from tests.support.exact_sessions import Play, found_in, pairs_of, rows
from unittest import mock

assert available_backends() == ()
with mock.patch("fhe_auc_protocols.exact_auc.protocol.choose_backend", lambda name: "tenseal"):
    play = Play("verified", rows(2, 20), keys="joint")
print(json.dumps([found_in(each) == pairs_of(play.sites) for each in play.read()]))
"""


def test_with_joint_keys_no_party_and_no_aggregator_needs_an_encryption_library(run_child: Any) -> None:
    """So sites with either of them take part in one session."""
    assert run_child(_NO_LIBRARY) == [True, True]


@all_keys
@pytest.mark.parametrize(
    ("grid", "ciphertexts"), [("uniform:2", 1), ("uniform:454", 1), ("uniform:455", 2), ("hybrid:3000", 7)]
)
def test_any_number_of_thresholds_does(grid: str, ciphertexts: int, keys: str) -> None:
    """A bin takes 18 slots of an opening: three for each of two products at three points."""
    play = Play("verified", rows(2, 5), thresholds.resolve(grid), keys=keys)
    if keys == "sealed":
        assert play.plan.layout.ciphertexts == ciphertexts
    for found in play.read():
        assert found_in(found) == pairs_of(play.sites, play.grid)


@pytest.mark.parametrize("number", [1, 2, 30])
def test_any_number_of_parties_does(number: int) -> None:
    data = rows(number, 70 + number)
    found = federated_auc(data, protocol="verified", thresholds=GRID, max_rows=10_000)
    assert (found_in(found), found.parties) == (pairs_of(data), number)


@pytest.mark.backends("one")
@both_backends
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
def test_a_thousand_parties_do(protocol: str, backend: str) -> None:
    """They share what they have loaded; one of them reads."""
    data = rows(1000, 3, most=5)
    names = tuple(each.name for each in data)
    session = PLUGINS[protocol].prepare(Request(parties=names, thresholds=GRID, max_rows=10_000, backend=backend))
    computation = ExactPaddedComputation(session.manifest)
    secret = computation.load_secret(session.common.context)
    aggregator = PLUGINS[protocol].aggregator(session.manifest, session.aggregator_material)
    parties = [
        padded_party(
            session.manifest,
            computation,
            secret,
            PLUGINS[protocol].task(session.manifest, each),
            Echo() if protocol == "verified" else None,
            common_secret=session.common.common_secret,
            seed=session.seeds[each.name],
        )
        for each in data
    ]
    message = aggregator.start()
    while aggregator.round < aggregator.rounds:
        for party in parties:
            aggregator.receive(party.name, party.respond(message))
        message = aggregator.finish_round()  # type: ignore[assignment]
    parties[-1].respond(message)
    assert found_in(parties[-1].result()) == pairs_of(data)


@both_protocols
@pytest.mark.parametrize(("max_rows", "primes"), [(2 * 10**6, 1), (3 * 10**6, 1), (10**8, 2)])
def test_one_small_prime_one_large_one_or_two_do(protocol: str, max_rows: int, primes: int) -> None:
    for backend in BACKENDS:
        play = Play(protocol, rows(3, 8), max_rows=max_rows, backend=backend)
        assert play.plan.primes == primes
        assert play.plan.kept == (2 if max_rows == 3 * 10**6 else 1)
        for found in play.read():
            assert found_in(found) == pairs_of(play.sites)
            assert found.soundness is None or found.soundness == 2 / (min(play.plan.parameters.plain_moduli) - 1)


@both_backends
def test_as_many_rows_as_there_may_be_come_out_however_the_model_orders_them(backend: str) -> None:
    """The difference is as large as the prime allows, of either sign; with one row more the planner takes another."""
    most = next(n for n in range(2**21, 2**22) if 2 * ((n + 1) ** 2 // 4) >= primes_above(2**41, 1, 8192)[0])
    labels = np.arange(most) < most // 2
    for scores in (labels, ~labels):
        data = [PartyData.from_arrays("site 0", labels, scores.astype(float))]
        (found,) = Play("verified", data, thresholds.uniform(2), max_rows=most, backend=backend).read()
        assert found_in(found) == (Fraction(int(scores[0])), 0, most // 2, most - most // 2)
        assert found.settings["primes"] == 1


@all_keys
@both_protocols
@pytest.mark.parametrize("ones", [0.0, 1.0])
def test_rows_of_one_class_have_no_auc_and_nothing_else_is_wrong(protocol: str, keys: str, ones: float) -> None:
    play = Play(protocol, rows(3, 1, ones=ones), keys=keys)
    list(play.messages())
    missing = "negative" if ones else "positive"
    for party in play.parties:
        with pytest.raises(UndefinedAucError, match=f"hold no {missing} row") as caught:
            party.result()
        assert str(caught.value).endswith("this is verified") == (protocol == "verified")


# --- Thresholds, rounding, and what is said ---------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", ["covid-clinics", "credit-default"])
def test_bundled_data_give_scikit_learns_auc_of_rounded_scores_to_the_last_bit(dataset: str) -> None:
    parties = datasets.load(dataset)
    found, rows_ = federated_auc(parties, protocol="verified", round_scores=3), pooled(parties)
    rounded = rows_.y_score.round(3)
    auc, tied = mann_whitney(rows_.y_true, rounded)
    assert found_in(found) == (auc, tied / 2, int(rows_.y_true.sum()), int((~rows_.y_true).sum()))
    assert found.auc == pytest.approx(roc_auc_score(rows_.y_true, rounded), abs=3e-16)
    assert abs(found.auc - roc_auc_score(rows_.y_true, rows_.y_score)) <= found.binning_error
    assert found.thresholds == 1001


@pytest.mark.parametrize("dataset", ["covid-clinics", "credit-default"])
def test_by_default_the_auc_is_verified_and_within_1e_4_of_scikit_learns(dataset: str) -> None:
    parties = datasets.load(dataset)
    found, truth = federated_auc(parties), roc_auc_score(pooled(parties).y_true, pooled(parties).y_score)
    assert (found.protocol, found.thresholds) == ("verified", 5000)
    assert abs(found.auc - truth) <= min(found.binning_error, 1e-4)


@pytest.mark.parametrize("grid", ["hybrid:1000", "uniform:100"])
def test_scikit_learns_auc_lies_inside_the_interval_and_the_fraction_is_the_trapezoids(grid: str) -> None:
    parties = datasets.load("credit-default")
    found, expected = (
        federated_auc(parties, protocol="verified", thresholds=grid),
        trapezoid(pooled_counts(parties, thresholds.resolve(grid))),
    )
    assert found.fraction == expected.fraction
    assert found.binning_error == expected.binning_error
    assert abs(found.auc - roc_auc_score(pooled(parties).y_true, pooled(parties).y_score)) <= found.binning_error


@both_protocols
@pytest.mark.parametrize("seed", range(3))
def test_the_half_width_holds_for_the_rows_as_they_are_and_not_as_rounded(protocol: str, seed: int) -> None:
    """Scores below 0.05, as of a rare outcome: one decimal ties most pairs, and nearly all that tells them apart."""
    generator = np.random.default_rng(seed)
    y_true = generator.random(120) < 0.3
    y_score = 0.05 * generator.random(120) ** 2 + 0.04 * y_true * generator.random(120)
    parties = [PartyData.from_arrays(f"site {k}", y_true[k::2], y_score[k::2]) for k in range(2)]
    found = federated_auc(parties, protocol=protocol, round_scores=1, max_rows=1000)
    truth, (auc, tied) = roc_auc_score(y_true, y_score), mann_whitney(y_true, y_score.round(1))
    assert (found.fraction, found.binning_error_fraction) == (auc, tied / 2)
    assert 0.02 < abs(found.auc - truth) <= found.binning_error  # the rounding costs so much, and has to be said
    assert found.settings["round_scores"] == 1
    assert "more decimals tell more of them apart" in " ".join(found.warnings)


@both_protocols
def test_scores_rounded_to_the_most_decimals_are_not_to_be_rounded_to_more(protocol: str) -> None:
    generator = np.random.default_rng(1)
    parties = [PartyData.from_arrays(f"site {k}", [0, 1] * 40, 1e-6 * generator.random(80)) for k in range(2)]
    told = " ".join(federated_auc(parties, protocol=protocol, round_scores=5).warnings)
    assert "do not round them, but take quantile:1000" in told
    assert "more decimals" not in told


@pytest.mark.parametrize(
    ("value", "why"), [(0, "from 1 to 5"), (9, "from 1 to 5"), ("3", "whole number"), (True, "whole number")]
)
def test_bad_numbers_of_decimals_are_refused(value: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        federated_auc(rows(2, 11), protocol="verified", round_scores=value)


@pytest.mark.parametrize("others", ["uniform:100", "quantile:20"])
def test_rounded_scores_have_their_own_thresholds(others: str) -> None:
    with pytest.raises(InputError, match="give no others"):
        federated_auc(rows(2, 12), protocol="verified", round_scores=3, thresholds=others)


@both_protocols
def test_a_manifest_that_rounds_to_other_scores_than_its_thresholds_is_refused(protocol: str) -> None:
    """It would have a result over coarse thresholds say that it is the AUC of finely rounded scores."""
    play = Play(protocol, rows(2, 15), thresholds.decimals(2), options={"round_scores": 2})
    manifest = msgspec.structs.replace(play.manifest, options={"round_scores": 3})
    with pytest.raises(InputError, match="does not fit its round_scores"):
        play.party(play.sites[0], manifest)


@pytest.mark.parametrize("score", [1.5, 1.0000001, -1e-9])
def test_scores_outside_the_unit_interval_cannot_be_rounded(score: float) -> None:
    data = PartyData.from_arrays("odd", [0, 1], [0.5, score])
    with pytest.raises(InputError, match=f"'odd', row 1: score is {re.escape(repr(score))}, but"):
        federated_auc([data, *rows(1, 13)], protocol="verified", round_scores=2)


def test_numbers_may_be_numpys() -> None:
    numbers = {"max_rows": np.int64(1000), "min_rows": np.uint8(2), "round_scores": np.int32(2)}
    found = federated_auc(rows(2, 12), protocol="verified", **numbers)  # type: ignore[arg-type]
    assert found.fraction == federated_auc(rows(2, 12), protocol="verified", round_scores=2).fraction
    with pytest.raises(InputError, match=r"max_rows must be an integer, got 2\.5"):
        federated_auc(rows(2, 12), protocol="verified", max_rows=2.5)  # type: ignore[arg-type]


@both_protocols
def test_results_warn_of_thresholds_that_do_not_fit_and_of_a_pool_of_one(protocol: str) -> None:
    (coarse,) = federated_auc(rows(3, 8), protocol=protocol, thresholds=[-1.0, 2.0], interval=None).warnings
    assert "many pairs of rows are not told apart" in coarse
    assert "equal, nothing helps; where scores differ, take quantile:1000" in coarse
    (alone,) = federated_auc(rows(1, 12), protocol=protocol, round_scores=3, interval=None).warnings
    assert alone.startswith("there is only one party")


def crowded(seed: int = 1) -> list[PartyData]:
    """Three sites' scores between 0.6 and 0.601, whose AUC is about 0.8."""
    generator = np.random.default_rng(seed)
    y_true = generator.random(1500) < 0.4
    y_score = 0.6 + 0.001 * generator.beta(np.where(y_true, 4, 2), np.where(y_true, 2, 3))
    return [PartyData.from_arrays(f"site {at}", y_true[at::3], y_score[at::3]) for at in range(3)]


def test_an_interval_that_thresholds_leave_open_is_widened_in_every_form_until_quantiles_close_it() -> None:
    parties = crowded()
    truth = roc_auc_score(*(np.concatenate([getattr(each, of) for each in parties]) for of in ("y_true", "y_score")))
    found = federated_auc(parties, protocol="exact")
    assert found.standard_error is not None
    assert found.binning_error > found.standard_error
    assert found.interval is not None
    assert found.interval.low < truth < found.interval.high
    assert found.interval.high - found.interval.low > 2 * found.binning_error
    assert "widened by the binning error" in str(found)
    assert found.as_dict()["estimates"][0]["interval"]["method"] == "DeLong, logit scale, widened by the binning error"
    (told,) = (each for each in found.warnings if "many pairs" in each)
    assert "the interval is widened by it" in told
    assert "quantile:1000" in told
    few = federated_auc(parties, protocol="exact", thresholds="quantile:40", interval=None)  # cells are cut for these
    assert few.average_precision is None
    assert "quantile" not in " ".join(each for each in few.warnings if "take" in each)  # that has been followed
    (told,) = (each for each in few.warnings if "many pairs" in each)
    assert "ask for more quantile thresholds" in told
    fitted = federated_auc(parties, protocol="exact", thresholds="quantile:1000")
    assert fitted.auc == pytest.approx(truth, abs=1e-4)
    assert fitted.interval is not None
    assert fitted.interval.method == "DeLong, logit scale"
    assert not any("many pairs" in each for each in fitted.warnings)


def test_a_quarter_of_the_standard_error_is_where_a_binning_error_begins_to_be_told() -> None:
    y_true, y_score = np.tile([0, 1, 1, 0, 1], 40), np.tile([0.2, 0.4, 0.6, 0.8, 0.9], 40)
    grid = np.linspace(0, 1, 11)
    for tied, warned in ((20, False), (40, True)):
        scores = np.where((np.arange(200) < tied) & (y_score == 0.8), 0.6, y_score)
        found = federated_auc([(y_true, scores)], protocol="exact", thresholds=grid)
        assert found.standard_error is not None
        assert (found.binning_error > found.standard_error / 4) == warned
        assert any("a quarter of the standard error" in each for each in found.warnings) == warned
        assert found.interval is not None
        assert found.interval.method == "DeLong, logit scale"


def test_rounded_scores_are_what_is_asked_for_so_their_interval_is_never_widened() -> None:
    found = federated_auc(crowded(), protocol="exact", round_scores=3)
    assert found.standard_error is not None
    assert found.binning_error > found.standard_error
    assert found.interval is not None
    assert found.interval.method == "DeLong, logit scale"


def test_an_interval_below_one_half_says_that_labels_or_scores_may_be_reversed() -> None:
    y_true, y_score = np.tile([1, 1, 1, 0, 0], 30), np.tile([0.1, 0.2, 0.5, 0.4, 0.9], 30)
    for scores, told in ((y_score, True), (1 - y_score, False)):
        found = federated_auc([(y_true, scores)], protocol="exact")
        assert any("labels or scores may be reversed" in each for each in found.warnings) == told


def test_few_rows_for_an_auc_near_1_are_warned_of_and_the_binning_error_of_every_model() -> None:
    labels, scores, constant = imputed(0)
    few = np.arange(1000) < 40
    table = {"y": few, "a": np.where(few, 0.5 + scores / 2, scores / 2 + 0.01), "site": np.arange(1000) // 500}
    table["a"][:3] = 0.3
    assert any("AUC so near to 1" in each for each in federated_auc(table, site="site", label="y", score="a").warnings)
    table = {"y": labels, "a": scores, "b": constant, "site": np.arange(1000) // 500}
    told = federated_auc(table, site="site", label="y", score=["a", "b"]).warnings
    assert any(each.startswith("the binning error, too, exceeds") and each.endswith(": b") for each in told)
    assert not any("AUC so near to 1" in each for each in told)


def test_rows_of_one_group_against_anothers_may_be_below_one_half() -> None:
    y_true, sexes = np.tile([1, 1, 0, 0], 60), np.tile(["f", "m"], 120)
    scores = np.where(sexes == "f", 0.2, 0.5) + np.random.default_rng(1).uniform(0, 0.4, 240) + 0.05 * y_true
    table = {"y_true": y_true, "y_score": scores, "sex": sexes, "site": np.arange(240) // 120}
    found = federated_auc(table, site="site", by="sex", cross_groups=True, protocol="exact")
    assert any(each.interval is not None and each.interval.high < 0.5 for each in found.estimates)
    assert not any("reversed" in each for each in found.warnings)


def test_a_class_below_one_half_is_told_that_its_column_may_be_anothers() -> None:
    labels = np.tile(["a", "b", "c"], 80)
    of = {name: 0.3 + 0.3 * (labels == name) + np.random.default_rng(2).uniform(0, 0.2, 240) for name in "abc"}
    table = {"y": labels, "a": of["b"], "b": of["a"], "c": of["c"], "site": np.arange(240) // 120}
    found = federated_auc(table, site="site", label="y", score=[*"abc"], classes=[*"abc"], protocol="exact")
    told = [each for each in found.warnings if "below 1/2" in each]
    assert {each.split(":")[0] for each in told} >= {"a a from others", "b b from others"}
    assert all(each.endswith("the column of its scores may be another class's") for each in told)


def test_the_plain_interval_is_an_option_that_the_session_agrees_on() -> None:
    found = federated_auc(rows(3, 8), protocol="exact", plain_interval=True)
    assert found.standard_error is not None
    assert found.interval is not None
    ends = found.auc - 1.959963985 * found.standard_error, found.auc + 1.959963985 * found.standard_error
    assert (found.interval.low, found.interval.high) == pytest.approx(np.clip(ends, 0, 1), abs=1e-9)
    assert found.interval.method == "DeLong, plain"
    assert found.settings["plain_interval"] is True


def test_results_as_json_have_fractions_and_numbers_of_rows() -> None:
    found: Evaluation = federated_auc(rows(2, 12), protocol="verified", thresholds=GRID)
    plain = found.as_dict()
    auc, half_width, positives, negatives = pairs_of(rows(2, 12))
    assert (plain["fraction"], plain["binning_error_fraction"]) == (str(auc), str(half_width))
    assert (plain["positives"], plain["negatives"]) == (positives, negatives)
    assert plain["soundness"] < 2**-40


# --- More rows than were agreed on ------------------------------------------------------------------------------------


@both_protocols
def test_a_party_with_more_rows_than_the_session_may_have_is_refused(protocol: str) -> None:
    data = PartyData.from_arrays("big", [0, 1] * 600, [0.5] * 1200)
    with pytest.raises(InputError) as caught:
        Play(protocol, [data, *rows(1, 9)], max_rows=1000)
    assert str(caught.value) == (
        "party 'big' alone has 1,200 rows, 200 more than max_rows = 1,000; give --max-rows 1200 (max_rows=1200) or more"
    )


@pytest.mark.parametrize(("protocol", "error"), [("exact", ResultCheckError), ("verified", VerificationError)])
def test_more_rows_together_give_no_number_and_just_as_many_do(protocol: str, error: type[Exception]) -> None:
    data = rows(20, 10)
    number = sum(len(each.y_true) for each in data)
    found = federated_auc(data, protocol=protocol, thresholds=GRID, max_rows=number)
    assert found_in(found) == pairs_of(data)
    with pytest.raises(error) as caught:  # between sites it is the result that tells
        Play(protocol, data, max_rows=number - 1).read()
    assert isinstance(caught.value, (ResultCheckError, VerificationError))
    assert caught.value.check == "rows"
    assert str(caught.value) == (
        f"no number is given: the parties have {number:,} rows in all, 1 more than max_rows = {number - 1:,}; "
        f"give --max-rows {number} (max_rows={number}) or more"
    )


@both_protocols
def test_as_many_rows_as_all_parties_can_have_are_told_from_fewer(protocol: str) -> None:
    """Twenty parties of ten rows each where ten are the most: the count would be the same modulo less."""
    data = [PartyData.from_arrays(f"site {number}", [0, 1] * 5, [0.1, 0.9] * 5) for number in range(20)]
    with pytest.raises((ResultCheckError, VerificationError), match="200 rows in all, 190 more than max_rows = 10;"):
        Play(protocol, data, max_rows=10, min_rows=2).read()


@pytest.mark.backends("one")
@both_backends
def test_one_process_plays_any_number_of_parties_in_little_more_memory(backend: str) -> None:
    """A secret key in memory has half a megabyte, a result 0.1 MB."""

    def peak(number: int) -> int:
        sites = [PartyData.from_arrays(f"site {party}", [0, 1], [0.2, 0.7]) for party in range(number)]
        tracemalloc.start()
        try:
            federated_auc(sites, thresholds=GRID, backend=backend)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)  # loads what is loaded once
    assert peak(80) - peak(20) < 60 * 20_000


# --- Intervals --------------------------------------------------------------------------------------------------------


@both_backends
@both_protocols
@pytest.mark.parametrize("max_rows", [2000, 10**6])
def test_the_encrypted_standard_error_is_that_of_the_binned_rows(protocol: str, backend: str, max_rows: int) -> None:
    play = Play(protocol, rows(4, 30), max_rows=max_rows, interval=0.9, backend=backend)
    pool = pooled(play.sites)
    at = np.searchsorted(GRID, pool.y_score, side="right")
    auc, expected = delong.of_rows(at[pool.y_true], at[~pool.y_true])
    for found in play.read():
        assert found.auc == pytest.approx(auc, abs=1e-12)
        assert found.standard_error == pytest.approx(expected, rel=1e-9)
        assert found.interval is not None
        assert (found.interval.level, found.interval.method) == (0.9, "DeLong, logit scale")
        assert found.interval.low < found.auc < found.interval.high
        assert found_in(found) == pairs_of(play.sites)


@both_protocols
def test_with_joint_keys_the_interval_is_hanley_and_mcneils(protocol: str) -> None:
    for found in Play(protocol, rows(3, 31), interval=0.95, keys="joint").read():
        assert found.fraction is not None
        assert found.positives is not None
        assert found.negatives is not None
        expected = hanley_mcneil(found.fraction, found.positives, found.negatives)
        assert found.standard_error == expected
        assert found.interval == on_logit_scale(found.fraction, expected, 0.95, "Hanley and McNeil, logit scale")


@pytest.mark.parametrize("name", datasets.NAMES)
@pytest.mark.parametrize(("grid", "close"), [slow("hybrid:1000", 5e-3), ("hybrid:4000", 1e-3)])
def test_on_the_bundled_sets_thresholds_hardly_change_the_standard_error(name: str, grid: str, close: float) -> None:
    parties = datasets.load(name)
    pool = pooled(parties)
    expected = delong.of_rows(pool.y_score[pool.y_true], pool.y_score[~pool.y_true])[1]
    found = federated_auc(parties, protocol="exact", thresholds=grid, max_rows=20_000)
    assert found.standard_error == pytest.approx(expected, rel=close)


@pytest.mark.parametrize(("number", "warned"), [(29, True), (30, False)])
def test_few_rows_of_a_class_are_told_beside_the_interval(number: int, warned: bool) -> None:
    ones, zeros = np.linspace(0.3, 0.9, number), np.linspace(0.1, 0.7, 50)
    rows_ = (np.repeat([1, 0], [number, 50]), np.concatenate([ones, zeros]))
    found = federated_auc([rows_, ([0], [0.5])], thresholds="uniform:100")
    assert found.interval is not None
    assert any("fewer than 30 positive or negative rows" in warning for warning in found.warnings) == warned


@both_protocols
@pytest.mark.parametrize(
    "sites",
    [
        [([0, 0, 1], [0.1, 0.3, 0.2]), ([0], [0.4])],  # one positive row
        [([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])],  # the classes do not overlap
        [([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5])],
    ],
)
def test_where_rows_allow_no_interval_a_warning_says_so(
    protocol: str, sites: list[tuple[list[int], list[float]]]
) -> None:
    found = federated_auc(sites, protocol=protocol, thresholds="uniform:100")
    assert found.interval is None
    assert any("there is no confidence interval" in warning for warning in found.warnings)


def test_a_session_without_an_interval_releases_four_integers() -> None:
    found = federated_auc(rows(2, 32), interval=None)
    assert (found.interval, found.standard_error) == (None, None)
    assert not any("interval" in warning for warning in found.warnings)
    assert [each.name for each in Play("verified", rows(2, 32)).plan.release.sums] == ["difference", "ties", "N", "P"]


def test_a_manifest_whose_plan_and_interval_do_not_fit_is_refused() -> None:
    with_it, without = (Play("verified", rows(2, 33), interval=level) for level in (0.95, None))
    for play, options in ((with_it, {}), (without, {"interval": 0.95})):
        bad = msgspec.structs.replace(play.manifest, options=options)
        with pytest.raises(InputError, match="has an interval, and its plan not the sums for it, or the reverse"):
            play.party(play.sites[0], bad)
    for level in (2.0, "wide"):
        with pytest.raises(InputError, match="the level of an interval"):
            with_it.party(with_it.sites[0], msgspec.structs.replace(with_it.manifest, options={"interval": level}))


# --- What travels -----------------------------------------------------------------------------------------------------


@both_backends
@both_protocols
def test_a_party_sends_as_many_bytes_as_planned_and_keys_have_no_relinearisation_and_no_rotation(
    protocol: str, backend: str
) -> None:
    play = Play(protocol, rows(2, 6), thresholds.hybrid(1000), backend=backend)
    message = play.aggregator.start()
    parts = decode(payload_of(play.parties[0].respond(message)), tuple[bytes, ...], "submission")
    assert [len(part) for part in parts] == [play.plan.submission_bytes]
    context = public_context(play.session.aggregator_material)[0]
    _, stored = wire_format.open_any("public BFV context", context)
    assert decode(stored, StoredPublic, "keys").relinearisation_key == b""
    polynomial = play.plan.parameters.polynomial_bytes()
    ciphertexts = play.plan.layout.ciphertexts
    # One half of a public key and of each ciphertext of the opening, and nothing else of their size.
    assert 0 < len(play.session.aggregator_material) - (1 + ciphertexts) * polynomial < polynomial / 2


@both_backends
@both_protocols
def test_the_aggregators_bundle_has_at_most_2_mb_with_4000_thresholds_and_100_parties(
    protocol: str, backend: str
) -> None:
    names = tuple(f"site {party}" for party in range(100))
    request = Request(parties=names, thresholds=thresholds.hybrid(4000), backend=backend)
    bundles = Consortium(names).seal(PLUGINS[protocol].prepare(request))
    assert len(bundles.aggregator) <= 2_000_000


@pytest.mark.parametrize(
    ("protocol", "keys"),
    [("verified", "sealed"), slow("exact", "sealed"), ("exact", "joint"), slow("verified", "joint")],
)
def test_at_quantile_thresholds_there_is_the_average_precision_of_the_binned_scores(protocol: str, keys: str) -> None:
    sites = rows(3, 51)
    found = federated_auc(sites, protocol=protocol, thresholds="quantile:20", max_rows=10**4, keys=keys)
    boundaries = federated_thresholds(sites, 20)
    labels, scores = (np.concatenate([getattr(data, name) for data in sites]) for name in ("y_true", "y_score"))
    binned = np.searchsorted(boundaries.grid, scores, side="right")
    assert boundaries.rows_above == tuple((scores >= each).sum() for each in boundaries.grid)
    assert found.average_precision == pytest.approx(average_precision_score(labels, binned), abs=labels.sum() * 2**-22)
    assert found.as_dict()["average_precision"] == found.average_precision


def test_without_a_session_before_there_is_no_average_precision() -> None:
    """And none where parties know nothing of the one that is named: they set their flags, and take part."""
    sites = rows(3, 52)
    assert federated_auc(sites).average_precision is None
    request = Request(parties=tuple(data.name for data in sites), thresholds=GRID, before=bytes(16))
    found = run(registry.load("verified"), request, sites, lambda *_: None)
    assert found.average_precision is None
    assert any("there is no average precision" in warning for warning in found.warnings)
    assert found_in(found) == pairs_of(sites)


@pytest.mark.parametrize("total", [-1, 2**41])
def test_a_sum_that_is_no_average_precision_is_refused(total: int) -> None:
    sums = AnalysisSums(PLAIN, 4, interval=False, average_precision=True)
    modulus = 2**50
    honest = [0, 1, 10, 5, 2 ** precision_bits(100, modulus) * 3, 0]  # difference, ties, N, P, average precision, flags
    assert float(sums.read(honest, 100, modulus).average_precision.value) == pytest.approx(3 / 5)
    for forged in ([*honest[:-2], total * 2**8, 0], [*honest[:-1], 2], [*honest[:-1], -1]):
        with pytest.raises(ResultCheckError, match="not an average precision"):
            sums.read(forged, 100, modulus)


def imputed(seed: int) -> tuple[Any, Any, Any]:
    """Labels, a model, and another that has one score for half of the rows."""
    random = np.random.default_rng(seed)
    labels = np.arange(1000) < 300
    signal = random.normal(size=1000) + 0.9 * labels
    order = random.permutation(1000)
    return labels[order], *(
        expit(each - 1.5)[order] for each in (signal, np.where(random.random(1000) < 0.5, 0, signal))
    )


@pytest.mark.parametrize("decimals", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_comparisons_of_rounded_scores_are_delongs_over_the_rounded_rows_or_have_no_p_value(
    decimals: int, seed: int
) -> None:
    """101 bins are exact. In 1,001, half of the rows in one of them is no accident of where single rows lie."""
    labels, *scores = imputed(seed)
    first, second = (each.round(decimals) for each in scores)
    sites = [{"y": labels[rows], "a": first[rows], "b": second[rows]} for rows in (slice(0, 400), slice(400, None))]
    found = federated_auc(sites, label="y", score=["a", "b"], round_scores=decimals, protocol="exact")
    difference, error, p_value = delong.paired_of_rows(labels, first, second)
    (compared,) = found.comparisons
    assert compared.difference == pytest.approx(difference, abs=1e-12)
    if decimals == 2:
        assert (compared.standard_error, compared.p_value) == pytest.approx((error, p_value))
        return
    assert compared.p_value is None
    assert abs(compared.standard_error / error - 1) < compared.standard_error_off
    assert any("round_scores=2" in each for each in found.warnings)


def test_two_models_with_about_the_same_ranking_are_told_so() -> None:
    labels, scores, _ = imputed(0)
    nearly = scores + np.random.default_rng(1).uniform(-1e-5, 1e-5, len(scores))
    sites = [{"y": labels[rows], "a": scores[rows], "b": nearly[rows]} for rows in (slice(0, 400), slice(400, None))]
    found = federated_auc(sites, label="y", score=["a", "b"], protocol="exact")
    (told,) = (each for each in found.warnings if "no p-value" in each)
    assert told.endswith("both models rank the rows nearly alike")


def test_thresholds_that_a_session_finds_are_for_every_model_that_is_compared() -> None:
    """The first column has few values: thresholds found for it alone turned the difference of the AUCs round."""
    random = np.random.default_rng(5)
    labels = random.random(1500) < 0.3
    signal = random.normal(size=1500) + 1.3 * labels
    columns = {
        "points": np.clip(np.round(1.5 * (signal + 0.9 * random.normal(size=1500)) + 4), 0, 10) / 10,
        "full": expit(1.1 * signal + 0.3 * random.normal(size=1500) - 1.5),
    }
    sites = {
        name: {"y": labels[rows], **{column: scores[rows] for column, scores in columns.items()}}
        for name, rows in (("north", slice(0, 900)), ("south", slice(900, None)))
    }
    found = federated_auc(sites, label="y", score=list(columns), thresholds="quantile:400")
    aucs = {name: roc_auc_score(labels, scores) for name, scores in columns.items()}
    of_model = {each.model: each for each in found.estimates}
    for name, auc in aucs.items():
        assert of_model[name].auc == pytest.approx(auc, abs=2e-3)
    assert of_model["full"].binning_error < 2e-3 < 0.03 < of_model["points"].binning_error
    (compared,) = found.comparisons
    assert compared.difference == pytest.approx(aucs["full"] - aucs["points"], abs=3e-3)
    assert (compared.interval, compared.p_value) == (None, None)
    assert compared.missing.startswith("the binning error, 0.0")
    assert found.average_precision == pytest.approx(average_precision_score(labels, columns["points"]), abs=2e-3)
    (told,) = (each for each in found.warnings if each.startswith("full minus points"))
    assert "quantile" not in told  # that has been followed
    assert "round_scores" in told
    rounded = federated_auc(sites, label="y", score=list(columns), round_scores=3)
    (compared,) = rounded.comparisons
    difference, error, _ = delong.paired_of_rows(labels, columns["points"], columns["full"].round(3))
    assert compared.difference == pytest.approx(difference, abs=1e-9)
    assert compared.standard_error == pytest.approx(error, rel=0.04)
    assert (compared.p_value is None) is (compared.standard_error_off > 0.04)
