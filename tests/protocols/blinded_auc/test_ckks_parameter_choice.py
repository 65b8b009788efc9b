"""Plans are secure, hold what they say they hold, and are no larger than they need be."""

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
from fhe_auc.rlwe.ring_parameters import MAX_MODULUS_BITS, Chain
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc_protocols.blinded_auc.blinded_plan import (
    CHECK_WEIGHT,
    EXTRA,
    PRECISION,
    AucPlan,
    Workload,
    disagreement,
    error_bound,
    largest_den_factor,
    smallest_plan,
)
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS
from tests.support.blinded_auc import Algebra, counts_of, encoded, manifest_with

BACKENDS = ("openfhe", "tenseal")  # planning needs no library

backends = st.sampled_from(BACKENDS)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    min_rows = draw(st.integers(2, 10**5))
    return Workload(
        thresholds=draw(st.integers(1, 2**20)),
        parties=draw(st.integers(1, 10**5)),
        min_rows=min_rows,
        max_rows=draw(st.integers(min_rows, 10**11)),
        split=draw(st.booleans()),
    )


def planned(workload: Workload, backend: Any, **options: Any) -> AucPlan | None:
    """The plan, or None where there is none; any error other than `CapacityError` is the test's failure."""
    try:
        return smallest_plan(workload, backend, **options)
    except CapacityError:
        return None


plans = st.builds(planned, workloads(), backends).filter(lambda found: found is not None)


def typical(**changes: Any) -> Workload:
    return Workload(**{"thresholds": 100, "parties": 10, **changes})


def test_workloads_that_make_no_sense_or_have_no_parameters_are_refused_and_told_what_to_do() -> None:
    for changes, shown in [
        ({"thresholds": 2**20 + 1}, "thresholds must be at most 1048576, got more"),
        ({"parties": 0}, "parties must be at least 1, got 0"),
        ({"min_rows": 1}, "min_rows must be at least 2, got 1"),
        ({"min_rows": 100, "max_rows": 99}, "max_rows must be at least min_rows = 100, got 99"),
    ]:
        with pytest.raises(CapacityError, match=shown):
            typical(**changes)
    for changes in ({"max_rows": 10**30}, {"max_rows": 10**400}, {"parties": 10**60}):
        for backend, split in ((backend, split) for backend in BACKENDS for split in (False, True)):
            workload = typical(split=split, **changes)
            with pytest.raises(CapacityError) as caught:
                smallest_plan(workload, backend)
            text = str(caught.value)
            assert "\n" not in text
            assert f"{workload.max_rows:,} pooled rows" in text
            assert text.endswith("lower max_rows, raise min_rows, or take fewer thresholds")


@settings(max_examples=60)
@given(plans)
def test_plans_keep_to_the_security_table_hold_the_largest_result_and_travel_unchanged(found: AucPlan) -> None:
    parameters = found.parameters
    assert parameters.log2_modulus + parameters.special_bits <= MAX_MODULUS_BITS[parameters.ring_dimension]
    # P = N = n/2. Whole counts: num = den, or den and its check, or as many ties. Masked shares: |A| = 1, AUC 1 and
    # the largest share, or AUC 1/2 of ties alone.
    den = found.workload.max_rows**2 / 2
    share = largest_den_factor(found.positions)
    sizes = [1 + share, abs(0.5 + 0.5j) + share] if found.split else [1, abs(0.5 + 0.5j), abs(1 + 1j * CHECK_WEIGHT)]
    # The sum over slots is B times a coefficient; a square has 2·Y·X.
    bits = math.log2(2 * den * max(sizes) / parameters.slots) + BLINDING_BITS + 2 * parameters.log2_scale
    assert bits <= parameters.log2_modulus - 1
    assert found.capacity_bits >= 0
    assert 0 < error_bound(found) <= PRECISION
    # Flooding leaves the capacity as it is.
    assert bits - 16 > FLOODED_BITS
    workload = found.workload
    assert found.positions == found.blocks_of_a_square * parameters.slots
    extra = EXTRA if found.split else 0
    assert found.positions - parameters.slots < workload.thresholds + extra <= found.positions
    assert found.blocks == found.squares * found.blocks_of_a_square
    assert found.runs == (2 if found.split else 1)
    together = found.split and workload.thresholds + extra <= parameters.ring_dimension // 32
    assert (parameters.components, found.squares) == ((16, 1) if together else (4, found.runs))
    if found.split:
        assert found.tolerance == pytest.approx(10 * disagreement(found))
        assert error_bound(found) < disagreement(found)
    assert smallest_plan(workload, parameters.backend) == found
    manifest = manifest_with(encoded(found), thresholds=2)
    copied = Manifest.from_bytes(manifest.to_bytes())
    assert (copied, copied.to_bytes(), copied.digest) == (manifest, manifest.to_bytes(), manifest.digest)
    read = decode(copied.plan.content, AucPlan, "plan")
    assert (read, encoded(read), read.capacity_bits) == (found, copied.plan, found.capacity_bits)


def every_chain() -> list[Any]:
    cases = []
    for backend in ckks.available_backends():
        for chain in CHAINS[backend]:
            slow = [pytest.mark.slow] if chain.ring_dimension > 8192 else []
            cases.append(pytest.param(backend, chain, marks=slow, id=f"{backend} {chain.ring_dimension}"))
    return cases


@pytest.mark.parametrize(("backend", "chain"), every_chain())
def test_the_library_builds_primes_submissions_and_results_as_planned(backend: Any, chain: Chain) -> None:
    max_rows = 10**6 if chain.ring_dimension == 8192 else 10**9
    for split in (False, True):
        algebra = Algebra(backend, thresholds=16, split=split, max_rows=max_rows)
        found = algebra.plan
        assert found.parameters.ring_dimension == chain.ring_dimension
        primes = algebra.keys.secret.mask_shape.moduli
        assert len(set(primes)) == len(chain.modulus_bits)
        assert all(prime % (2 * chain.ring_dimension) == 1 for prime in primes)
        # Capacity counts nominal bits, of which the planner leaves a tenth.
        assert sum(chain.modulus_bits) - 0.01 < math.log2(math.prod(primes))
        assert math.log2(math.prod(primes)) + chain.special_bits <= MAX_MODULUS_BITS[chain.ring_dimension]
        submission = algebra.submission(counts_of(np.ones(16), np.ones(16)))
        result = algebra.result([submission])
        for planned, made in ((found.submission_bytes, sum(map(len, submission))), (found.download_bytes, len(result))):
            spare = planned // 50 if backend == "openfhe" else 0  # whose primes are on either side of a power of two
            assert planned <= made <= planned + 1024 + spare


TYPICAL = {split: typical(thresholds=16, split=split) for split in (False, True)}
GENUINE = {split: msgspec.to_builtins(smallest_plan(each, "tenseal")) for split, each in TYPICAL.items()}
RING = {"ring_dimension": 4096, "modulus_bits": [56, 50], "special_bits": 0}


@pytest.mark.parametrize(
    ("split", "path", "changes", "why"),
    [
        *((False, ("parameters",), {"log2_scale": bad}, "does not fit") for bad in (0.5, 84, math.nan)),
        (False, ("parameters",), {"components": 8}, "4 or 16 components"),
        (False, ("parameters",), {"components": 16}, "does not fill the components"),
        (True, ("parameters",), {"components": 4}, "does not fill the components"),
        (False, ("parameters",), {"log2_scale": 51.75}, "workload does not fit its modulus"),
        (False, ("parameters",), {"modulus_bits": [56, 56, 56, 56]}, "below 128-bit security"),
        (False, ("parameters",), {"modulus_bits": [56, 55, 55]}, "not supported"),
        (False, ("parameters",), RING, "not supported"),
        (False, ("parameters",), {"backend": "other"}, "backend"),
        (False, ("workload",), {"max_rows": 10**8}, "workload does not fit its modulus"),
        (False, ("workload",), {"parties": 0}, "parties must be at least 1"),
        (False, ("workload",), {"split": True}, "tolerance must lie above 0"),
        (True, ("workload",), {"split": False}, "be 0 with semi-honest"),
        (False, (), {"tolerance": 1e-6}, "be 0 with semi-honest"),
        *((True, (), {"tolerance": bad}, "tolerance must lie above 0") for bad in (0, 1.01e-3, math.nan)),
        *((False, (), {name: 40}, name) for name in ("blinding_bits", "flooding_bits")),
    ],
    ids=str,
)
def test_a_manifest_with_a_plan_whose_parts_do_not_fit_is_refused(
    split: bool, path: tuple[str, ...], changes: dict[str, Any], why: str
) -> None:
    # Whoever writes the manifest must not be able to weaken security, or what hides or tells lies from honest results.
    genuine = GENUINE[split]

    def manifest(content: dict[str, Any]) -> Manifest:
        written = manifest_with(EncodedPlan(AucPlan.kind, msgspec.msgpack.encode(content)), thresholds=16)
        return Manifest.from_bytes(written.to_bytes())

    assert msgspec.to_builtins(manifest(genuine).decoded_plan(AucPlan)) == genuine
    (part,) = path or (None,)
    altered = {**genuine, **changes} if part is None else {**genuine, part: {**genuine[part], **changes}}
    with pytest.raises(InputError, match=why):
        manifest(altered).decoded_plan(AucPlan)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tolerance_is_kept_a_tight_one_takes_the_larger_ring_and_one_too_tight_is_refused(backend: Any) -> None:
    normal = smallest_plan(typical(split=True), backend)
    for tolerance in (1e-7, 1e-5, 1e-3):
        loose = smallest_plan(typical(split=True), backend, tolerance=tolerance)
        assert msgspec.structs.replace(loose, tolerance=normal.tolerance) == normal
        assert loose.tolerance == tolerance
    tight = smallest_plan(typical(split=True), backend, tolerance=1e-9)
    assert (tight.tolerance, tight.parameters.ring_dimension) == (1e-9, 16384)
    assert error_bound(tight) < disagreement(tight) <= 1e-10
    with pytest.raises(CapacityError, match=r"a tolerance of 1e-15; lower max_rows, .*, or more tolerance"):
        smallest_plan(typical(split=True), backend, tolerance=1e-15)
    assert smallest_plan(typical(), backend).tolerance == 0
