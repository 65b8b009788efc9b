"""The key holder: makes a session's keys and splits them by role.

The aggregator's part is serialised from a type that has no secret key (`PublicContext` of `fhe_auc.ckks` or
`fhe_auc.bfv`), only a public one; the parties' part holds the secret key. Where vectors are added up under pads alone,
there are no encryption keys: the common secret stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from fhe_auc import bfv, ckks
from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode, marked, unmarked
from fhe_auc.rlwe.ciphertexts import kind_of, unwrap
from fhe_auc.rlwe.ring_parameters import RingParameters
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Delivery, Session

SEED_BYTES = 32
_MAGIC = b"fheaggk"
_COMMON_SECRET = msgspec.Meta(min_length=COMMON_SECRET_BYTES, max_length=COMMON_SECRET_BYTES)
_SECRET = {ckks.SecretContext.kind, bfv.SecretContext.kind}
GENERATE: Mapping[str, Callable[[RingParameters], ckks.KeyPair | bfv.KeyPair]] = {
    "bfv": bfv.generate,
    "ckks": ckks.generate,
}
"""By scheme, what makes a context with fresh keys; errors as `fhe_auc.rlwe.context.generated`."""


class PartySecrets(SecretStruct, frozen=True):
    """What a party of a session has, and the aggregator has not; in the clear, and not in the repr."""

    context: bytes  # the secret key, for `load_secret` of `fhe_auc.ckks` or `fhe_auc.bfv`; empty where there is none
    common_secret: Annotated[bytes, _COMMON_SECRET]  # 32 random bytes
    seed: bytes = b""  # 32 random bytes, for this party's pad alone; empty without pads, and once it is used

    def __post_init__(self) -> None:
        if len(self.seed) not in (0, SEED_BYTES):
            raise ValueError(f"a seed has {SEED_BYTES} bytes")


class _WithPadKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    context: bytes
    pad_key: bytes


def aggregator_material(context: bytes, pad_key: bytes) -> bytes:
    """Return what the aggregator gets: the public context if there is one, and with pads their key, nobody else's."""
    return marked(_MAGIC, encode(_WithPadKey(context, pad_key))) if pad_key else context


def public_context(material: bytes) -> tuple[bytes, bytes]:
    """Return context and pad key of such material, either perhaps empty; `DeserialisationError` for other bytes.

    There is no digest of both: bundles are sealed, and each has its own checks.
    """
    if not material.startswith(_MAGIC):
        return material, b""
    what = "aggregator's keys"
    found = decode(unmarked(_MAGIC, material, what), _WithPadKey, what)
    return found.context, found.pad_key


def party_secrets(material: bytes, manifest: Manifest) -> PartySecrets:
    """Return what parties' material holds; raise `InputError` unless the manifest names its secrets."""
    try:
        found = decode(material, PartySecrets, "secret key material")
        if found.context:
            if (kind := kind_of(found.context)) not in _SECRET:
                raise DeserialisationError(f"expected a secret context, got a {kind[:40]!r}", field="kind")
            unwrap(kind, found.context, manifest.context)
    except DeserialisationError as error:
        raise InputError(f"the parties' secret keys are not those of the manifest ({error.field})") from None
    manifest.check_common_secret(found.common_secret)
    return found


@dataclass(frozen=True)
class DealtSession(Session):
    """A session of which a key holder, or whoever convenes it, deals secrets to the parties.

    The aggregator's keys hold none that decrypts, the parties' do. With a helper, which makes the keys, there are none.
    """

    common: PartySecrets = field(repr=False)  # what all parties have, without a seed; never for the aggregator
    aggregator_material: bytes = field(default=b"", repr=False)  # of `aggregator_material`
    seeds: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # of each party's pad, where parties pad
    loaded: object = field(default=None, repr=False, compare=False)
    """The public context, if any: this process need not load it again."""

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what is for this party alone."""
        return msgspec.structs.replace(self.common, seed=self.seeds.get(party, b""))

    def delivery(self) -> Delivery:
        """Return what each role finds in its bundle: in one process nothing is sealed, only to be unsealed again."""
        return Delivery(self.aggregator_material, MadeWhenAsked(self, self.manifest.parties))


class MadeWhenAsked(Mapping[str, bytes]):
    """The material of each of these parties, made when it is asked for: all have the secret key in it."""

    def __init__(self, session: DealtSession, names: Collection[str]) -> None:
        self._session, self._names = session, names

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return encode(self._session.secrets_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def load_public_context(data: bytes) -> ckks.PublicContext | bfv.PublicContext:
    """Return the context that a public context's `to_bytes` wrote; errors as `fhe_auc.ckks.load_public`."""
    kind = kind_of(data)
    if kind == bfv.PublicContext.kind:
        return bfv.load_public(data)
    if kind == ckks.PublicContext.kind:
        return ckks.load_public(data)
    raise DeserialisationError(f"expected a public context, got a {kind[:40]!r}", field="kind")
