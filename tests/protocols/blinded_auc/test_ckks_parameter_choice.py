"""Plans are secure, hold what they say they hold, and are no larger than they need be."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.serialise import decode
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS, Chain
from fhe_auc.rlwe.statistical_security import DEFAULT_FLOODING_BITS
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc_protocols.blinded_auc import ckks_parameter_choice
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import products, trace
from fhe_auc_protocols.blinded_auc.error_bound import disagreement, error_bound, fresh_error
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.plan import LEAST_POSITIONS, AucPlan, switching_noise_bits
from fhe_auc_protocols.blinded_auc.workload import LEAST_EXTRA, MAX_SPLITS, Workload
from tests.support.blinded_auc import counts_of, encoded, manifest_with, submission

BACKENDS = ("openfhe", "tenseal")  # planning needs no library

backends = st.sampled_from(BACKENDS)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    min_rows = draw(st.integers(2, 10**5))
    return Workload(
        thresholds=draw(st.integers(2, 2**20)),
        parties=draw(st.integers(1, 10**5)),
        classes=2 ** draw(st.integers(0, 4)),
        min_rows=min_rows,
        max_rows=draw(st.integers(min_rows, 10**11)),
    )


def planned(workload: Workload, backend: Any, **options: Any) -> AucPlan | None:
    """The plan, or None where there is none; any error other than `CapacityError` is the test's failure."""
    try:
        return plan(workload, backend, **options)
    except CapacityError:
        return None


def plans(of: st.SearchStrategy[Workload], **options: Any) -> st.SearchStrategy[AucPlan]:
    """Plans of all those workloads that have one."""
    drawn = st.builds(lambda workload, backend: planned(workload, backend, **options), of, backends)
    return drawn.filter(lambda found: found is not None)


def typical(**changes: Any) -> Workload:
    return Workload(**{"thresholds": 100, "parties": 10, **changes})


def test_workloads_and_options_that_make_no_sense_or_have_no_parameters_are_refused() -> None:
    for changes, shown in [
        ({"thresholds": 0}, "thresholds must be at least 1, got 0"),
        ({"parties": 0}, "parties must be at least 1, got 0"),
        ({"classes": 0}, "classes must be at least 1, got 0"),
        ({"min_rows": 1}, "min_rows must be at least 2, got 1"),
        ({"min_rows": 100, "max_rows": 99}, "max_rows must be at least min_rows = 100, got 99"),
        ({"max_rows": 1e6}, "max_rows"),
        ({"max_rows": "1000"}, "max_rows"),
        ({"min_rows": 100.5}, "min_rows"),
        ({"classes": 3}, "classes"),
    ]:
        with pytest.raises(CapacityError, match=shown):
            typical(**changes)
    for options, shown in [
        *(({"blinding_bits": bits}, f"above 16 and at most at 50, got {bits}") for bits in (-1, 0, 16, 51, 1000)),
        *(({"flooding_bits": bits}, f"between 30 and 80, got {bits}") for bits in (-40, 0, 29, 81)),
        *(({"precision": wanted}, "AUC error below") for wanted in (0.0, -1.0, 1e-300, float("nan"))),
    ]:
        with pytest.raises(CapacityError, match=shown):
            plan(typical(), "openfhe", **options)
    for workload in [
        typical(max_rows=10**30),
        typical(max_rows=10**400),
        typical(parties=10**60),
        typical(classes=2**13),
        typical(classes=2**20),
    ]:
        for backend in BACKENDS:
            with pytest.raises(CapacityError) as caught:
                plan(workload, backend)
            text = str(caught.value)
            assert "\n" not in text
            assert f"{workload.max_rows:,} pooled rows" in text
            assert "lower max_rows, raise min_rows, or take fewer thresholds or splits" in text


@settings(max_examples=60, deadline=None)
@given(plans(workloads()))
def test_the_security_table_is_never_exceeded_and_the_largest_honest_result_fits(found: AucPlan) -> None:
    parameters = found.parameters
    assert parameters.log2_modulus + parameters.special_bits <= MAX_MODULUS_BITS[parameters.ring_dimension]
    # The key-switching prime is not smaller than any other, or its noise would be.
    assert parameters.special_bits >= max(parameters.modulus_bits)
    # P = N = n/2 and AUC = 1: num = den = n²/2, den carries its check in the imaginary part; one class of each, so
    # that half their sum is the largest coefficient.
    n, parameters = found.workload.max_rows, found.parameters
    den = n**2 / 2
    largest = den * (1 + math.hypot(1, CHECK_WEIGHT)) / 2
    coefficient = math.log2(largest) + found.blinding_bits + math.log2(found.packing.gain)
    coefficient += 2 * parameters.log2_scale
    flooding = 9 * found.flooding_deviation * 2.0 ** (2 * parameters.log2_scale)
    assert flooding < 2.0 ** (parameters.log2_modulus - 10)
    assert coefficient <= parameters.log2_modulus - 1 + 1e-9
    assert found.capacity_bits >= 0


@settings(max_examples=50, deadline=None)
@given(plans(workloads()))
def test_packing_and_keys_are_those_of_the_workload_and_equal_plans_travel_unchanged(found: AucPlan) -> None:
    workload, packing, parameters = found.workload, found.packing, found.parameters
    assert (packing.slots, packing.classes) == (parameters.slots, workload.classes)
    assert packing.blocks * packing.bins >= workload.thresholds
    assert (packing.blocks - 1) * packing.bins < workload.thresholds
    assert packing.half in parameters.rotations
    # Nothing beyond the circuit: no key moves values between classes.
    assert parameters.rotations == packing.trace_steps
    assert all(step % packing.classes == 0 for step in parameters.rotations)
    assert plan(found.workload, found.parameters.backend) == found
    manifest = manifest_with(encoded(found), thresholds=2)
    copied = Manifest.from_bytes(manifest.to_bytes())
    assert (copied, copied.to_bytes(), copied.digest) == (manifest, manifest.to_bytes(), manifest.digest)
    read = decode(copied.plan.content, AucPlan, "plan")
    assert (read, encoded(read)) == (found, copied.plan)
    assert (read.flooding_deviation, read.capacity_bits) == (found.flooding_deviation, found.capacity_bits)


@settings(max_examples=50, deadline=None)
@given(workloads(), backends)
def test_what_was_asked_for_is_kept(workload: Workload, backend: str) -> None:
    found = planned(workload, backend, blinding_bits=20, flooding_bits=35, precision=1e-6)
    if found is None:
        return
    assert found.workload == workload
    assert 20 <= found.blinding_bits <= 50
    assert found.flooding_bits == 35
    assert 0 < error_bound(found) <= 1e-6


def cost(found: AucPlan | None) -> float:
    return math.inf if found is None else found.submission_bytes


@settings(max_examples=30, deadline=None)
@given(workloads(), backends, st.integers(2, 1000))
def test_harder_workloads_never_cost_less(workload: Workload, backend: str, factor: int) -> None:
    easier = cost(planned(workload, backend))
    more_rows = msgspec.structs.replace(workload, max_rows=workload.max_rows * factor)
    more_parties = msgspec.structs.replace(workload, parties=workload.parties * factor)
    fewer_rows = msgspec.structs.replace(workload, min_rows=max(2, workload.min_rows // factor))
    for harder in (more_rows, more_parties, fewer_rows):
        assert cost(planned(harder, backend)) >= easier
    assert cost(planned(workload, backend, precision=ckks_parameter_choice.DEFAULT_PRECISION / factor)) >= easier
    assert cost(planned(workload, backend, flooding_bits=DEFAULT_FLOODING_BITS + 10)) >= easier


@pytest.mark.parametrize("backend", BACKENDS)
def test_uploads_grow_by_whole_ciphertexts_defaults_take_one_and_more_rows_a_larger_ring(backend: Any) -> None:
    sizes = [
        plan(typical(thresholds=m, min_rows=1000), backend).submission_bytes
        for m in (2, 100, 1000, 1024, 1025, 3000, 10_000)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == sizes[3] < sizes[4]
    # At the smaller ring with SEAL; with OpenFHE from 200 rows on, and below at the larger.
    small = (8192, 163_840) if backend == "tenseal" else (8192, 172_032)
    rings = {100: small if backend == "tenseal" else (16384, 458_752), 200: small}
    for parties, thresholds, least in itertools.product((2, 100, 1000), (100, 1000), rings):
        found = plan(typical(thresholds=thresholds, parties=parties, min_rows=least), backend)
        assert (found.packing.blocks, found.parameters.ring_dimension, found.submission_bytes) == (1, *rings[least])
    small, large = (plan(typical(min_rows=1000, max_rows=each), backend) for each in (10**6, 10**9))
    assert (small.parameters.ring_dimension, large.parameters.ring_dimension) == (8192, 16384)
    sizes = [cost(planned(typical(splits=s, classes=8), backend, flooding_bits=34)) for s in (2, 3, 4)]
    assert sizes == sorted(sizes)
    assert sizes[0] == cost(planned(typical(), backend))  # four executions ride in the same ciphertext


def every_chain() -> list[Any]:
    cases = []
    for backend in ckks.available_backends():
        for chain in CHAINS[backend]:
            slow = [pytest.mark.slow] if chain.ring_dimension > 8192 else []
            cases.append(pytest.param(backend, chain, marks=slow, id=f"{backend} {chain.ring_dimension}"))
    return cases


def on_chain(backend: Any, chain: Chain, **changes: Any) -> AucPlan:
    """A plan on one chain, whichever is the cheapest."""
    found = ckks_parameter_choice._filled(typical(**changes), backend, chain, (26, 40), (1e-6, None))
    assert found is not None
    return found


@pytest.mark.parametrize(("backend", "chain"), every_chain())
def test_the_library_builds_primes_of_the_stated_sizes_and_submissions_as_planned(backend: Any, chain: Chain) -> None:
    parameters = ckks.CkksParameters(
        backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, 40.0, (chain.ring_dimension // 4,)
    )
    public: Any = ckks.generate(parameters).public
    primes = {run.modulus for run in public._scheme.submission._runs}
    all_primes = {run.modulus for run in public._scheme.relinearisation_key._runs}
    special = all_primes - primes
    assert len(primes) == len(chain.modulus_bits)
    modulus, whole = math.log2(math.prod(primes)), math.log2(math.prod(all_primes))
    # Capacity counts nominal bits, of which there is one to spare in the formula's sign bit: less than a hundredth
    # may be missing.
    assert modulus > sum(chain.modulus_bits) - 0.01
    assert whole <= MAX_MODULUS_BITS[chain.ring_dimension] + 1e-10  # OpenFHE takes primes on both sides of 2^51
    assert len(special) == 1
    assert math.log2(max(special)) > math.log2(max(primes))
    assert all(prime % (2 * chain.ring_dimension) == 1 for prime in all_primes)
    found = on_chain(backend, chain, thresholds=16)
    _, secret = ckks.generate(found.parameters)
    size = len(secret.encrypt(np.zeros(found.packing.slots, complex)))
    assert found.submission_bytes <= size <= found.submission_bytes + 1024


@pytest.mark.parametrize(("backend", "chain"), every_chain())
def test_key_switching_noise_after_the_trace_is_within_the_bound(backend: Any, chain: Chain) -> None:
    # What flooding has to hide: how much slots of one class differ, which should all hold the same total. It varies
    # from key to key (by a factor of two either way), hence the mean over several.
    found = on_chain(backend, chain, thresholds=16)
    variances = []
    for _ in range(5):
        public, secret = ckks.generate(found.parameters)
        zero = public.encrypt(np.zeros(found.packing.slots, complex), degree=2)
        slots = secret.decrypt(public.dump_result(trace(public, found.packing, zero))) * found.parameters.scale**2
        by_class = found.packing.by_class(slots)
        variances.append(np.mean(np.abs(by_class - by_class.mean(axis=1, keepdims=True)) ** 2))
    bits = np.log2(variances) / 2
    assert math.log2(np.mean(variances)) / 2 <= switching_noise_bits(chain.ring_dimension), f"measured {bits.round(2)}"
    assert bits.min() > 10  # something was measured


@pytest.mark.parametrize("backend", ckks.available_backends())
@pytest.mark.parametrize("thresholds", [100, 1000])
@pytest.mark.slow
def test_the_precision_holds_for_few_parties_where_key_switching_errs_most(backend: Any, thresholds: int) -> None:
    # The rotation before the product adds key-switching noise of about 2^12 to every slot, as much as the encryption
    # noise of 200 parties, and the product multiplies it by the counts. One negative row; no flooding.
    found = plan(typical(thresholds=thresholds, parties=2), backend)
    generator = np.random.default_rng(thresholds)
    positives = generator.multinomial(99, np.ones(thresholds) / thresholds)
    counts = counts_of(positives, [int(k == thresholds // 2) for k in range(thresholds)])
    exact = trapezoid(counts).auc
    errors = []
    for attempt in range(28):
        if attempt % 7 == 0:
            public, secret = ckks.generate(found.parameters)
        ciphertexts = [public.load_submission(block) for block in submission(secret, found, counts)]
        traced = trace(public, found.packing, products(public, found.packing, ciphertexts))
        num, den = found.packing.by_class(secret.decrypt(public.dump_result(traced))).mean(axis=1)
        errors.append(num.real / den.real - exact)
    # The bound is seven deviations. The root mean square of 28 exceeds 1.9 deviations with probability 4e-10.
    assert np.sqrt(np.mean(np.square(errors))) <= 1.9 * fresh_error(found) / 7


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"flooding_bits": 0}, "flooding_bits must lie between"),
        ({"flooding_bits": 29}, "flooding_bits must lie between"),
        ({"flooding_bits": -100}, "flooding_bits must lie between"),
        ({"blinding_bits": 16}, "blinding_bits must lie above 16"),
        ({"blinding_bits": 2000}, "blinding_bits must lie above 16"),
        ({"precision": float("nan")}, "precision"),
        ({"packing": {"slots": 1024}}, "packing is not the one"),
        ({"packing": {"bins": 8}}, "packing is not the one"),
    ],
    ids=str,
)
def test_a_manifest_with_a_plan_that_protects_nothing_is_refused(changes: dict[str, Any], why: str) -> None:
    # Whoever writes the manifest must not be able to switch flooding or blinding off, or to break the packing.
    genuine = msgspec.to_builtins(plan(typical(thresholds=16), "tenseal"))
    if "packing" in changes:
        changes = {"packing": {**genuine["packing"], **changes["packing"]}}

    def manifest(content: dict[str, Any]) -> Manifest:
        written = manifest_with(EncodedPlan(AucPlan.kind, msgspec.msgpack.encode(content)), thresholds=16)
        return Manifest.from_bytes(written.to_bytes())

    assert msgspec.to_builtins(manifest(genuine).decoded_plan(AucPlan)) == genuine
    with pytest.raises(InputError, match=why):
        manifest({**genuine, **changes}).decoded_plan(AucPlan)


@st.composite
def split_workloads(draw: st.DrawFn) -> Workload:
    min_rows = draw(st.integers(2, 10**4))
    return Workload(
        thresholds=draw(st.integers(2, 5000)),
        parties=draw(st.integers(1, 1000)),
        classes=2 * draw(st.sampled_from([2, 4, 8])),
        min_rows=min_rows,
        max_rows=draw(st.integers(min_rows, 10**8)),
        splits=draw(st.integers(2, MAX_SPLITS)),
    )


@settings(max_examples=50, deadline=None)
@given(plans(split_workloads(), flooding_bits=34))
def test_split_shares_have_positions_for_every_split_and_their_largest_result_fits(found: AucPlan) -> None:
    workload = found.workload
    assert workload.is_split
    positions = found.packing.blocks * found.packing.bins
    assert positions >= workload.splits * workload.thresholds + LEAST_EXTRA
    assert positions >= min(LEAST_POSITIONS, found.packing.slots // (2 * workload.classes))
    assert error_bound(found) <= ckks_parameter_choice.DEFAULT_LOOSE_PRECISION
    assert 0 < error_bound(found) < found.tolerance == disagreement(found) < math.sqrt(2) * error_bound(found)
    written = manifest_with(encoded(found), thresholds=workload.thresholds, parties=min(workload.parties, 3))
    assert Manifest.from_bytes(written.to_bytes()).decoded_plan(AucPlan) == found
    # All multipliers 1, P = N = n/2, AUC 1: num' = num + den = n²; AUC 1/2 of ties alone: |1 + 1/2 + i/2|·n²/2.
    parameters = found.parameters
    # Of each pair of classes half the sum is the largest coefficient: as many num' as den'.
    den = found.workload.max_rows**2 / 2
    largest = den * max((1 + 1) + 1, abs(1.5 + 0.5j) + 1) / 2
    bits = math.log2(largest) + found.blinding_bits + math.log2(found.packing.gain) + 2 * parameters.log2_scale
    assert bits <= parameters.log2_modulus - 1 + 1e-9


def test_splits_and_tolerances_that_make_no_sense_are_refused() -> None:
    for splits in [-1, 0, 5, 2.0, 2.5, "2", None, True]:
        with pytest.raises(CapacityError, match="splits must be"):
            typical(splits=splits)
    for tolerance in [0.0, -1e-7, 1.01e-3, 1.0, math.inf, math.nan, 1e-12]:
        with pytest.raises(CapacityError, match=r"tolerance|AUC error below"):
            plan(typical(splits=2, classes=8), "openfhe", flooding_bits=34, tolerance=tolerance)
    whole = plan(typical(), "openfhe")
    assert whole.tolerance == 0
    with pytest.raises(CapacityError, match="be 0 where they are not"):
        msgspec.structs.replace(whole, tolerance=1e-6)
    with pytest.raises(CapacityError, match="tolerance must lie above 0"):
        msgspec.structs.replace(plan(typical(splits=2), "openfhe", flooding_bits=34), tolerance=0.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tolerance", [4e-7, 1e-5, 1e-3])
def test_a_tolerance_is_kept_and_the_error_stays_below_it(backend: Any, tolerance: float) -> None:
    found = plan(typical(splits=2, classes=8), backend, flooding_bits=34, tolerance=tolerance)
    assert found.tolerance == tolerance
    assert error_bound(found) < disagreement(found) <= tolerance
    assert error_bound(found) <= ckks_parameter_choice.DEFAULT_LOOSE_PRECISION
