"""The rounds of an exact session with sealed keys.

    exact      submissions, then the result
    verified   submissions; the result, of which each party tells the others what it was given; and only where all were
               given the same, decryption and verdict

A party that decrypted before it knew that all others have the same result could be made to help an aggregator that
gives each of them another one. The verdict stays with the party: its answer in the last round is empty whatever it is.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fhe_auc import bfv, modular
from fhe_auc.bfv import Ciphertext
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import DeserialisationError, InputError, VerificationError
from fhe_auc.evaluation import Evaluation
from fhe_auc.exact_planner import ExactPlan
from fhe_auc.keystream import KeyStream
from fhe_auc.manifest import Manifest
from fhe_auc.modular import Residues
from fhe_auc.rlwe.parameters import SECURITY_BITS
from fhe_auc.rlwe.polynomials import Sum, Words
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from protocols.verified import verdict
from protocols.verified.authentication import submission
from protocols.verified.derivation import CommonSecrets

_ECHO_BYTES = 32


class ExactAggregation:
    """Running sums of both ciphertexts of every pair and prime, and the blinded product.

    Parameters
    ----------
    context : bfv.PublicContext
    plan : ExactPlan
    """

    def __init__(self, context: bfv.PublicContext, plan: ExactPlan) -> None:
        self.context = context
        self.plan = plan
        self._primes = plan.parameters.plain_moduli
        self._running = [Sum(context.ciphertext_shape) for _ in range(plan.blocks)]

    def add(self, ciphertexts: Sequence[bytes]) -> None:
        """Add one party's submission; on error the running sums are as they were.

        Raises
        ------
        DeserialisationError
            Not the ciphertexts that the plan calls for.
        """
        for total, words in zip(self._running, self.read(ciphertexts), strict=True):
            total.add(words)

    def read(self, ciphertexts: Sequence[bytes]) -> list[Words]:
        """Return the coefficients of one party's ciphertexts; errors as `add`."""
        if len(ciphertexts) != len(self._running):
            raise DeserialisationError(f"expected {len(self._running)} ciphertexts, got {len(ciphertexts)}")
        per_prime = 2 * self.plan.packing.pairs
        return [self.context.read_submission(each, number // per_prime) for number, each in enumerate(ciphertexts)]

    def sums(self, prime: int) -> list[tuple[Ciphertext, Ciphertext]]:
        """Return left and right of every pair, added up over parties, for the prime with this index."""
        pairs = self.plan.packing.pairs
        first = 2 * pairs * prime
        words = [total.words for total in self._running[first : first + 2 * pairs]]
        made = [self.context.ciphertext(each, prime) for each in words]
        return list(zip(made[0::2], made[1::2], strict=True))

    def result(self) -> tuple[bytes, ...]:
        """Return the blinded product for each prime, serialised."""
        return tuple(
            self.context.dump_result(self.blinded(self.product(self.sums(which)), which))
            for which in range(len(self._primes))
        )

    def product(self, sums: Sequence[tuple[Ciphertext, Ciphertext]]) -> Ciphertext:
        """Return left times right, slot by slot, added up over pairs."""
        total, *others = (self.context.multiply(left, right) for left, right in sums)
        for each in others:
            self.context.add_in_place(total, each)
        return total

    def blinded(self, product: Ciphertext, which: int) -> Ciphertext:
        """Return the product times one fresh multiplier, every slot hidden but for the sums over groups, flooded."""
        prime, slots = self._primes[which], self.plan.packing.slots
        stream = KeyStream(secrets.token_bytes(32))
        multiplier = modular.nonzero(stream, prime, 1)
        blinded = self.context.multiply_values(product, np.repeat(multiplier, slots))
        masked = self.context.add_values(blinded, self.plan.packing.mask(stream, prime))
        return self.context.flood(masked)


class ExactAggregator(Aggregator):
    """Adds ciphertexts as they arrive, multiplies, and blinds."""

    rounds = 2

    def __init__(self, manifest: Manifest, context: bfv.PublicContext) -> None:
        super().__init__(manifest)
        plan = _plan_of(manifest, context)
        self.submission_limit = plan.submission_bytes + 1024 * (1 + plan.blocks)
        self.aggregation = ExactAggregation(context, plan)

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self.aggregation.add(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        return encode(self._results())

    def _results(self) -> tuple[bytes, ...]:
        return self.aggregation.result()


class VerifiedAggregator(ExactAggregator):
    """Passes on besides what parties tell each other about the result."""

    rounds = 3

    def __init__(self, manifest: Manifest, context: bfv.PublicContext) -> None:
        super().__init__(manifest, context)
        self._echoes: dict[str, bytes] = {}

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round != 2:
            super()._accept(party, payload)
        elif len(payload) == _ECHO_BYTES:
            self._echoes[party] = payload
        else:
            raise DeserialisationError(f"expected an echo of {_ECHO_BYTES} bytes, got {len(payload)}")

    def _close(self) -> bytes:
        if self.round == 1:
            return super()._close()
        return encode(tuple(self._echoes[party] for party in self.manifest.parties))


class ExactTask:
    """What one party of an exact session computes on its own rows: integers to encrypt, and what a result says.

    Parameters
    ----------
    manifest : Manifest
    data : PartyData
        Rows, rounded where the session rounds scores.

    Raises
    ------
    InputError
        The manifest is of another kind, or the party alone has more rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        plan = manifest.plan
        if not isinstance(plan, ExactPlan) or plan.packing.bins != len(manifest.thresholds):
            raise InputError("the session's manifest is not one for an exact computation on its thresholds")
        if manifest.min_parties != len(manifest.parties):
            raise InputError("in an exact session every party takes part, and none can be left out")
        if len(data.y_score) > plan.max_rows:
            raise InputError(f"party {data.name!r} has more rows than the session's max_rows = {plan.max_rows:,}")
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        self._data = data
        self._common: CommonSecrets | None = None

    def set_common_secret(self, secret: bytes) -> None:
        """Take what all parties of the session have in common."""
        primes = self.plan.parameters.plain_moduli
        self._common = CommonSecrets(secret, self._manifest.digest, self.plan.packing, primes)

    @property
    def common(self) -> CommonSecrets:
        """What the parties have in common."""
        if self._common is None:
            raise InputError(f"party {self.party!r} has no common secret yet")
        return self._common

    def vectors(self) -> list[tuple[int, Residues]]:
        """Return what to encrypt, shape (slots,) each, with the index of the prime: left and right of every pair."""
        packing, parties = self.plan.packing, self._manifest.parties
        counts = count(self._data, self._manifest.thresholds)
        entries = packing.place(counts.trapezoid_heights, counts.bin_positives, counts.bin_negatives)
        private, index = KeyStream(secrets.token_bytes(32)), parties.index(self.party)
        found = []
        for which, prime in enumerate(self.plan.parameters.plain_moduli):
            if packing.authenticated:
                pads = self.common.pads(which, index), self.common.pads(which, (index + 1) % len(parties))
                sides = submission(packing, self.common.of_primes[which], index, pads, entries, private)
            else:
                sides = packing.plain(*(modular.residues(each, prime) for each in entries))
            found += [(which, side[pair]) for pair in range(packing.pairs) for side in sides]
        return found

    def outcome(self, slots: Sequence[Residues]) -> Evaluation:
        """Return AUC and resolution from a result's slots, one vector for each prime.

        Raises
        ------
        VerificationError, ResultCheckError
            They are not those of an honest result.
        UndefinedAucError
            The pooled rows have one class only.
        """
        packing, primes = self.plan.packing, self.plan.parameters.plain_moduli
        found = [packing.totals(each, prime) for each, prime in zip(slots, primes, strict=True)]
        bound = verdict.largest_denominator(self.plan.max_rows)
        if packing.authenticated:
            exact = verdict.accept(found, self.common.of_primes, bound)
        else:
            exact = verdict.fractions([totals[0] for totals in found], primes, bound)
        return Evaluation(
            auc=float(exact[0]),
            resolution=float(exact[1]) if packing.ties else 0.0,
            precision=0.0,
            fraction=exact[0],
            soundness=verdict.soundness(primes, packing.sums, bound) if packing.authenticated else None,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=len(self._manifest.parties),
            thresholds=packing.bins,
            verified=packing.authenticated,
            security_bits=SECURITY_BITS,
            settings={"primes": len(primes), "flooding_bits": round(self.plan.flooding_margin, 1)},
        )


class ExactParty(Party[Evaluation]):
    """Encrypts its integers, then decrypts the blinded sums and divides."""

    rounds = 2

    def __init__(
        self, manifest: Manifest, context: bfv.SecretContext, task: ExactTask, *, common_secret: bytes
    ) -> None:
        super().__init__(manifest, task.party)
        plan = _plan_of(manifest, context)
        self.download_limit = plan.result_bytes + (1024 + _ECHO_BYTES) * (len(manifest.parties) + plan.blocks)
        task.set_common_secret(common_secret)
        self._context = context
        self._task = task
        self._seconds: dict[str, float] = {}

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            answer = encode(tuple(self._context.encrypt(values, which) for which, values in self._task.vectors()))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        self._conclude(payload, started)
        return b""

    def _conclude(self, result: bytes, started: float) -> None:
        parts = decode(result, tuple[bytes, ...], "result")
        if len(parts) != len(self._task.plan.parameters.plain_moduli):
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts")
        outcome = self._task.outcome([self._context.decrypt(each, which) for which, each in enumerate(parts)])
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="sealed", seconds=self._seconds)


class VerifiedParty(ExactParty):
    """Decrypts only what all parties were given, and accepts only what the authenticator fits."""

    rounds = 3

    _result = b""

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == 1:
            return super()._answer(round_number, payload)
        common, parties = self._task.common, self.manifest.parties
        if round_number == 2:
            self._result = payload
            return common.echo(parties.index(self.name), payload)
        started = time.perf_counter()
        echoes = decode(payload, tuple[bytes, ...], "echoes")
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        for index, party in enumerate(parties):
            if not hmac.compare_digest(echoes[index], common.echo(index, self._result)):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given"
                )
        self._conclude(self._result, started)
        return b""


def _plan_of(manifest: Manifest, context: bfv.PublicContext | bfv.SecretContext) -> ExactPlan:
    plan = manifest.plan
    if not isinstance(plan, ExactPlan):
        raise InputError("the session's manifest is not one for an exact computation")
    if plan.parameters != context.parameters:
        raise InputError("the keys were made with other parameters than the session's manifest names")
    if plan.joint_keys:
        raise InputError("the session's manifest asks for joint keys")
    if manifest.context != context.fingerprint:
        raise InputError("the keys are not those of this session (fingerprint mismatch)")
    return plan
