"""Sealed keys where parties submit under one-time pads: rounds as in `fhe_auc_keys.roles.sealed_roles`.

The key holder draws a seed for each party's pad, and makes the pad key, which takes the sum of all pads off: the
aggregator needs it for a result. So all parties must submit. A second pad key, for some of them, would give away the
others; where sites may be away, a helper opens (`fhe_auc_keys.roles.helper_roles`).

Where vectors are added up there are pads alone, and no encryption: each party sends its vector and tags, padded; of the
sum, which comes back without the pads, it takes the common pads off, checks the tags, and reads. The key holder draws a
common secret for all parties. The pad key is the plain sum of the pads, sealed to the aggregator. There is no echo: a
lie passes with a probability of 1/t² for each party, whatever the others were given.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import Padded
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.protocol import Request
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

_ALL_MUST_SUBMIT = (
    'min_parties: with keys="sealed" all parties must submit, as the key that takes their pads off is made beforehand; '
    'where sites may be away take a helper: keys="helper" (--keys helper)'
)


class PaddedAggregator(SealedAggregator):
    """Adds up what is padded, and computes under the pad key."""

    def __init__(
        self, manifest: Manifest, computation: Any, keys: Any, pad_key: bytes, echo: Echo | None = None
    ) -> None:
        super().__init__(manifest, computation, keys, echo)
        # Damage shows before anybody has submitted.
        self._pad_key = computation.opened(keys, pad_key)

    def _empty_sum(self) -> RunningSum:
        return cast("RunningSum", self._computation.running_sum())

    def _result(self, totals: list[Words]) -> bytes:
        return cast("bytes", self._computation.aggregate(self._pad_key, totals))


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

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone, with its seed."""
        return msgspec.structs.replace(self.common, seed=self.seeds[party])


class SealedPads(KeyMode):
    """A key holder makes the keys, and opens the sum of the pads; parties pad, and decrypt.

    `computation` makes a `PaddedComputation`.
    """

    def check(self, request: Request) -> None:
        """Raise `InputError` where a request lets parties be away."""
        if request.min_parties is not None and request.min_parties < request.size:
            raise InputError(_ALL_MUST_SUBMIT)

    def prepare(self, plan: EncryptedPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:
        """Make keys, seeds and pad key."""
        return self.drawn(*new_session_keys(plan.parameters, announced))

    def drawn(self, manifest: Manifest, context: bytes, party: bytes, loaded: object) -> SealedPadsSession:
        """Return a session on keys that are made, with seeds and pad key."""
        seeds = {name: secrets.token_bytes(SEED_BYTES) for name in manifest.parties}
        pad_key = self.computation(manifest).opening(party_secrets(party, manifest).context, seeds)
        return SealedPadsSession(manifest, aggregator_material(context, pad_key), party, loaded, seeds)

    def aggregator(self, manifest: Manifest, material: bytes) -> PaddedAggregator:
        """Return the aggregator; `material` is a public context, if there is any, and a pad key."""
        _require_all(manifest)
        computation, (context, pad_key) = self.computation(manifest), public_context(material)
        return PaddedAggregator(manifest, computation, computation.load_public(context), pad_key, self.echo)

    def party(self, manifest: Manifest, material: bytes, task: Any) -> PaddedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        _require_all(manifest)
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        made = manifest, computation, computation.load_secret(own.context), task, self.echo
        return PaddedParty(*made, seed=own.seed, common_secret=own.common_secret)


class SealedVectors(SealedPads):
    """A key holder draws the common secret and the seeds of the pads; there are no keys."""

    def __init__(self) -> None:
        super().__init__(VectorComputation)

    def prepare(self, plan: VectorPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:  # type: ignore[override]
        """Draw the common secret and the seeds; add up the pads."""
        return self.drawn(*new_common_secret(announced))


def _require_all(manifest: Manifest) -> None:
    """Raise `InputError` for a manifest that lets parties be away, which no `prepare` makes."""
    if manifest.min_parties < len(manifest.parties):
        raise InputError(_ALL_MUST_SUBMIT)
