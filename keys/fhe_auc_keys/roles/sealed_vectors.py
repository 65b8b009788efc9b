"""Sealed keys where vectors are added up: pads alone, no encryption, rounds as in `fhe_auc_keys.roles.sealed_roles`.

    1  "begin"                          ->  each party: its vector and tags, padded
    2  the sum, of which the pads       ->  (nothing: each party takes the common pads off, checks the tags, and reads)
       have been taken off

The key holder draws a common secret for all parties, and a seed for each one's pad. The opening is the plain sum of the
pads, sealed to the aggregator; it is made late where parties may be missing (`padded_roles`). There is no echo: a lie
passes with a probability of 1/t² for each party, whatever the others were given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.vector_computation import VectorComputation, VectorPlan, VectorTask
from fhe_auc_keys.bundles.session_keys import new_common_secret
from fhe_auc_keys.roles.padded_roles import KeyHolderPads, PaddedAggregator, SealedPadsSession, opening_in, padding
from fhe_auc_keys.roles.sealed_roles import SealedParty, own_secrets


class SealedVectors(KeyHolderPads):
    """A key holder draws the common secret and the seeds of the pads."""

    def __init__(self) -> None:
        super().__init__(VectorComputation)

    def opening(self, manifest: Manifest, context: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the sum of the pads; `context` is empty."""
        return VectorComputation(manifest).opening(seeds)

    def prepare(self, plan: VectorPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:
        """Draw the common secret and the seeds; add up the pads unless the opening is late."""
        return self.drawn(*new_common_secret(announced))

    def aggregator(self, manifest: Manifest, material: bytes) -> PaddedAggregator:
        """Return the aggregator; `material` is the opening, or empty where that is late."""
        computation, (_, opening) = VectorComputation(manifest), opening_in(material, manifest)
        if opening:
            computation.check_opening(opening)
        return PaddedAggregator(manifest, computation, computation.aggregate, opening)

    def party(self, manifest: Manifest, material: bytes, task: VectorTask[Any]) -> SealedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        own, computation = own_secrets(material, manifest), VectorComputation(manifest)
        secret = own.common_secret

        def padded(seed: bytes) -> tuple[bytes]:
            return computation.submission(task, computation.pad(task.party, seed), secret)

        def read(result: Result) -> Any:
            return computation.outcome(task, result.content, result.counted, secret)

        return SealedParty(
            manifest,
            task.party,
            padding(task.party, own.seed, padded),
            read,
            limit=computation.payload_limit,
            common_secret=secret,
        )
