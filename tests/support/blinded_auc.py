"""The blinded AUC without rounds and messages: counts, and the circuit on submissions that are there already."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fhe_auc import ckks
from fhe_auc.base.serialise import encode
from fhe_auc.rows.counts import Counts
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan, Plan
from fhe_auc_protocols.blinded_auc.blinding import BlindingRandomness
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors


def counts_of(bin_positives: Any, bin_negatives: Any) -> Counts:
    """Counts from rows per bin."""
    return Counts(*(np.cumsum(np.asarray(side, np.int64)[::-1])[::-1] for side in (bin_positives, bin_negatives)))


def encoded(plan: Plan) -> EncodedPlan:
    """The plan as it stands in a manifest."""
    return EncodedPlan(plan.kind, encode(plan))


def manifest_with(content: EncodedPlan, *, thresholds: int = 16, parties: int = 2, **changes: Any) -> Manifest:
    """A manifest without keys."""
    values = {
        "protocol": "semi-honest",
        "session": bytes(16),
        "parties": tuple(f"site {number}" for number in range(parties)),
        "grid": np.linspace(0, 1, thresholds).tobytes(),
        "min_parties": parties,
        "keys": "sealed",
        "context": bytes(32),
        "plan": content,
    }
    return Manifest(**{**values, **changes})


def submission(secret: ckks.SecretContext, plan: AucPlan, counts: Counts) -> tuple[bytes, ...]:
    """What a semi-honest party submits, without envelope."""
    return tuple(secret.encrypt(block) for block in plan.packing.pack(*class_vectors(counts)))


def encrypted_result(
    public: ckks.PublicContext,
    plan: AucPlan,
    submissions: Iterable[Sequence[bytes]],
    *,
    randomness: BlindingRandomness = secrets,
) -> bytes:
    """What the aggregator makes of submissions."""
    total = running_sum(public, plan.blocks)
    for each in submissions:
        total.add(each)
    sums = [public.ciphertext(words) for words in total.totals]
    return public.dump_result(blinded_totals(plan, public, sums, randomness=randomness))
