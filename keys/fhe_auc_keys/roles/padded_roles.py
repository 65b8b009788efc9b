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
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import PartyTask, Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.protocol import Delivery
from fhe_auc.session.vector_computation import VectorComputation, VectorPlan, VectorTask
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
from fhe_auc_keys.roles.sealed_roles import SealedAggregator, SealedParty, SealedSession, decrypting_party, own_secrets


class PaddedAggregator(SealedAggregator):
    """Adds up what is padded; `aggregate` computes under an `opening`, which is empty where it is to come."""

    def __init__(
        self,
        manifest: Manifest,
        computation: Any,
        aggregate: Callable[[bytes, list[Words]], bytes],
        opening: bytes,
        echo: Echo | None = None,
    ) -> None:
        limit = computation.payload_limit
        super().__init__(manifest, computation.running_sum(), self._opened_result, limit=limit, echo=echo)
        self._aggregate, self._early = aggregate, opening

    def _opened_result(self, counted: tuple[str, ...], totals: list[Words]) -> bytes:
        if not is_late(self.manifest):
            if not self._early:
                raise EvaluationError("the key holder has not opened the sum of these parties' pads yet")
            return self._aggregate(self._early, totals)
        if self.open_late is None:
            raise EvaluationError("nobody is there to ask for the opening of these parties' pads")
        return self._aggregate(self.open_late(counted), totals)


def padding(name: str, seed: bytes, pad: Callable[[bytes], tuple[bytes, ...]]) -> Callable[[], tuple[bytes, ...]]:
    """Return what makes the submission, `pad` of the party's seed; it raises `EvaluationError` where that is used."""

    def submit() -> tuple[bytes, ...]:
        if not seed:
            raise EvaluationError(f"party {name!r} has submitted already: its pad is for one submission")
        return pad(seed)

    return submit  # no `partial`, which would print the seed


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


class KeyHolderPads(KeyMode):
    """A key holder draws the seeds of the parties' pads, and opens the sum of the pads."""

    @abstractmethod
    def opening(self, manifest: Manifest, context: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the only opening of the sum of the pads from these seeds, by party; `context` as of `PartySecrets`."""

    def drawn(self, manifest: Manifest, context: bytes, party: bytes, loaded: object) -> SealedPadsSession:
        """Return a session on keys that are made, with seeds, and the opening unless it is late."""
        seeds = {name: secrets.token_bytes(SEED_BYTES) for name in manifest.parties}
        secret = party_secrets(party, manifest).context
        opens = partial(self.opening, manifest, secret)
        opening = b"" if is_late(manifest) else opens(seeds)
        return SealedPadsSession(manifest, aggregator_material(context, opening), party, loaded, seeds, opens)


class SealedPads(KeyHolderPads):
    """A key holder makes the keys; parties pad, and decrypt. `computation` makes a `PaddedComputation`."""

    def opening(self, manifest: Manifest, context: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the opening, encrypted under the secret `context`."""
        opening: bytes = self.computation(manifest).opening(context, seeds)
        return opening

    def prepare(self, plan: EncryptedPlan, announced: Callable[..., Manifest]) -> SealedPadsSession:
        """Make keys and seeds, and the opening unless it is late."""
        return self.drawn(*new_session_keys(plan.parameters, announced))

    def aggregator(self, manifest: Manifest, material: bytes) -> PaddedAggregator:
        """Return the aggregator; `material` is a public context, and an opening unless that is late."""
        computation, (context, opening) = self.computation(manifest), opening_in(material, manifest)
        public = computation.load_public(context)
        early = computation.opened(public, opening) if opening else None  # damage shows before anybody has submitted

        def aggregate(late: bytes, totals: list[Words]) -> bytes:
            opened = computation.opened(public, late) if early is None else early
            result: bytes = computation.aggregate(opened, totals)
            return result

        return PaddedAggregator(manifest, computation, aggregate, opening, self.echo)

    def party(self, manifest: Manifest, material: bytes, task: PartyTask[Any, Any, Any]) -> SealedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        keys, secret = computation.load_secret(own.context), own.common_secret
        index = manifest.parties.index(task.party)
        submit = padding(task.party, own.seed, lambda seed: computation.under_pad(task, index, seed, secret).parts)
        return decrypting_party(manifest, computation, keys, task, self.echo, common_secret=secret, submit=submit)


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

        submit, limit = padding(task.party, own.seed, padded), computation.payload_limit
        return SealedParty(manifest, task.party, submit, read, limit=limit, common_secret=secret)


def opening_in(material: bytes, manifest: Manifest) -> tuple[bytes, bytes]:
    """Return public context and opening of the aggregator's material; `InputError` for an opening that is to come."""
    context, opening = public_context(material)
    if opening and is_late(manifest):
        raise InputError("the aggregator has an opening before it is known who counts")
    return context, opening


def is_late(manifest: Manifest) -> bool:
    """Whether the opening of such a session is made once it is known who counts."""
    return manifest.min_parties < len(manifest.parties)
