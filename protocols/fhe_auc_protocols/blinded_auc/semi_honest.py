"""AUC under CKKS with an aggregator that follows the protocol but is curious.  [FHE] §IV-C, repacked and mended.

One ciphertext per party (block), two classes:

    class 0   X = T_k + i·p_k       Y = F_k      total  num + i·tie
    class 1   X = 2P·(1 + i·κ)      Y = F_k      total  den·(1 + i·κ)      since Σ F_k = N

The second imaginary part is redundancy: no wrap-around of the modulus keeps Im = κ·Re, so a result beyond capacity is
refused instead of read. Parties decrypt r·(num + i·tie) and r·den·(1 + iκ) and divide.

The aggregator sees ciphertexts only. Parties learn the AUC, the resolution, and den times a multiplier r unknown to
them. That is a blur, not a theorem: few values of den fit so precise an AUC, so assume that parties can work out P·N,
unless `release_digits` is set. A lying aggregator is not caught, and anyone with the secret key can read whatever
ciphertext the aggregator hands over: the aggregator must not collude with a party.
"""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np

from fhe_auc import ckks
from fhe_auc.computation import PartyTask
from fhe_auc.counts import Counts, PartyData, count
from fhe_auc.errors import InputError, ResultCheckError, UndefinedAucError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.blinded_auc.error_bound import error_bound, fresh_error
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc
from fhe_auc_protocols.blinded_auc.result_check import DECODING, Recovered, rare_class_warning, slot_error
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.result_warnings import of_auc

_CLASSES = 2


class SemiHonest(BlindedAuc):
    """Plug-in ``semi-honest``."""

    name = "semi-honest"
    summary = "CKKS; the aggregator sees ciphertexts only and is trusted to follow the protocol"
    trust = "the aggregator computes what it should and does not collude with a party"
    options = MappingProxyType({"release_digits": "decimals of the AUC that parties may learn, 1 to 6; default: all"})

    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; option: ``release_digits`` (1 to 6)."""
        return Workload(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            max_rows=request.max_rows,
            min_rows=request.min_rows,
            release_digits=request.options.get("release_digits"),
            joint_keys=request.keys == "joint",
        )

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, Evaluation]:
        """Return a party's computation on its own rows."""
        return SemiHonestTask(manifest, data)


class SemiHonestTask(PartyTask[ckks.Slots, ckks.Slots, Evaluation]):
    """Counts a party's rows, and reads AUC and resolution off the blinded totals."""

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self.party = data.name
        self._manifest = manifest
        self.plan = manifest.decoded_plan(AucPlan)
        self._data = data
        check_rows(data, self.plan.workload.max_rows)
        if self.plan.workload.disguised or self.plan.workload.classes != _CLASSES:
            raise InputError("the session's manifest is not one for undisguised counts in two classes")

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed class vectors of this party's counts."""
        return self.plan.packing.pack(*class_vectors(count(self._data, self._manifest.thresholds)))

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> Evaluation:
        """Return AUC and resolution; errors as `recover`."""
        recovered = recover(decrypted, self.plan)
        return Evaluation(
            auc=recovered.auc,
            resolution=recovered.resolution,
            precision=error_bound(self.plan),
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=len(self._manifest.thresholds),
            verified=False,
            security_bits=ckks.SECURITY_BITS,
            warnings=_warnings(self._manifest, self.plan, parties, recovered.resolution),
        )


def class_vectors(counts: Counts) -> tuple[ckks.Slots, ckks.Slots]:
    """Return X and Y of one party, each of shape (2, m), from its counts."""
    x = np.empty((2, counts.thresholds), complex)
    x[0] = counts.trapezoid_heights + 1j * counts.bin_positives
    x[1] = 2 * counts.positives * (1 + 1j * CHECK_WEIGHT)
    y = np.tile(counts.bin_negatives.astype(complex), (2, 1))
    return x, y


def recover(slots: ckks.Slots, chosen: AucPlan) -> Recovered:
    """Return the AUC from the decrypted slots of the result.

    Raises
    ------
    ResultCheckError
        Slots of a class differ, den's redundancy is broken, or the ratio is no AUC. No number is given.
    UndefinedAucError
        The pooled rows have one class only.
    """
    by_class = chosen.packing.by_class(slots)
    totals = by_class.mean(axis=1)
    size = float(np.abs(totals).max())
    one_slot = slot_error(size, chosen)
    total_error = one_slot / math.sqrt(by_class.shape[1]) + DECODING * size
    if not np.isfinite(slots).all() or np.abs(by_class - totals[:, None]).max() > one_slot:
        raise ResultCheckError(_REFUSED.format("the slots of a class differ"), check="slots")
    num, den = totals
    # With limited digits the blur's rounding moves up to 1.3·num into den (`PublicContext.multiply_integers`).
    rounding = 0.0 if chosen.release_digits is None else 2.0 / chosen.least_multiplier * size
    broken = abs(den.imag - CHECK_WEIGHT * den.real) > 2 * total_error + 2 * fresh_error(chosen) * abs(den) + rounding
    if abs(den.real) < _largest_zero(chosen, noise_shows=broken):
        raise UndefinedAucError("the pooled rows have one class only, so the AUC is undefined; no number is given")
    if broken:
        raise ResultCheckError(_REFUSED.format("the redundancy of the denominator is broken"), check="redundancy")
    return _ratio(num / den.real, chosen)


def _largest_zero(chosen: AucPlan, *, noise_shows: bool) -> float:
    """Return how large a denominator may be that stands for zero.

    P = N = 1 gives 2·r·gain, so anything below half of that at the smallest r is zero. With many rows of one class
    encryption noise alone may exceed it (by r times the error bound times 2·max_rows); being noise, it breaks the
    redundancy, and is still far too small for a wrap-around.
    """
    if not noise_shows:
        return chosen.least_multiplier * chosen.packing.gain
    noise = 2.0**chosen.blinding_bits * chosen.packing.gain * error_bound(chosen) * 2 * chosen.workload.max_rows
    return max(noise, chosen.least_multiplier * chosen.packing.gain)


_REFUSED = (
    "the decrypted result fails its check ({}), so no number is given: more pooled rows than max_rows, a class rarer "
    "than one row in a million, a damaged message or a wrong key; if there may be more rows, raise max_rows"
)


def _ratio(ratio: complex, chosen: AucPlan) -> Recovered:
    """Return AUC and resolution from the complex ratio, rounded where digits are limited."""
    slack = 100 * error_bound(chosen)
    if chosen.release_digits is not None:
        slack += 10.0**-chosen.release_digits
    if not -slack <= ratio.real <= 1 + slack:
        raise ResultCheckError(_REFUSED.format("the ratio is outside its range"), check="range")
    auc, resolution = float(np.clip(ratio.real, 0, 1)), max(float(ratio.imag), 0.0)
    if chosen.release_digits is None:
        return Recovered(auc, resolution)
    # The blur of both, and rounding, go into the half-width.
    unit = 10.0**-chosen.release_digits
    return Recovered(round(auc, chosen.release_digits), math.ceil(resolution / unit + 1.5) * unit)


def _warnings(manifest: Manifest, chosen: AucPlan, parties: int, resolution: float) -> tuple[str, ...]:
    found = of_auc(manifest, parties, resolution) + rare_class_warning(chosen)
    if chosen.release_digits is None:
        found += (
            "all digits released: assume that parties can work out how many pooled rows have each label; "
            "limit release_digits to prevent it",
        )
    return found
