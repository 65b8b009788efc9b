"""The key holder: makes a session's encryption keys and splits them by role.

The aggregator's part is serialised from a type that has no secret key (`PublicContext` of `fhe_auc.ckks` or
`fhe_auc.bfv`), with exactly the rotation keys of the circuit; the parties' part holds the secret key.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import decode, encode, frame, unframe
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles import contexts
from fhe_auc_keys.errors import KeysError

SEED_BYTES = 32
_MAGIC = b"fheaggk"


class PartySecrets(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party of a session has, and the aggregator has not; in the clear, and not in the repr."""

    context: bytes  # the secret key, for `load_secret` of `fhe_auc.ckks` or `fhe_auc.bfv`; empty with a helper
    common_secret: bytes  # 32 random bytes
    seed: bytes = b""  # 32 random bytes, for this party's pad alone; empty without pads, and once it is used

    def __repr__(self) -> str:
        return "PartySecrets(...)"

    def __post_init__(self) -> None:
        if len(self.common_secret) != COMMON_SECRET_BYTES:
            raise ValueError(f"a common secret has {COMMON_SECRET_BYTES} bytes")
        if len(self.seed) not in (0, SEED_BYTES):
            raise ValueError(f"a seed has {SEED_BYTES} bytes")


class _WithOpening(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    context: bytes
    opening: bytes


def aggregator_material(context: bytes, opening: bytes) -> bytes:
    """Return what the aggregator gets: the public context, and with pads the opening, which is nobody else's."""
    return frame(_MAGIC, _WithOpening(context, opening)) if opening else context


def public_context(material: bytes) -> tuple[bytes, bytes]:
    """Return context and opening of such material; raise `DeserialisationError` where it is damaged."""
    if not material.startswith(_MAGIC):
        return material, b""
    found = unframe(_MAGIC, material, _WithOpening, "aggregator's keys")
    return found.context, found.opening


def party_secrets(material: bytes, context: bytes) -> PartySecrets:
    """Return what parties' material holds.

    Raise `KeysError` unless it is of the context `context`, or has no secret key where that is empty.
    """
    try:
        found = decode(material, PartySecrets, "secret key material")
        if context or found.context:
            contexts.check_secret(found.context, context)
    except DeserialisationError as error:
        raise KeysError(f"the parties' secret keys are not those of the manifest ({error.field})") from None
    return found


@dataclass(frozen=True)
class KeyHolderSession(Session):
    """A session of which a key holder has made the keys.

    The aggregator's material holds no key that decrypts, and is for the aggregator alone. The parties' can decrypt.
    """

    aggregator_material: bytes = field(repr=False)  # of `aggregator_material`
    party_material: bytes = field(repr=False)  # `PartySecrets`, in the clear, without a seed; never for the aggregator
    loaded: object = field(repr=False, compare=False)
    """The public context in the aggregator's material, kept so that this process need not load it again."""

    @cached_property
    def common(self) -> PartySecrets:
        """What all parties have."""
        return party_secrets(self.party_material, self.manifest.context)

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone."""
        return self.common


def new_session_keys(
    parameters: RingParameters, announced: Callable[..., Manifest]
) -> tuple[Manifest, bytes, bytes, object]:
    """Return the fields of a `KeyHolderSession` on fresh keys, with a fresh common secret.

    `announced` makes the manifest, given the `context` that names the keys.
    """
    public, secret = contexts.generate(parameters)
    party = PartySecrets(secret.to_bytes(), secrets.token_bytes(COMMON_SECRET_BYTES))
    return announced(context=public.fingerprint), public.to_bytes(), encode(party), public
