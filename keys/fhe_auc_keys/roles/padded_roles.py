"""Sealed keys where parties submit under one-time pads: rounds as in `fhe_auc_keys.roles.sealed_roles`.

The key holder draws a seed for each party's pad, and encrypts the sum of all pads: the opening, which the aggregator
needs for a result. Where parties may be missing, it is made *late*, once it is known who counts: one for all beside one
for some of them would give away those who do not count (`fhe_auc_keys.site.late_opening`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.session.computation import PaddedComputation, PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Delivery
from fhe_auc.session.submissions import RunningSum
from fhe_auc_keys.bundles.session_keys import (
    SEED_BYTES,
    KeyHolderSession,
    PartySecrets,
    aggregator_material,
    new_session_keys,
    party_secrets,
    public_context,
)
from fhe_auc_keys.roles.echo import Echo
from fhe_auc_keys.roles.sealed_roles import (
    SealedAggregator,
    SealedKeys,
    SealedParty,
    own_secrets,
    sealed_delivery,
)


class PaddedAggregator(SealedAggregator):
    """Computes on padded sums, under an `opening`, which is empty where it is to come."""

    def __init__(
        self,
        manifest: Manifest,
        computation: PaddedComputation[Any, Any, Any],
        keys: Any,
        echo: Echo | None,
        opening: bytes,
    ) -> None:
        super().__init__(manifest, computation, keys, echo)
        if opening and is_late(manifest):
            raise InputError("the aggregator has an opening before it is known who counts")
        self._early = computation.opened(keys, opening) if opening else None

    def _empty_sum(self) -> RunningSum:
        return cast("RunningSum", self._computation.running_sum())

    def _opened(self) -> Any:
        if is_late(self.manifest):
            if self.open_late is None:
                raise EvaluationError("nobody is there to ask for the opening of these parties' pads")
            return self._computation.opened(self._keys, self.open_late(self.counted))
        if self._early is None:
            raise EvaluationError("the key holder has not opened the sum of these parties' pads yet")
        return self._early


class PaddedParty(SealedParty[R]):
    """Pads what it submits; the `seed` of its pad is empty once it has been used."""

    def __init__(self, *given: Any, common_secret: bytes, seed: bytes) -> None:
        super().__init__(*given, common_secret=common_secret)
        self._seed = seed

    def _submission(self) -> tuple[bytes, ...]:
        if not self._seed:
            raise EvaluationError(f"party {self.name!r} has submitted already: its pad is for one submission")
        given = self._task, self.manifest.parties.index(self.name), self._seed, self._common_secret
        return cast("tuple[bytes, ...]", self._computation.under_pad(*given))


@dataclass(frozen=True)
class SealedPadsSession(KeyHolderSession):
    """What the key holder has made: a seed, too, for each party's pad."""

    seeds: Mapping[str, bytes] = field(repr=False)
    computation: PaddedComputation[Any, Any, Any] = field(repr=False, compare=False)

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone, with its seed."""
        return msgspec.structs.replace(self.common, seed=self.seeds[party])

    def delivery(self) -> Delivery:
        """Return what each role would open, of what is sealed to it; where the opening is late, ask in this process."""
        delivery, opened = sealed_delivery(self), list[tuple[str, ...]]()
        if not is_late(self.manifest):
            return delivery

        def open_late(counted: tuple[str, ...]) -> bytes:
            if opened not in ([], [counted]):
                raise EvaluationError("the opening for other parties has been made; a session has one")
            opened[:] = [counted]
            return self.computation.opening(self.common.context, {party: self.seeds[party] for party in counted})

        return replace(delivery, open_late=open_late)


class SealedPads(SealedKeys):
    """Keys of a key holder, of a protocol whose parties pad."""

    def prepare(self, plan: Plan, announced: Callable[..., Manifest]) -> SealedPadsSession:
        """Make keys and seeds, and the opening unless it is late."""
        manifest, context, party, loaded = new_session_keys(plan.parameters, announced)
        computation = self.computation(manifest)
        seeds = {name: secrets.token_bytes(SEED_BYTES) for name in manifest.parties}
        secret = party_secrets(party, manifest.context).context
        opening = b"" if is_late(manifest) else computation.opening(secret, seeds)
        return SealedPadsSession(manifest, aggregator_material(context, opening), party, loaded, seeds, computation)

    def aggregator(self, manifest: Manifest, material: bytes) -> PaddedAggregator:
        """Return the aggregator; `material` is a public context, and an opening unless that is late."""
        computation, (context, opening) = self.computation(manifest), public_context(material)
        return PaddedAggregator(manifest, computation, computation.load_public(context), self.echo, opening)

    def party(self, manifest: Manifest, material: bytes, task: PartyTask[Any, Any, Any]) -> PaddedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        keys, secret = computation.load_secret(own.context), own.common_secret
        return PaddedParty(manifest, computation, keys, task, self.echo, common_secret=secret, seed=own.seed)


def is_late(manifest: Manifest) -> bool:
    """Whether the opening of such a session is made once it is known who counts."""
    return manifest.min_parties < len(manifest.parties)
