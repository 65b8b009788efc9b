"""Exact sums with joint keys: the integer sum comes out, only all parties together decrypt it, and no share shows."""

from __future__ import annotations

import math
import secrets
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv
from fhe_auc.base.errors import CapacityError, DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv.ciphertext_noise import CONFIDENCE
from fhe_auc.bfv.joint_keys import JointShare
from fhe_auc.bfv.parameters import JOINT_CHAINS
from fhe_auc.bfv.slots import phase_of
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rlwe.transform import coefficients_of
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, plan_sum
from fhe_auc_protocols.histograms.joint_sums import JointSumPlan, JointSums, plan_joint_sum
from tests.support.bfv_contexts import integers

FALSE_ALARM = 1e-7


def planned(**changes: Any) -> JointSumPlan:
    return plan_joint_sum(**{"thresholds": 50, "vectors": 2, "parties": 3, "backend": "tenseal", **changes})


def manifest_of(plan: JointSumPlan | SumPlan, keys: str = "joint") -> Manifest:
    return Manifest(
        protocol="p",
        session=secrets.token_bytes(16),
        parties=tuple(f"site {number:04}" for number in range(plan.parties)),
        grid=np.linspace(0, 1, plan.thresholds).tobytes(),
        min_parties=plan.parties,
        keys=keys,  # type: ignore[arg-type]
        context=b"" if keys == "joint" else bytes(32),
        plan=EncodedPlan(plan.kind, encode(plan)),
    )


class Session:
    """All parties, their keys and submissions; masked if asked to."""

    def __init__(self, plan: JointSumPlan, *, masked: bool = False, seed: int = 1) -> None:
        self.plan, rng = plan, np.random.default_rng(seed)
        self.summands = rng.integers(-plan.max_total, plan.max_total + 1, (plan.parties, plan.vectors, plan.thresholds))
        manifest = manifest_of(plan)
        self.computation = computation = JointSums(manifest, secrets.token_bytes(32))
        self.setup = setup = computation.setup
        self.shares = [JointShare(setup) for _ in range(plan.parties)]
        self.parts = [share.key_parts() for share in self.shares]
        sums = [
            self.total(shape, side) for shape, side in zip(setup.key_parts, zip(*self.parts, strict=True), strict=True)
        ]
        second = [share.relinearisation_part(sums[1]) for share in self.shares]
        self.keys = computation.public_keys(sums, self.total(setup.relinearisation_part, second))
        common_secret = bytes(32)
        tasks = (
            SimpleNamespace(party=party, masked=masked, encode=lambda _, own=own: plan.pack(own))
            for party, own in zip(manifest.parties, self.summands, strict=True)
        )
        self.sent: list[tuple[bytes, ...]] = [
            computation.encrypt(share, task, common_secret)  # type: ignore[arg-type]
            for share, task in zip(self.shares, tasks, strict=True)
        ]

    def total(self, shape: Any, parts: Any) -> Any:
        found = shape.zeros()
        for part in parts:
            shape.add_in_place(found, shape.unpack(part))
        return found

    def result(self, parties: slice = slice(None)) -> bytes:
        blocks = zip(*self.sent[parties], strict=True)
        return self.computation.aggregate(
            self.keys, [self.total(self.setup.submission_part, block) for block in blocks]
        )

    def partials(self, result: bytes) -> list[Any]:
        shape = self.computation.partial_shape
        return [shape.unpack(self.computation.partial_decryption(share, result)) for share in self.shares]

    def read(self, result: bytes, partials: list[Any]) -> Any:
        return self.plan.sums_of_any_size(self.computation.combine(result, partials))


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(planned(thresholds=2000))


@pytest.mark.parametrize(
    ("thresholds", "vectors", "parties", "max_total"),
    [(2, 1, 1, 1), (50, 2, 5, 10**6), (4096, 2, 2, 10**6), (8193, 2, 2, 10**6), (20, 1, 3, 2**36)],
)
@pytest.mark.parametrize("masked", [False, True])
def test_sums_are_those_of_exact_integers(
    thresholds: int, vectors: int, parties: int, max_total: int, masked: bool
) -> None:
    plan = planned(thresholds=thresholds, vectors=vectors, parties=parties, max_total=max_total)
    assert plan.blocks == math.ceil(thresholds * vectors / 8192)
    session = Session(plan, masked=masked)
    result = session.result()
    assert np.array_equal(session.read(result, session.partials(result)), session.summands.sum(axis=0))
    assert {sum(map(len, sent)) for sent in session.sent} == {plan.submission_bytes}
    assert {len(part.public_key) for part in session.parts} == {plan.key_bytes}
    assert all((part.rotation_keys, part.relinearisation) == (b"", b"") for part in session.parts)


@pytest.mark.parametrize("missing", [0, 2])
def test_without_a_partial_decryption_or_a_submission_there_is_no_number(session: Session, missing: int) -> None:
    result = session.result()
    partials = session.partials(result)
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        session.read(result, [each for party, each in enumerate(partials) if party != missing])
    lacking = session.result(slice(1, None) if missing == 0 else slice(None, -1))
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        session.read(lacking, session.partials(lacking))


def test_noise_and_smudging_are_as_planned(session: Session) -> None:
    setup, plan, half = session.setup, session.plan, session.setup.result_part
    result = session.result()
    (ciphertext,) = decode(result, tuple[bytes, ...], "result")
    words = np.concatenate(setup.split_result(setup.result_kind(0), ciphertext))
    secret = session.total(half, [half.pack(share.secret_words) for share in session.shares])
    modulus, t = math.prod(half.moduli), plan.parameters.plain_moduli[0]

    def noise(phase: Any) -> np.ndarray:
        scaled = [t * each % modulus for each in integers(half, coefficients_of(half, phase))]
        return np.array([(each - modulus if each > modulus // 2 else each) / t for each in scaled])

    found = noise(phase_of(half, words, secret))
    assert 0.8 < found.std() * CONFIDENCE / plan.noise_bound < 1.25
    assert np.abs(found).max() < plan.noise_bound
    smudged = half.unpack(session.computation.partial_decryption(session.shares[0], result))
    half.subtract_in_place(smudged, half.multiply(words[len(half.moduli) :], session.shares[0].secret_words))
    coefficients = integers(half, coefficients_of(half, smudged))
    signed = np.array([each - modulus if each > modulus // 2 else each for each in coefficients], float)
    assert stats.kstest(signed / 2.0**plan.smudging_exponent, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM
    assert plan.smudging_exponent - 13 - math.log2(plan.noise_bound) == pytest.approx(plan.smudging_margin)


def test_parties_decrypt_with_another_polynomial_than_submissions_were_made_with(session: Session) -> None:
    """Or a partial decryption, which all parties see, and a submission that a party saw on the wire would add up to
    what is in it."""
    first, second = (decode(session.result(), tuple[bytes, ...], "result")[0] for _ in range(2))
    kind, common = session.setup.result_kind(0), session.setup.common(0)
    one, other = (session.setup.split_result(kind, each)[1] for each in (first, second))
    for x, y in ((one, common), (other, common), (one, other)):
        assert np.mean(x == y) < 0.01


@pytest.mark.parametrize(
    ("parties", "smudging_bits", "bits"),
    [(2, 40, 3 * (48,)), (60, 40, 3 * (48,)), (10_000, 40, 3 * (48,)), (60, 80, 4 * (48,)), (10**5, 80, 4 * (48,))],
)
def test_the_smallest_chain_is_taken_that_hides_enough(parties: int, smudging_bits: int, bits: tuple[int, ...]) -> None:
    plan = planned(parties=parties, smudging_bits=smudging_bits, max_total=1000)
    assert plan.parameters.modulus_bits == bits
    assert plan.smudging_margin >= smudging_bits
    capacity = 2.0 ** sum(bits) / (2 * plan.parameters.plain_moduli[0])
    assert plan.noise_bound + 1 + parties * 2.0**plan.smudging_exponent < 0.99 * capacity
    assert plan.download_bytes == (2 + parties) * plan.submission_bytes == (2 + parties) * 8192 * 6 * len(bits)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"thresholds": 0}, "thresholds must be at least 1"),
        ({"parties": 0}, "parties must be at least 1"),
        ({"max_total": 2**37}, "do not fit its modulus"),
        ({"parties": 10**12, "max_total": 1}, "do not fit its modulus"),
        ({"smudging_bits": 29}, "smudging_bits must lie between 30 and 80"),
    ],
)
def test_a_sum_that_no_parameters_hold_is_refused(changes: dict[str, int], shown: str) -> None:
    with pytest.raises(CapacityError, match=shown):
        planned(**changes)


@pytest.mark.parametrize(
    "parameters",
    [
        bfv.BfvParameters("tenseal", 8192, JOINT_CHAINS[0].modulus_bits, 0, primes_above(2**48, 1, 8192)),
        bfv.BfvParameters("tenseal", 8192, (54, 54, 54), 18, primes_above(2**49, 1, 8192)),
    ],
)
def test_a_plan_of_other_parameters_is_refused(parameters: bfv.BfvParameters) -> None:
    with pytest.raises(CapacityError, match="not those of sums with joint keys"):
        msgspec.structs.replace(planned(), parameters=parameters)


@pytest.mark.parametrize("integers", [np.ones((2, 49), int), np.ones((2, 50)), np.full((2, 50), -101)])
def test_what_does_not_fit_the_plan_is_not_packed(integers: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected integers|beyond the bound"):
        planned(max_total=100).pack(integers)


def test_numbers_where_none_are_added_and_sums_beyond_what_parties_can_have_are_refused() -> None:
    plan = planned(max_total=100)
    (slots,) = planned(max_total=100, thresholds=60).pack(np.ones((2, 60), int))
    with pytest.raises(EvaluationError, match="where there are none to be added"):
        plan.sums_of_any_size([slots])
    (most,) = planned(max_total=300).pack(np.full((2, 50), 300))
    assert plan.sums_of_any_size([most]).max() == 300
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        plan.within_bounds(plan.sums_of_any_size([most]))
    (beyond,) = planned(max_total=301).pack(np.full((2, 50), 301))
    with pytest.raises(EvaluationError, match="not a sum of integers within bounds"):
        plan.sums_of_any_size([beyond])


def test_a_result_of_more_ciphertexts_is_refused(session: Session) -> None:
    (each,) = decode(session.result(), tuple[bytes, ...], "result")
    for call in (
        lambda: session.computation.partial_decryption(session.shares[0], encode((each, each))),
        lambda: session.computation.combine(encode(()), []),
    ):
        with pytest.raises(DeserialisationError, match="ciphertexts, of 1"):
            call()


def test_each_kind_of_keys_has_a_plan_of_its_own() -> None:
    sealed = plan_sum(thresholds=50, vectors=2, parties=3, backend="tenseal")
    with pytest.raises(InputError, match="for a computation of kind 'sums'"):
        JointSums(manifest_of(sealed), bytes(32))
    with pytest.raises(InputError, match="for a computation of kind 'joint sums'"):
        manifest_of(planned(), "sealed").decoded_plan(SumPlan)
