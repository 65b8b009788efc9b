"""The planner of exact sessions: what it promises follows from integers, and nothing weaker can be asked of it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.bfv.parameters import primes_above
from fhe_auc.errors import CapacityError, InputError
from fhe_auc.manifest import Manifest
from fhe_auc_protocols.exact_auc.packing import ExactPacking
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.planner import plan_exact
from tests.support.blinded_auc import encoded

SMALL: dict[str, Any] = {"thresholds": 1000, "parties": 20, "backend": "openfhe"}


def reconstructed(residue: int, modulus: int, bound: int) -> Fraction | None:
    """Return p/q with 0 ≤ p ≤ bound and 0 < q ≤ bound, and p = residue·q (Wang's algorithm)."""
    upper, lower, before, factor = modulus, residue % modulus, 0, 1
    while lower > bound:
        quotient = upper // lower
        upper, lower = lower, upper - quotient * lower
        before, factor = factor, before - quotient * factor
    p, q = (lower, factor) if factor > 0 else (-lower, -factor)
    return Fraction(p, q) if 0 < q <= bound and p >= 0 else None


@pytest.mark.parametrize(
    ("max_rows", "verified", "primes"),
    [
        (2, True, 2),
        (100, False, 1),
        (2_048, True, 2),
        (2_049, True, 3),
        (10**6, True, 3),
        (10**6, False, 2),
        (10**8, True, 4),
    ],
)
def test_primes_are_as_many_as_the_pooled_rows_take(max_rows: int, verified: bool, primes: int) -> None:
    plan = plan_exact(**SMALL, max_rows=max_rows, authenticated=verified)
    assert plan.parameters.plain_moduli == primes_above(2**41, primes, 8192)
    squared = (max_rows**2 // 2) ** 2
    assert plan.modulus > (2**40 if verified else 2) * squared
    if primes > 1:
        assert math.prod(plan.parameters.plain_moduli[:-1]) <= (2**40 if verified else 2) * squared


@pytest.mark.parametrize("verified", [True, False])
@given(rows=st.integers(2, 10**6), share=st.floats(0, 1), ratio=st.floats(0, 1))
def test_every_fraction_of_so_many_rows_is_reconstructed(verified: bool, rows: int, share: float, ratio: float) -> None:
    plan = plan_exact(**SMALL, authenticated=verified)
    positives = min(max(int(share * rows), 1), rows - 1)
    den = 2 * positives * (rows - positives)
    assert den <= plan.largest_den
    num = int(ratio * den)
    residue = num * pow(den, -1, plan.modulus)
    assert reconstructed(residue, plan.modulus, plan.largest_den) == Fraction(num, den)


def test_more_rows_than_planned_give_no_fractions_by_chance() -> None:
    """As rare as that are pairs of fractions with one denominator, among all pairs of residues."""
    for max_rows in (2, 1000, 1220, 10**6, 1_700_000):
        plan = plan_exact(**SMALL, max_rows=max_rows, authenticated=False)
        assert plan.modulus > 2 * plan.largest_den**2
        assert plan.largest_den**3 * 2**20 < plan.modulus**2


def test_a_plan_without_tied_pairs_is_refused() -> None:
    """Its results would have no half-width."""
    plan = plan_exact(**SMALL)
    with pytest.raises(CapacityError, match="there is no half-width"):
        msgspec.structs.replace(plan, packing=msgspec.structs.replace(plan.packing, ties=False))


def test_the_largest_denominator_is_that_of_a_balanced_pool() -> None:
    for rows in range(2, 40):
        plan = plan_exact(**SMALL, max_rows=rows)
        assert plan.largest_den == max(2 * positives * (rows - positives) for positives in range(1, rows))


def test_a_random_residue_is_hardly_ever_a_fraction_of_a_verified_plan() -> None:
    plan = plan_exact(**SMALL)
    generator = np.random.default_rng(1)
    residues = (int.from_bytes(generator.bytes(20), "little") % plan.modulus for _ in range(2000))
    assert not any(reconstructed(residue, plan.modulus, plan.largest_den) for residue in residues)


def test_uploads_for_a_million_rows_stay_below_what_was_asked_for() -> None:
    assert plan_exact(**SMALL).submission_bytes == 1_376_256
    assert plan_exact(**{**SMALL, "backend": "tenseal"}).submission_bytes == 1_228_800


@pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
@pytest.mark.parametrize("parties", [1, 2, 200, 1000, 3000])
def test_any_number_of_parties_is_flooded_by_forty_bits_and_decrypts(backend: str, parties: int) -> None:
    plan = plan_exact(**{**SMALL, "backend": backend, "parties": parties})
    assert plan.flooding_margin >= 40
    assert plan.decryption_margin > 50


@pytest.mark.parametrize("parties", [2, 100, 1000])
def test_joint_keys_leave_room_for_everybodys_smudging(parties: int) -> None:
    plan = plan_exact(**{**SMALL, "parties": parties}, joint_keys=True)
    assert min(plan.flooding_margin, plan.smudging_margin) >= 40
    noise = 2**plan.parameters.flooding_bits + parties * 2**plan.smudging_exponent + plan.noise_bound
    assert noise < 2**plan.parameters.capacity_bits
    assert plan.decryption_margin > 50


def test_ciphertexts_follow_from_the_thresholds() -> None:
    """Left and right of a pair for each of three primes; a pair holds 1,022 thresholds."""
    assert [plan_exact(**{**SMALL, "thresholds": bins}).blocks for bins in (2, 1022, 1023, 3000)] == [6, 6, 12, 18]


def test_a_packing_for_other_slots_is_refused() -> None:
    plan = plan_exact(**SMALL)
    with pytest.raises(CapacityError, match="another number of slots"):
        msgspec.structs.replace(plan, packing=ExactPacking(4096, 100, 1, True, True))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"parties": 0}, "parties must be at least 1"),
        ({"max_rows": 1}, "max_rows must be at least 2"),
        ({"max_rows": 2**41 + 10**9}, "below the smallest prime"),
        ({"max_rows": 10**60}, "more than 8 primes"),
        ({"flooding_bits": 39}, "flooding_bits must lie between 40 and 80"),
        ({"flooding_bits": 81}, "flooding_bits must lie between 40 and 80"),
        ({"flooding_bits": 70}, "flooding hides it by"),
        ({"joint_keys": True, "smudging_bits": 29}, "smudging_bits must lie"),
        ({"joint_keys": True, "parties": 5000}, "smudging hides it by"),
        ({"joint_keys": True, "backend": "tenseal"}, "joint keys need the backend openfhe"),
        ({"backend": "tenseal", "parties": 10**6}, "flooding hides it by"),
    ],
)
def test_what_does_not_fit_is_refused_in_plain_words(changes: dict[str, Any], shown: str) -> None:
    with pytest.raises(CapacityError, match=shown):
        plan_exact(**{**SMALL, **changes})


@pytest.mark.parametrize(
    "moduli",
    [
        (65537,),
        (65537, 114689, 147457),
        primes_above(2**30, 5, 8192),
        primes_above(2**41, 2, 8192),
        primes_above(2**41, 4, 8192)[1:],
    ],
    ids=["one toy prime", "toy primes", "too small", "too few", "others"],
)
def test_a_plan_with_weaker_primes_than_the_planners_is_refused(moduli: tuple[int, ...]) -> None:
    plan = plan_exact(**SMALL)
    with pytest.raises(CapacityError, match=r"not the smallest above|too few"):
        msgspec.structs.replace(plan, parameters=msgspec.structs.replace(plan.parameters, plain_moduli=moduli))


def test_the_manifest_carries_an_exact_plan_and_refuses_a_spoilt_one() -> None:
    plan = plan_exact(**SMALL)
    thresholds = np.linspace(0, 1, 1000)
    manifest = Manifest(
        protocol="verified",
        session=bytes(16),
        parties=("a", "b"),
        grid=thresholds.tobytes(),
        min_parties=2,
        keys="sealed",
        context=bytes(32),
        plan=encoded(plan),
    )
    data = manifest.to_bytes()
    assert Manifest.from_bytes(data) == manifest
    assert Manifest.from_bytes(data).decoded_plan(ExactPlan) == plan
    spoilt = data.replace(b"flooding_bits\x28", b"flooding_bits\x01")
    assert spoilt != data
    with pytest.raises(InputError, match="flooding_bits must lie between"):
        Manifest.from_bytes(spoilt).decoded_plan(ExactPlan)
