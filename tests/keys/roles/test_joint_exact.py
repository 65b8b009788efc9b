"""The rounds of joint keys carry an exact computation as they carry CKKS's: each prime's product comes out exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv.joint_keys import JointEvaluator, JointSetup, JointShare, fuse
from fhe_auc.results.evaluation import Outcome
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.computation import JointComputation, PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.roles.joint_roles import JointAggregator, JointParty, JointSession
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_protocols.exact_auc.parameter_choice import plan_exact

NAMES = ("north", "south", "east")
GRID = np.linspace(0, 1, 16)
PLAN = plan_exact(thresholds=len(GRID), parties=len(NAMES), backend="tenseal", max_rows=10**9, joint_keys=True)
PRIMES = PLAN.parameters.plain_moduli
Vectors = list[tuple[int, Residues]]  # each with the index of its prime


@dataclass(frozen=True, kw_only=True)
class Products(Outcome):
    """What parties of the sessions below learn: for each prime, the product of two sums."""

    values: tuple[tuple[int, ...], ...]


class Numbers(PartyTask[tuple[int, Residues], list[Residues], Products]):
    """A party's task: two vectors for each prime."""

    def __init__(self, party: str) -> None:
        generator = np.random.default_rng(NAMES.index(party))
        self.party = party
        self.vectors: Vectors = [
            (prime, generator.integers(0, PRIMES[prime], 8192, dtype=np.uint64))
            for prime in range(len(PRIMES))
            for _ in range(2)
        ]
        self.common_secrets: list[bytes] = []

    def encode(self, common_secret: bytes) -> Vectors:
        self.common_secrets.append(common_secret)
        return self.vectors

    def read(self, decrypted: list[Residues], counted: Sequence[str], common_secret: bytes) -> Products:
        self.common_secrets.append(common_secret)
        values = tuple(tuple(each.tolist()) for each in decrypted)
        return Products(protocol="exact", backend="tenseal", parties=len(counted), security_bits=128, values=values)


class Product(JointComputation[Numbers, JointEvaluator, list[Residues]]):
    """(Σ left)·(Σ right), for each prime."""

    plan = PLAN

    def __init__(self, binding: bytes) -> None:
        self.setup: JointSetup = JointSetup(PLAN.parameters, binding, products=1, kept=PLAN.kept)
        half = self.setup.result_part
        self.partial_shape = Polynomials(half.ring_dimension, len(PRIMES) * half.moduli)

    def encrypt(self, keys: JointShare, task: Numbers, common_secret: bytes) -> tuple[bytes, ...]:
        vectors = task.encode(common_secret)
        return tuple(keys.encrypt(values, prime, block) for block, (prime, values) in enumerate(vectors))

    def public_keys(self, key_parts: Sequence[Words], relinearisation_part: Words) -> JointEvaluator:
        return JointEvaluator(self.setup, key_parts, relinearisation_part)

    def aggregate(self, keys: JointEvaluator, totals: Sequence[Words]) -> bytes:
        results = []
        for prime in range(len(PRIMES)):
            product = keys.product([totals[block] for block in self.setup.blocks(prime)], prime)
            keys.flood(product, PLAN.flooding_exponent)
            results.append(keys.dump_result(product, prime))
        return encode(tuple(results))

    def partial_decryption(self, share: JointShare, result: bytes) -> bytes:
        parts, none = enumerate(self._parts(result)), np.zeros(8192, np.uint64)
        return b"".join(share.partial_decryption(each, prime, PLAN.smudging_exponent, none) for prime, each in parts)

    def combine(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        split = [np.split(each, len(PRIMES)) for each in partials]
        return [
            fuse(self.setup, each, prime, [partial[prime] for partial in split])
            for prime, each in enumerate(self._parts(result))
        ]

    def _parts(self, result: bytes) -> tuple[bytes, ...]:
        parts = decode(result, tuple[bytes, ...], "result")
        if len(parts) != len(PRIMES):
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts")
        return parts


MANIFEST = Manifest(
    protocol="exact",
    session=b"joint exact test",
    parties=NAMES,
    grid=GRID.tobytes(),
    min_parties=len(NAMES),
    keys="joint",
    plan=EncodedPlan(PLAN.kind, encode(PLAN)),
)


def expected() -> list[list[int]]:
    found = []
    tasks = [Numbers(name) for name in NAMES]
    for prime, modulus in enumerate(PRIMES):
        sums = [
            [sum(column) for column in zip(*(task.vectors[block][1].tolist() for task in tasks), strict=True)]
            for block in (2 * prime, 2 * prime + 1)
        ]
        found.append([x * y % modulus for x, y in zip(*sums, strict=True)])
    return found


def test_an_exact_session_runs_through_the_five_rounds_of_joint_keys() -> None:
    delivery = JointSession(MANIFEST).delivery()
    roster = Roster.from_bytes(delivery.aggregator)
    aggregator = JointAggregator(MANIFEST, roster, Product(roster.binding(MANIFEST)))
    parties = []
    for name in NAMES:
        identity = Identity.from_bytes(decode(delivery.parties[name], PartyMaterial, "material").identity)
        parties.append(JointParty(MANIFEST, roster, identity, Numbers(name), Product(roster.binding(MANIFEST))))
    message: bytes | None = aggregator.start()
    while message is not None:
        for party in parties:
            aggregator.receive(party.name, party.respond(message))
        message = aggregator.finish_round()
    for party in parties:
        found = party.result()
        assert [list(each) for each in found.values] == expected()
        assert found.keys == "joint"
        assert found.key_bytes_per_party == PLAN.key_bytes
    (secret,) = {secret for party in parties for secret in party._task.common_secrets}
    assert len(secret) == 32
    assert aggregator.result().counted == NAMES
