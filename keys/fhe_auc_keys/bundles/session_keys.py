"""The key holder: makes a session's keys and splits them by role.

The aggregator's part is serialised from a type that has no secret key (`PublicContext` of `fhe_auc.ckks` or
`fhe_auc.bfv`), only a public one; the parties' part holds the secret key. Where vectors are added up under pads alone,
there are no encryption keys: the common secret stands for them.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from fhe_auc import bfv, ckks
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode, frame, unframe
from fhe_auc.rlwe.ciphertexts import kind_of, unwrap
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.errors import KeysError

SEED_BYTES = 32
_MAGIC = b"fheaggk"
_SECRET = {ckks.SecretContext.kind, bfv.SecretContext.kind}


class PartySecrets(SecretStruct, frozen=True):
    """What a party of a session has, and the aggregator has not; in the clear, and not in the repr."""

    context: bytes  # the secret key, for `load_secret` of `fhe_auc.ckks` or `fhe_auc.bfv`; empty where there is none
    common_secret: bytes  # 32 random bytes
    seed: bytes = b""  # 32 random bytes, for this party's pad alone; empty without pads, and once it is used

    def __post_init__(self) -> None:
        if len(self.common_secret) != COMMON_SECRET_BYTES:
            raise ValueError(f"a common secret has {COMMON_SECRET_BYTES} bytes")
        if len(self.seed) not in (0, SEED_BYTES):
            raise ValueError(f"a seed has {SEED_BYTES} bytes")


class _WithOpening(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    context: bytes
    opening: bytes


def aggregator_material(context: bytes, opening: bytes) -> bytes:
    """Return what the aggregator gets: the public context if there is one, and with pads the opening, nobody else's."""
    return frame(_MAGIC, _WithOpening(context, opening)) if opening else context


def public_context(material: bytes) -> tuple[bytes, bytes]:
    """Return context and opening of such material, either perhaps empty; `DeserialisationError` for damage."""
    if not material.startswith(_MAGIC):
        return material, b""
    found = unframe(_MAGIC, material, _WithOpening, "aggregator's keys")
    return found.context, found.opening


def party_secrets(material: bytes, manifest: Manifest) -> PartySecrets:
    """Return what parties' material holds; raise `KeysError` unless the manifest names its secrets."""
    try:
        found = decode(material, PartySecrets, "secret key material")
        if found.context:
            if (kind := kind_of(found.context)) not in _SECRET:
                raise DeserialisationError(f"expected a secret context, got a {kind[:40]!r}", field="kind")
            unwrap(kind, found.context, manifest.context)
    except DeserialisationError as error:
        raise KeysError(f"the parties' secret keys are not those of the manifest ({error.field})") from None
    check_common_secret(found.common_secret, manifest)
    return found


def check_common_secret(common_secret: bytes, manifest: Manifest) -> None:
    """Raise `KeysError` unless the manifest names this one."""
    if name_of(common_secret) != manifest.common_secret:
        raise KeysError("the parties' common secret is not that of the manifest: whoever has dealt it may deal several")


def name_of(common_secret: bytes) -> bytes:
    """Return what names a common secret in a manifest, and tells nothing of it: 32 bytes."""
    return hashlib.sha256(b"fhe-auc common secret 1\0" + common_secret).digest()


class DealtSession(Session, ABC):
    """A session of which somebody deals secrets to the parties."""

    @abstractmethod
    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone."""


@dataclass(frozen=True)
class KeyHolderSession(DealtSession):
    """A session of which a key holder has made the keys; the aggregator's hold none that decrypts, the parties' do."""

    aggregator_material: bytes = field(repr=False)  # of `aggregator_material`
    party_material: bytes = field(repr=False)  # `PartySecrets`, in the clear, without a seed; never for the aggregator
    loaded: object = field(repr=False, compare=False)  # the public context, if any: this process need not load it again

    @cached_property
    def common(self) -> PartySecrets:
        """What all parties have."""
        return party_secrets(self.party_material, self.manifest)

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone."""
        return self.common


def new_session_keys(
    parameters: RingParameters, announced: Callable[..., Manifest]
) -> tuple[Manifest, bytes, bytes, object]:
    """Return the fields of a `KeyHolderSession` on fresh keys, with a fresh common secret.

    `announced` makes the manifest, given the `context` that names the keys, and what names the common secret.
    """
    public, secret = generate_context(parameters)
    party = PartySecrets(secret.to_bytes(), secrets.token_bytes(COMMON_SECRET_BYTES))
    manifest = announced(context=public.fingerprint, common_secret=name_of(party.common_secret))
    return manifest, public.to_bytes(), encode(party), public


def new_common_secret(announced: Callable[..., Manifest]) -> tuple[Manifest, bytes, bytes, object]:
    """Return the same of a session without encryption keys."""
    common_secret = secrets.token_bytes(COMMON_SECRET_BYTES)
    name = name_of(common_secret)
    return announced(context=name, common_secret=name), b"", encode(PartySecrets(b"", common_secret)), None


def generate_context(parameters: RingParameters) -> ckks.KeyPair | bfv.KeyPair:
    """Return a context of the parameters' scheme with fresh keys; errors as `fhe_auc.rlwe.context.generated`."""
    return bfv.generate(parameters) if parameters.scheme == "bfv" else ckks.generate(parameters)


def load_public_context(data: bytes) -> ckks.PublicContext | bfv.PublicContext:
    """Return the context that a public context's `to_bytes` wrote; errors as `fhe_auc.ckks.load_public`."""
    kind = kind_of(data)
    if kind == bfv.PublicContext.kind:
        return bfv.load_public(data)
    if kind == ckks.PublicContext.kind:
        return ckks.load_public(data)
    raise DeserialisationError(f"expected a public context, got a {kind[:40]!r}", field="kind")
