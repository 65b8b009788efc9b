"""What one party of an exact session computes on its own rows, whoever has which key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from fhe_auc.computation import PartyTask
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
from fhe_auc_protocols.exact_auc import result_check
from fhe_auc_protocols.exact_auc.authenticator import submission
from fhe_auc_protocols.exact_auc.derived_secrets import CommonSecrets
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.result_warnings import of_precise_auc


def exact_plan(manifest: Manifest) -> ExactPlan:
    """Return the manifest's plan; raise `InputError` where it is none, or does not fit the manifest."""
    plan = manifest.decoded_plan(ExactPlan)
    if manifest.min_parties != len(manifest.parties):
        raise InputError("in an exact session every party takes part, and none can be left out")
    return plan


def result_parts(plan: ExactPlan, result: bytes) -> tuple[bytes, ...]:
    """Return a result's ciphertexts, one for each prime; raise `DeserialisationError` where there are not as many."""
    parts = decode(result, tuple[bytes, ...], "result")
    if len(parts) != plan.primes:
        raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {plan.primes}")
    return parts


class ExactTask(PartyTask["tuple[int, Residues]", Sequence[Residues], Evaluation]):
    """What one party of an exact session computes on its own rows: integers to encrypt, and what a result says.

    Rows come rounded where the session rounds scores.

    Raises `InputError`: the manifest is of another kind, or the party alone has more rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        plan = exact_plan(manifest)
        check_rows(data, plan.max_rows)
        self.party = data.name
        self.plan = plan
        self._manifest = manifest
        self._data = data

    def derived(self, common_secret: bytes) -> CommonSecrets:
        """Return what the parties derive from their common secret; raise `ValueError` unless it has 32 bytes."""
        primes = self.plan.parameters.plain_moduli
        return CommonSecrets(common_secret, self._manifest.digest, self.plan.packing, primes)

    def encode(self, common_secret: bytes) -> list[tuple[int, Residues]]:
        """Return what to encrypt, shape (slots,) each, with the index of the prime: left and right of every pair."""
        common = self.derived(common_secret)
        packing, parties = self.plan.packing, self._manifest.parties
        counts = count(self._data, self._manifest.thresholds)
        entries = packing.place(counts.trapezoid_heights, counts.bin_positives, counts.bin_negatives)
        private, index = KeyStream(secrets.token_bytes(32)), parties.index(self.party)
        found = []
        for which, prime in enumerate(self.plan.parameters.plain_moduli):
            if packing.authenticated:
                pads = common.pads(which, index), common.pads(which, (index + 1) % len(parties))
                sides = submission(packing, common.of_primes[which], index, pads, entries, private)
            else:
                sides = packing.plain(*(modular.residues(each, prime) for each in entries))
            found += [(which, side[pair]) for pair in range(packing.pairs) for side in sides]
        return found

    def read(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and resolution from a result's slots, one vector of shape (slots,) for each prime.

        Raises
        ------
        VerificationError, ResultCheckError
            They are not those of an honest result.
        UndefinedAucError
            The pooled rows have one class only.
        """
        packing, primes = self.plan.packing, self.plan.parameters.plain_moduli
        found = [packing.totals(each, prime) for each, prime in zip(decrypted, primes, strict=True)]
        bound = self.plan.largest_den
        if packing.authenticated:
            auc, resolution = result_check.accept(found, self.derived(common_secret).of_primes, bound)
        else:
            auc, resolution = result_check.fractions([totals[0] for totals in found], primes, bound)
        return Evaluation(
            auc=float(auc),
            resolution=float(resolution),
            precision=0.0,
            fraction=auc,
            resolution_fraction=resolution,
            soundness=result_check.soundness(primes, packing.sums, bound) if packing.authenticated else None,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=len(counted),
            thresholds=packing.bins,
            verified=packing.authenticated,
            security_bits=SECURITY_BITS,
            settings={
                **self._manifest.options,
                "primes": len(primes),
                "flooding_bits": round(self.plan.flooding_margin, 1),
            },
            warnings=of_precise_auc(self._manifest, len(counted), float(resolution)),
        )
