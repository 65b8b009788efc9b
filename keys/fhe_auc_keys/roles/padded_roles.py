"""Sealed keys where parties submit under one-time pads: rounds as in `fhe_auc_keys.roles.sealed_roles`.

The key holder draws a seed for each party's pad, and makes the opening of the sum of all pads, which the aggregator
needs for a result. Where parties may be missing, it is made *late*, once it is known who counts: one for all beside one
for some of them would give away those who do not count (`fhe_auc_keys.site.late_opening`).

Where vectors are added up there are pads alone, and no encryption: each party sends its vector and tags, padded; of the
sum, which comes back without the pads, it takes the common pads off, checks the tags, and reads. The key holder draws a
common secret for all parties. The opening is the plain sum of the pads, sealed to the aggregator. There is no echo: a
lie passes with a probability of 1/t² for each party, whatever the others were given.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import msgspec

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import Padded
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.protocol import Delivery
from fhe_auc.session.running_sum import RunningSum
from fhe_auc.session.vector_computation import VectorComputation, VectorPlan
from fhe_auc_keys.bundles.session_keys import (
    SEED_BYTES,
    PartySecrets,
    aggregator_material,
    new_common_secret,
    new_session_keys,
    party_secrets,
    public_context,
)
from fhe_auc_keys.roles.key_mode import Echo, KeyMode
from fhe_auc_keys.roles.sealed_roles import SealedAggregator, SealedParty, SealedSession, own_secrets


class PaddedAggregator(SealedAggregator):
    """Adds up what is padded, and computes under an `opening`, which is empty where it is to come."""

    def __init__(
        self, manifest: Manifest, computation: Any, keys: Any, opening: bytes, echo: Echo | None = None
    ) -> None:
        super().__init__(manifest, computation, keys, echo)
        # Damage shows before anybody has submitted.
        self._opened = computation.opened(keys, opening) if opening else None

    def _empty_sum(self) -> RunningSum:
        return cast("RunningSum", self._computation.running_sum())

    def _result(self, totals: list[Words]) -> bytes:
        opened = self._opened
        if is_late(self.manifest):
            if self.open_late is None:
                raise EvaluationError("nobody is there to ask for the opening of these parties' pads")
            opened = self._computation.opened(self._keys, self.open_late(self.counted))
        elif opened is None:
            raise EvaluationError("the key holder has not opened the sum of these parties' pads yet")
        return cast("bytes", self._computation.aggregate(opened, totals))


class PaddedParty(SealedParty[R]):
    """Submits under the pad of its `seed`, which is empty where the site has used it; all else as `SealedParty`."""

    def __init__(self, *of: Any, seed: bytes, common_secret: bytes) -> None:
        super().__init__(*of, common_secret=common_secret)
        self._seed = seed

    def _submission(self) -> tuple[bytes, ...]:
        if not self._seed:
            raise EvaluationError(f"party {self.name!r} has submitted already: its pad is for one submission")
        index = self.manifest.parties.index(self.name)
        padded = self._computation.under_pad(self._task, index, self._seed, self._common_secret)
        return cast("Padded", padded).parts


@dataclass(frozen=True)
class SealedPadsSession(SealedSession):
    """What the key holder has made: a seed, too, for each party's pad."""

    seeds: Mapping[str, bytes] = field(repr=False)
    opening: Callable[[Mapping[str, bytes]], bytes] = field(repr=False, compare=False)
    """Makes that of the sum of the pads from these seeds, by party."""

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone, with its seed."""
        return msgspec.structs.replace(self.common, seed=self.seeds[party])

    def delivery(self) -> Delivery:
        """Return what each role would open, of what is sealed to it; where the opening is late, ask in this process."""
        delivery, opened = super().delivery(), list[tuple[str, ...]]()
        if not is_late(self.manifest):
            return delivery

        def open_late(counted: tuple[str, ...]) -> bytes:
            if opened not in ([], [counted]):
                raise EvaluationError("the opening for other parties has been made; a session has one")
            opened[:] = [counted]
            return self.opening({party: self.seeds[party] for party in counted})

        return replace(delivery, open_late=open_late)


class SealedPads(KeyMode):
    """A key holder makes the keys, and opens the sum of the pads; parties pad, and decrypt.

    `computation` makes a `PaddedComputation`.
    """

    def opening(self, manifest: Manifest, context: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the only opening of the sum of the pads from these seeds, by party; `context` as of `PartySecrets`."""
        opening: bytes = self.computation(manifest).opening(context, seeds)
        return opening

    def prepare(self, plan: EncryptedPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:
        """Make keys and seeds, and the opening unless it is late."""
        return self.drawn(*new_session_keys(plan.parameters, announced))

    def drawn(self, manifest: Manifest, context: bytes, party: bytes, loaded: object) -> SealedPadsSession:
        """Return a session on keys that are made, with seeds, and the opening unless it is late."""
        seeds = {name: secrets.token_bytes(SEED_BYTES) for name in manifest.parties}
        secret = party_secrets(party, manifest).context
        opens = partial(self.opening, manifest, secret)
        opening = b"" if is_late(manifest) else opens(seeds)
        return SealedPadsSession(manifest, aggregator_material(context, opening), party, loaded, seeds, opens)

    def aggregator(self, manifest: Manifest, material: bytes) -> PaddedAggregator:
        """Return the aggregator; `material` is a public context, if there is any, and an opening unless it is late."""
        computation, (context, opening) = self.computation(manifest), public_context(material)
        if opening and is_late(manifest):
            raise InputError("the aggregator has an opening before it is known who counts")
        return PaddedAggregator(manifest, computation, computation.load_public(context), opening, self.echo)

    def party(self, manifest: Manifest, material: bytes, task: Any) -> PaddedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        made = manifest, computation, computation.load_secret(own.context), task, self.echo
        return PaddedParty(*made, seed=own.seed, common_secret=own.common_secret)


class SealedVectors(SealedPads):
    """A key holder draws the common secret and the seeds of the pads; there are no keys."""

    def __init__(self) -> None:
        super().__init__(VectorComputation)

    def prepare(self, plan: VectorPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:  # type: ignore[override]
        """Draw the common secret and the seeds; add up the pads unless the opening is late."""
        return self.drawn(*new_common_secret(announced))


def is_late(manifest: Manifest) -> bool:
    """Whether the opening of such a session is made once it is known who counts."""
    return manifest.min_parties < len(manifest.parties)
