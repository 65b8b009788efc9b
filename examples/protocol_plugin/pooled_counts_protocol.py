"""An encrypted protocol that somebody else might ship: the pooled counts at each threshold, and the AUC from them.

Every party encrypts its counts under BFV, the aggregator adds ciphertexts, every party decrypts the sum and computes
the trapezoid in the clear. Parties so learn all pooled counts, which is more than an AUC; a lying aggregator is not
caught. It is an example: docs/guide/write-a-protocol.md walks through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from fhe_auc import bfv
from fhe_auc.base.errors import CapacityError, InputError, ResultCheckError
from fhe_auc.base.quantities import bytes_text
from fhe_auc.bfv import BfvParameters, PublicContext, Residues, SecretContext
from fhe_auc.bfv.ciphertext_noise import CONFIDENCE, sum_variance
from fhe_auc.bfv.parameters import CHAINS
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.parameters import SECURITY_BITS, BackendName
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rows.counts import Counts, PartyData, count
from fhe_auc.session.computation import PartyTask, SealedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import Parameter, Terms, describe_ring, ring_as_dict
from fhe_auc.session.protocol import Request, check_rows
from fhe_auc.session.submissions import RunningSum
from fhe_auc_keys.roles.encrypted_protocol import EncryptedProtocol

_PRIME = 0  # these sessions have one plaintext modulus
_LEAST_FLOODING = 40  # bits by which flooding exceeds what it hides


# --- 1. The plan: everything public that both roles must agree on -----------------------------------------------------


class CountsPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a session. It comes from whoever wrote the manifest, so that it checks itself."""

    kind: ClassVar[str] = "pooled counts"

    thresholds: int
    parties: int
    max_rows: int
    parameters: BfvParameters

    def __post_init__(self) -> None:
        (prime,) = self.parameters.plain_moduli
        if 2 * self.thresholds > self.parameters.slots:
            raise CapacityError(f"{self.thresholds:,} thresholds do not fit; at most {self.parameters.slots // 2:,} do")
        if not 0 < self.max_rows < prime:
            raise CapacityError(f"max_rows must lie between 1 and {prime - 1:,}, got {self.max_rows:,}")
        noise = CONFIDENCE * math.sqrt(sum_variance(self.parties))
        hidden = self.parameters.flooding_bits - math.log2(self.parameters.ring_dimension * noise)
        if hidden < _LEAST_FLOODING:
            raise CapacityError(f"{self.parties:,} parties make more noise than flooding hides")

    @property
    def keys(self) -> str:
        return "sealed"

    @property
    def blocks(self) -> int:
        return 1

    @property
    def submission_bytes(self) -> int:
        return self.parameters.submission_bytes

    @property
    def download_bytes(self) -> int:
        """The result: both polynomials."""
        return 2 * self.submission_bytes

    def describe(self) -> list[Parameter]:
        upload = Parameter("upload of a party", bytes_text(self.submission_bytes), "one ciphertext")
        return [*describe_ring(self.parameters, "all counts in one ciphertext", "the room for flooding"), upload]

    def as_dict(self) -> dict[str, Any]:
        return ring_as_dict(self, smudging_bits=0)

    def terms(self) -> Terms:
        row = Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound")
        return Terms([row], {"max_rows": self.max_rows})


# --- 2. What a party does with its rows: encode, and read ------------------------------------------------------------


class CountsTask(PartyTask[Residues, Residues, Evaluation]):
    """One party's counts, and the AUC from the pooled ones."""

    def __init__(self, manifest: Manifest, plan: CountsPlan, data: PartyData) -> None:
        check_rows(data.rows, plan.max_rows, party=data.name)
        self.party = data.name
        self._manifest = manifest
        self._plan = plan
        self._data = data

    def encode(self, common_secret: bytes) -> list[Residues]:
        counts = count(self._data, self._manifest.thresholds)
        values = np.zeros(self._plan.parameters.slots, np.uint64)
        values[: 2 * self._plan.thresholds] = np.concatenate([counts.tp, counts.fp])
        return [values]

    def read(self, decrypted: Residues, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        used = 2 * self._plan.thresholds
        pooled = decrypted[:used].astype(np.int64).reshape(2, -1)
        falling = (np.diff(pooled) <= 0).all()
        if decrypted[used:].any() or not falling or pooled[:, 0].sum() > self._plan.max_rows:
            raise ResultCheckError(
                "the result holds no counts of at most max_rows rows, so no number is given: there are more rows, or "
                "the aggregator has not computed what it should"
            )
        exact = trapezoid(Counts(*pooled))
        return Evaluation(
            auc=exact.auc,
            binning_error=exact.binning_error,
            numerical_error=0.0,
            protocol=self._manifest.protocol,
            backend=self._plan.parameters.backend,
            parties=len(counted),
            thresholds=self._plan.thresholds,
            verified=False,
            security_bits=SECURITY_BITS,
            warnings=("every party learns all pooled counts",),
        )


# --- 3. The computation: encrypt, aggregate, decrypt -----------------------------------------------------------------


class CountsComputation(SealedComputation[CountsTask, PublicContext, SecretContext, Residues]):
    """The sum of all parties' counts, under BFV."""

    def __init__(self, manifest: Manifest, plan: CountsPlan) -> None:
        self._manifest = manifest
        self.plan = plan

    def load_public(self, material: bytes, opening: bytes = b"") -> PublicContext:
        context = bfv.load_public(material)
        self._check(context)
        return context

    def load_secret(self, material: bytes, seed: bytes = b"") -> SecretContext:
        context = bfv.load_secret(material)
        self._check(context)
        return context

    def running_sum(self, keys: PublicContext) -> RunningSum:
        return RunningSum([keys.ciphertext_shape], lambda _, part: keys.read_submission(part, _PRIME))

    def encrypt(self, keys: SecretContext, task: CountsTask, common_secret: bytes) -> tuple[bytes, ...]:
        (values,) = task.encode(common_secret)
        return (keys.encrypt(values, _PRIME),)

    def aggregate(self, keys: PublicContext, totals: Sequence[Words]) -> bytes:
        (total,) = totals
        return keys.dump_result(keys.flood(keys.ciphertext(total, _PRIME)))

    def decrypt(self, keys: SecretContext, result: bytes) -> Residues:
        return keys.decrypt(result, _PRIME)

    def _check(self, context: PublicContext | SecretContext) -> None:
        if self._manifest.context != context.fingerprint or self.plan.parameters != context.parameters:
            raise InputError("the keys are not those of this session")


# --- 4. The plug-in --------------------------------------------------------------------------------------------------


class PooledCounts(EncryptedProtocol[Evaluation, CountsPlan]):
    """Plug-in ``pooled-counts``."""

    name = "pooled-counts"
    summary = "BFV: the pooled counts at each threshold, for all parties to see (an example)"
    trust = "the aggregator computes what it should and does not collude with a party; parties see all pooled counts"
    plan_type = CountsPlan

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> CountsPlan:
        if request.keys != "sealed":
            raise InputError(f"protocol {self.name!r} has no joint keys")
        chain, _ = CHAINS[backend]
        prime = primes_above(2**40, 1, chain.ring_dimension)
        return CountsPlan(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            max_rows=request.max_rows,
            parameters=BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, prime),
        )

    def task(self, manifest: Manifest, data: PartyData) -> CountsTask:
        return CountsTask(manifest, self.plan_of(manifest), data)

    def sealed_computation(self, manifest: Manifest) -> CountsComputation:
        return CountsComputation(manifest, self.plan_of(manifest))
