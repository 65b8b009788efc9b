"""Exact sums under encryption: what comes out is the integer sum, and its noise tells of nothing that was encrypted."""

import math
from functools import lru_cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import encode
from fhe_auc.ckks.embedding import EXACT_BITS, coefficients_of, slots_of
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.rlwe import container
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, plan_sum
from tests.support.encrypted_sums import result_of

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)


@lru_cache(maxsize=8)
def keys(parameters):
    return ckks.generate(parameters)


def planned(backend, **changes):
    given = {"thresholds": 50, "vectors": 2, "parties": 5, **changes}
    return plan_sum(backend=backend, **given)


def summed(chosen, summands):
    pair = keys(chosen.parameters)
    running = running_sum(pair.public, chosen.blocks)
    for integers in summands:
        running.add([*map(pair.secret.encrypt, chosen.pack(integers))])
    return pair.secret.decrypt(result_of(pair.public, running))


def random_integers(chosen, rng, parties=None):
    parties = parties or chosen.parties
    return rng.integers(0, chosen.max_total // parties + 1, (parties, chosen.vectors, chosen.thresholds))


# --- Embedding --------------------------------------------------------------------------------------------------------


def parameters_of(backend, ring_dimension):
    chain = next(chain for chain in CHAINS[backend] if chain.ring_dimension == ring_dimension)
    return ckks.CkksParameters(backend, ring_dimension, chain.modulus_bits, chain.special_bits, 24.0, ())


@pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
@pytest.mark.parametrize("ring_dimension", [8192, 16384])
@pytest.mark.parametrize("sign", ["random", "alike"])
def test_coefficients_of_exact_size_survive_the_transforms(backend, ring_dimension, sign):
    rng = np.random.default_rng(1)
    low = -(2**EXACT_BITS) if sign == "random" else 2 ** (EXACT_BITS - 1)
    coefficients = rng.integers(low, 2**EXACT_BITS, ring_dimension).astype(float)
    parameters = parameters_of(backend, ring_dimension)
    assert np.abs(coefficients_of(slots_of(coefficients, parameters), parameters) - coefficients).max() < 2**-4


@backends
def test_integer_coefficients_are_encoded_without_rounding(backend):
    """Noise of a fresh encryption is an integer then, coefficient by coefficient; of arbitrary slots it is not."""
    parameters = parameters_of(backend, 8192)
    pair = keys(parameters)
    slots = slots_of(np.random.default_rng(2).integers(0, 2**20, 8192), parameters)

    def noise(values):
        result = pair.public.dump_result(pair.public.raised(pair.public.load_submission(pair.secret.encrypt(values))))
        return coefficients_of(pair.secret.decrypt(result) - values, parameters) * parameters.scale

    found = noise(slots)
    assert 0 < np.abs(found).max() < 40
    assert np.abs(found - np.rint(found)).max() < 0.05
    rotated = noise(slots * np.exp(0.3j))
    assert np.abs(rotated - np.rint(rotated)).max() > 0.4


# --- Sums -------------------------------------------------------------------------------------------------------------


@backends
@pytest.mark.parametrize(("thresholds", "vectors", "parties"), [(2, 1, 1), (50, 2, 5), (4096, 2, 3), (100, 2, 200)])
def test_sums_are_those_of_exact_integers(backend, thresholds, vectors, parties):
    chosen = planned(backend, thresholds=thresholds, vectors=vectors, parties=parties)
    summands = random_integers(chosen, np.random.default_rng(3))
    assert np.array_equal(chosen.sums(summed(chosen, summands)), summands.sum(axis=0))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_sums_of_any_sign_and_size_within_the_bound_come_out(data):
    chosen = planned("tenseal", thresholds=20, parties=3, max_total=data.draw(st.integers(1, 2**30)))
    values = st.integers(-(chosen.max_total // 3), chosen.max_total // 3)
    summands = [
        np.array([data.draw(st.lists(values, min_size=20, max_size=20)) for _ in range(2)], np.int64) for _ in range(3)
    ]
    assert np.array_equal(chosen.sums(summed(chosen, summands)), sum(summands))


@backends
def test_the_noise_is_as_planned_and_no_larger_where_numbers_are(backend):
    chosen = planned(backend, thresholds=2048, vectors=2, parties=20)
    found = coefficients_of(summed(chosen, random_integers(chosen, np.random.default_rng(4))), chosen.parameters)
    noise = found - np.rint(found)
    with_numbers, without = noise[: chosen.integers], noise[chosen.integers :]
    assert np.std(noise) == pytest.approx(chosen.deviation, rel=0.06)
    assert stats.ks_2samp(with_numbers, without).pvalue > 1e-6


@backends
def test_a_submission_that_is_none_leaves_the_sum_as_it_was(backend):
    chosen = planned(backend, parties=2)
    pair = keys(chosen.parameters)
    one, other = random_integers(chosen, np.random.default_rng(5))
    running = running_sum(pair.public, chosen.blocks)
    running.add([*map(pair.secret.encrypt, chosen.pack(one))])
    bad = bytearray(pair.secret.encrypt(*chosen.pack(other)))
    bad[len(bad) // 2] ^= 1
    for blocks in ([], [bytes(bad)], [bytes(bad)] * 2):
        with pytest.raises(DeserialisationError):
            running.add(blocks)
    running.add([pair.secret.encrypt(*chosen.pack(other))])
    assert np.array_equal(chosen.sums(pair.secret.decrypt(result_of(pair.public, running))), one + other)


@backends
def test_submissions_are_as_large_as_planned_and_there_are_no_rotation_keys(backend):
    chosen = planned(backend)
    pair = keys(chosen.parameters)
    sent = pair.secret.encrypt(*chosen.pack(np.zeros((2, 50), int)))
    assert chosen.submission_bytes <= len(sent) <= chosen.submission_bytes + 1024
    assert pair.public._stored.rotation_keys == b""
    assert ckks.load_public(pair.public.to_bytes()).fingerprint == pair.public.fingerprint


# --- What is refused --------------------------------------------------------------------------------------------------


@backends
def test_sums_beyond_the_bound_give_no_number(backend):
    chosen = planned(backend, parties=2, max_total=100)
    summands = np.full((2, 2, 50), 60)
    slots = summed(chosen, summands)
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        chosen.sums(slots)
    assert np.array_equal(chosen.sums_of_any_size(slots), summands.sum(axis=0))


@backends
def test_sums_of_all_that_parties_can_have_do_not_wrap(backend):
    chosen = planned(backend, parties=3, max_total=2**26)
    most = np.full((2, 50), chosen.max_total)
    assert np.array_equal(chosen.sums_of_any_size(summed(chosen, [most, most, most])), 3 * most)
    assert np.array_equal(chosen.sums_of_any_size(summed(chosen, [-most, -most, -most])), -3 * most)
    with pytest.raises(CapacityError, match="do not fit its modulus"):
        msgspec.structs.replace(chosen, parties=2**100)


@backends
def test_another_key_gives_no_number(backend):
    chosen = planned(backend)
    theirs, ours = ckks.generate(chosen.parameters), keys(chosen.parameters)
    running = running_sum(ours.public, chosen.blocks)
    running.add([ours.secret.encrypt(*chosen.pack(np.ones((2, 50), int)))])
    packed = container.open_for("result", ours.public.fingerprint, result_of(ours.public, running))
    disguised = container.seal("result", theirs.public.fingerprint, packed)
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        chosen.sums(theirs.secret.decrypt(disguised))


def test_numbers_where_none_are_added_are_refused():
    chosen = planned("tenseal")
    wider = planned("tenseal", thresholds=60)
    with pytest.raises(EvaluationError, match="where there are none to be added"):
        chosen.sums(*wider.pack(np.ones((2, 60), int)))


@pytest.mark.parametrize("off", [0.3, 0.5, math.nan, math.inf])
def test_what_is_no_integer_is_refused(off):
    chosen = planned("tenseal")
    coefficients = np.zeros(8192)
    coefficients[7] = off
    with np.errstate(invalid="ignore"):
        slots = slots_of(coefficients, chosen.parameters)
    with pytest.raises(EvaluationError, match="not a sum of integers"):
        chosen.sums(slots)


@pytest.mark.parametrize(
    "integers",
    [
        np.ones((2, 49), int),
        np.ones(100, int),
        np.ones((2, 50)),
        np.full((2, 50), 101),
        np.full((2, 50), -101),
        np.full((2, 50), -(2**63)),
    ],
    ids=["too few", "flat", "floats", "too large", "too small", "the least of all"],
)
def test_what_does_not_fit_the_plan_is_not_packed(integers):
    with pytest.raises(ValueError, match=r"expected integers|beyond the bound"):
        planned("tenseal", max_total=100).pack(integers)


@pytest.mark.parametrize(
    "changes",
    [
        {"thresholds": 0},
        {"vectors": 0},
        {"parties": 0},
        {"max_total": 0},
        {"thresholds": 8193},
        {"max_total": 2**50},
        {"parties": 10**13},
    ],
    ids=str,
)
def test_a_sum_that_no_parameters_hold_is_refused(changes):
    with pytest.raises(CapacityError):
        planned(**{"backend": "tenseal", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"max_total": 2**21},
        {"thresholds": 5000},
        {"parameters": ckks.CkksParameters("tenseal", 8192, (55, 55, 48), 56, 24.0, (1,))},
        {"parameters": ckks.CkksParameters("tenseal", 8192, (55, 55, 48), 56, 23.5, ())},
        {"parameters": ckks.CkksParameters("tenseal", 8192, (55, 55, 48), 56, 5.0, ())},
    ],
    ids=str,
)
def test_a_plan_whose_parts_do_not_fit_is_refused(changes):
    with pytest.raises(CapacityError):
        msgspec.structs.replace(planned("tenseal"), **changes)


def manifest_of(chosen, thresholds):
    return Manifest(
        protocol="p",
        session=bytes(16),
        parties=("a", "b"),
        grid=np.linspace(0, 1, thresholds).tobytes(),
        min_parties=2,
        keys="sealed",
        context=bytes(32),
        plan=EncodedPlan(chosen.kind, encode(chosen)),
    )


def test_a_manifest_carries_either_kind_of_plan_and_tasks_get_no_other():
    sums, trapezoid = planned("tenseal"), plan(Workload(thresholds=50, parties=2), "tenseal")
    for chosen, kind, other in ((sums, SumPlan, AucPlan), (trapezoid, AucPlan, SumPlan)):
        manifest = Manifest.from_bytes(manifest_of(chosen, 50).to_bytes())
        assert manifest.decoded_plan(kind) == chosen
        with pytest.raises(InputError, match=f"for a computation of kind '{chosen.kind}'"):
            manifest.decoded_plan(other)
        with pytest.raises(InputError, match="another number of thresholds"):
            manifest_of(chosen, 51).decoded_plan(kind)
