"""Exact sessions with real encryption: AUC, half-width, P and N are those of the rows, as integers say."""

import re
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import InputError, ResultCheckError, VerificationError
from fhe_auc.base.serialise import decode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rlwe.ciphertexts import kind_of
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.roles.local_consortium import Consortium
from tests.support import delong
from tests.support.chosen import federated_auc
from tests.support.exact_sessions import (
    BACKENDS,
    GRID,
    Play,
    both_backends,
    both_protocols,
    found_in,
    pairs_of,
    rows,
    slow,
)
from tests.support.pooled import pooled, pooled_counts, sklearns_auc
from tests.support.wire import payload_of


def of_rounded(parties: Sequence[PartyData], decimals: int) -> tuple[Fraction, Fraction, int, int]:
    return pairs_of(
        [each.with_scores(lambda scores: scores.round(decimals)) for each in parties], thresholds.decimals(decimals)
    )


# --- What a session yields --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
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


# --- Thresholds, rounding, and what is said ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "grid"),
    [
        ("credit-default", "uniform:100"),
        *(slow(name, grid) for name in datasets.NAMES for grid in ("hybrid:1000", "hybrid:4000", None)),
    ],
)
def test_auc_and_standard_error_are_near_those_of_the_rows_and_the_fraction_is_the_trapezoids(
    dataset: str, grid: str | None
) -> None:
    parties = datasets.load(dataset)
    found, rows_ = federated_auc(parties, thresholds=grid), pooled(parties)
    assert (found.protocol, found.thresholds) == ("verified", int(grid.split(":")[1]) if grid else 5000)
    assert abs(found.auc - sklearns_auc(parties)) <= min(found.binning_error + 1e-12, 1 if grid else 1e-4)
    if grid is not None:  # by default values that ten rows have are bins of their own
        exact = trapezoid(pooled_counts(parties, thresholds.resolve(grid)))
        assert found.fraction == exact.fraction
        assert found.binning_error <= exact.binning_error
    if grid != "uniform:100":
        expected = delong.of_rows(rows_.y_score[rows_.y_true], rows_.y_score[~rows_.y_true])[1]
        assert found.standard_error == pytest.approx(expected, rel=5e-3 if grid == "hybrid:1000" else 1e-3)


@pytest.mark.parametrize(("protocol", "seed"), [("exact", 0), ("verified", 1), slow("verified", 2)])
def test_ties_of_rounded_scores_are_meant_whatever_rounding_costs(protocol: str, seed: int) -> None:
    """Scores below 0.05, as of a rare outcome: one decimal ties most pairs, and nearly all that tells them apart."""
    generator = np.random.default_rng(seed)
    y_true = generator.random(120) < 0.3
    y_score = 0.05 * generator.random(120) ** 2 + 0.04 * y_true * generator.random(120)
    parties = [PartyData.from_arrays(f"site {k}", y_true[k::2], y_score[k::2]) for k in range(2)]
    found = federated_auc(parties, protocol=protocol, round_scores=1, max_rows=1000)
    auc, _, *labels = of_rounded(parties, 1)
    assert found_in(found) == (auc, 0, *labels)
    assert abs(found.auc - sklearns_auc(parties)) > 0.02  # it is the AUC of the rounded scores, and says so
    assert found.settings["round_scores"] == 1


@pytest.mark.parametrize(
    ("value", "why"), [(0, "from 1 to 5"), (9, "from 1 to 5"), ("3", "whole number"), (True, "whole number")]
)
def test_bad_numbers_of_decimals_other_thresholds_and_scores_beyond_0_to_1_are_refused(value: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        federated_auc(rows(2, 11), protocol="verified", round_scores=value)
    for others in ("uniform:100", "quantile:20"):
        with pytest.raises(InputError, match="give no others"):
            federated_auc(rows(2, 12), protocol="verified", round_scores=3, thresholds=others)
    for score in (1.5, 1.0000001, -1e-9):
        data = PartyData.from_arrays("odd", [0, 1], [0.5, score])
        with pytest.raises(InputError, match=f"'odd', row 1: score is {re.escape(repr(score))}, but"):
            federated_auc([data, *rows(1, 13)], protocol="verified", round_scores=2)


@both_protocols
def test_a_manifest_that_rounds_to_other_scores_than_its_thresholds_is_refused(protocol: str) -> None:
    """It would have a result over coarse thresholds say that it is the AUC of finely rounded scores."""
    play = Play(protocol, rows(2, 15), thresholds.decimals(2), options={"round_scores": 2})
    manifest = msgspec.structs.replace(play.manifest, options={"round_scores": 3})
    with pytest.raises(InputError, match="does not fit its round_scores"):
        play.party(play.sites[0], manifest)


def test_numbers_may_be_numpys() -> None:
    numbers = {"max_rows": np.int64(1000), "min_rows": np.uint8(2), "round_scores": np.int32(2)}
    found = federated_auc(rows(2, 12), protocol="verified", **numbers)  # type: ignore[arg-type]
    assert found.fraction == federated_auc(rows(2, 12), protocol="verified", round_scores=2).fraction
    caps = {"site 0": np.int64(60), "site 1": np.uint8(60)}
    proved = federated_auc(rows(2, 12), protocol="verified", keys="helper", row_caps=caps, **numbers)  # type: ignore[arg-type]
    assert (proved.fraction, proved.inputs_proved) == (found.fraction, "row caps")
    with pytest.raises(InputError, match=r"max_rows must be an integer, got 2\.5"):
        federated_auc(rows(2, 12), protocol="verified", max_rows=2.5)  # type: ignore[arg-type]


@both_protocols
def test_results_warn_of_thresholds_that_do_not_fit_and_of_a_pool_of_one(protocol: str) -> None:
    (coarse,) = federated_auc(rows(3, 8), protocol=protocol, thresholds=[-1.0, 2.0], interval=None).warnings
    assert "many pairs of rows are not told apart" in coarse
    assert "the binning error is 0.5; list all scores" in coarse
    (alone,) = federated_auc(rows(1, 12), protocol=protocol, round_scores=2, interval=None).warnings
    assert alone.startswith("there is only one party")


# --- More rows than were agreed on ------------------------------------------------------------------------------------


@both_protocols
def test_a_party_with_more_rows_than_the_session_may_have_is_refused(protocol: str) -> None:
    data = PartyData.from_arrays("big", [0, 1] * 600, [0.5] * 1200)
    said = "party 'big' alone has 1,200 rows, 200 more than max_rows = 1,000; give --max-rows 1200"
    with pytest.raises(InputError, match=said):
        Play(protocol, [data, *rows(1, 9)], max_rows=1000)


@pytest.mark.parametrize(("protocol", "error"), [("exact", ResultCheckError), ("verified", VerificationError)])
def test_more_rows_together_give_no_number_and_just_as_many_do(protocol: str, error: type[Exception]) -> None:
    data = rows(20, 10)
    number = sum(len(each.y_true) for each in data)
    found = federated_auc(data, protocol=protocol, thresholds=GRID, max_rows=number)
    assert found_in(found) == pairs_of(data)
    with pytest.raises(error) as caught:  # between sites it is the result that tells
        Play(protocol, data, max_rows=number - 1).read()
    assert caught.value.check == "rows"  # type: ignore[attr-defined]
    assert f"{number:,} rows in all, 1 more than max_rows = {number - 1:,}; give --max-rows" in str(caught.value)
    # Twenty parties of ten rows each where ten are the most: the count would be the same modulo less.
    ten = [PartyData.from_arrays(f"site {number}", [0, 1] * 5, [0.1, 0.9] * 5) for number in range(20)]
    with pytest.raises(error, match="200 rows in all, 190 more than max_rows = 10;"):
        Play(protocol, ten, max_rows=10, min_rows=2).read()


@pytest.mark.slow
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
    assert peak(24) - peak(4) < 20 * 20_000


# --- What travels -----------------------------------------------------------------------------------------------------


@both_backends
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
def test_a_party_sends_as_many_bytes_as_planned_and_the_aggregator_s_keys_are_small(
    protocol: str, backend: str
) -> None:
    play = Play(protocol, rows(2, 6), thresholds.hybrid(1000), backend=backend)
    parts = decode(payload_of(play.parties[0].respond(play.aggregator.start())), tuple[bytes, ...], "submission")
    assert [len(part) for part in parts] == [play.plan.submission_bytes]
    context = public_context(play.session.aggregator_material)[0]
    assert kind_of(context) == "public BFV context"
    polynomial = play.plan.parameters.submission_bytes
    ciphertexts = play.plan.layout.ciphertexts
    # One half of a public key and of each ciphertext of the opening, and nothing else of their size.
    assert 0 < len(play.session.aggregator_material) - (1 + ciphertexts) * polynomial < polynomial / 2
    names = tuple(f"site {party}" for party in range(100))
    request = Request(parties=names, thresholds=thresholds.hybrid(4000), backend=backend)
    assert len(Consortium(names).seal(play.plugin.prepare(request)).aggregator) <= 2_000_000
