"""What one party of an exact session computes on its own rows, whoever has which key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

from fhe_auc.counts import PartyData, count
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.keystream import KeyStream
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.parameters import SECURITY_BITS
from fhe_auc.serialise import decode
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.exact_auc import result_check as verdict
from fhe_auc_protocols.exact_auc.authenticator import submission
from fhe_auc_protocols.exact_auc.derived_secrets import CommonSecrets
from fhe_auc_protocols.exact_auc.planner import ExactPlan
from fhe_auc_protocols.result_warnings import of_auc

_RELEASED = (
    "the exact fraction is released: assume that parties can work out how many pooled rows have each label; "
    "semi-honest with release_digits prevents that"
)


def exact_plan(manifest: Manifest, *, joint_keys: bool) -> ExactPlan:
    """Return the manifest's plan; raise `InputError` where it is none for such keys, or does not fit the manifest."""
    plan = manifest.plan
    if not isinstance(plan, ExactPlan) or plan.thresholds != len(manifest.thresholds):
        raise InputError("the session's manifest is not one for an exact computation on its thresholds")
    if plan.joint_keys != joint_keys:
        raise InputError(f"the session's manifest asks for {'joint' if plan.joint_keys else 'sealed'} keys")
    if plan.parties < len(manifest.parties):
        raise InputError("the manifest's plan is for fewer parties")
    if manifest.min_parties != len(manifest.parties):
        raise InputError("in an exact session every party takes part, and none can be left out")
    return plan


def result_parts(plan: ExactPlan, result: bytes) -> tuple[bytes, ...]:
    """Return a result's ciphertexts, one for each prime; raise `DeserialisationError` where there are not as many."""
    parts = decode(result, tuple[bytes, ...], "result")
    if len(parts) != plan.primes:
        raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {plan.primes}")
    return parts


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
        plan = exact_plan(manifest, joint_keys=manifest.joint_keys)
        check_rows(data, plan.max_rows)
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        self._data = data
        self.common_secret = b""

    @cached_property
    def common(self) -> CommonSecrets:
        """What the parties derive from their common secret, which must be set."""
        primes = self.plan.parameters.plain_moduli
        return CommonSecrets(self.common_secret, self._manifest.digest, self.plan.packing, primes)

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
        packing, primes, parties = self.plan.packing, self.plan.parameters.plain_moduli, len(self._manifest.parties)
        found = [packing.totals(each, prime) for each, prime in zip(slots, primes, strict=True)]
        bound = self.plan.largest_den
        if packing.authenticated:
            exact = verdict.accept(found, self.common.of_primes, bound)
        else:
            exact = verdict.fractions([totals[0] for totals in found], primes, bound)
        auc, resolution = exact if packing.ties else (*exact, Fraction(0))
        return Evaluation(
            auc=float(auc),
            resolution=float(resolution),
            precision=0.0,
            fraction=auc,
            resolution_fraction=resolution,
            soundness=verdict.soundness(primes, packing.sums, bound) if packing.authenticated else None,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=packing.bins,
            verified=packing.authenticated,
            security_bits=SECURITY_BITS,
            settings={
                **self._manifest.options,
                "primes": len(primes),
                "flooding_bits": round(self.plan.flooding_margin, 1),
            },
            warnings=(*of_auc(self._manifest, parties, float(resolution)), _RELEASED),
        )
