"""What the parties of joint sessions sign for one another, and the base of the roles that check it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc_keys.bundles.roster import Roster
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.roles.key_mode import KeyedParty
from fhe_auc_keys.trust.group_sealing import seal_to_all, unseal_mine
from fhe_auc_keys.trust.identity import Identity, has_signed, signed_bytes

ALL_TAKE_PART = "with joint keys every party of the session takes part, and none can be left out"
_PURPOSE = b"contribution 1"
T = TypeVar("T")


class Excerpt(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Some parts of a contribution, with what it takes to verify them alone."""

    parts: tuple[tuple[int, bytes], ...]  # with their indices
    digests: tuple[bytes, ...]  # SHA-256 of every part
    signature: bytes


class Contribution(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party sends in a round, signed part by part so that the aggregator can pass on less than all of it."""

    parts: tuple[bytes, ...]
    signature: bytes  # Ed25519, over session, round, author and the digests of all parts

    @classmethod
    def sign(cls, identity: Identity, session: bytes, round_number: int, parts: tuple[bytes, ...]) -> Contribution:
        """Return `parts` signed; `session` is `Roster.binding`, or a digest of it and of what the author was shown."""
        return cls(parts, identity.sign(_PURPOSE, encode((session, round_number, identity.name, digests(parts)))))

    def check(self, roster: Roster, session: bytes, round_number: int, author: str) -> None:
        """Raise `TamperedError` unless `author` has signed just these parts for this session and round."""
        _check_signature(self.signature, roster, session, round_number, author, digests(self.parts))

    def excerpt(self, *indices: int) -> Excerpt:
        """Return some parts, to be passed on."""
        return Excerpt(tuple((index, self.parts[index]) for index in indices), digests(self.parts), self.signature)


def open_excerpt(
    excerpt: Excerpt, roster: Roster, session: bytes, round_number: int, author: str, *, indices: tuple[int, ...]
) -> list[bytes]:
    """Return the parts that `author` signed; raise `TamperedError` unless they are those of that session and round."""
    _check_signature(excerpt.signature, roster, session, round_number, author, excerpt.digests)
    signed = dict(enumerate(excerpt.digests))
    if [(index, sha256(part)) for index, part in excerpt.parts] != [(index, signed.get(index)) for index in indices]:
        raise TamperedError(f"the parts passed on are not those that {author!r} signed")
    return [part for _, part in excerpt.parts]


@contextmanager
def refusing(prefix: str = "") -> Iterator[None]:
    """Raise `DeserialisationError`, its text with this `prefix`, where a contribution is refused."""
    try:
        yield
    except (DeserialisationError, KeysError) as error:
        raise DeserialisationError(f"{prefix}{error}") from None


def blaming(author: str) -> AbstractContextManager[None]:
    """Name the author of a contribution that the aggregator has passed on, and that is refused here."""
    return refusing(f"contribution of party {author!r}: ")


class ContributionAggregator(Aggregator):
    """Base of the aggregators of joint sessions: it checks signatures of contributions; raises as `check_joint`."""

    def __init__(self, manifest: Manifest, roster: Roster, computation: Any) -> None:
        super().__init__(manifest)
        check_joint(manifest, roster)
        self._computation = computation
        self._roster, self._binding = roster, roster.binding(manifest)
        self._passed_on: dict[str, Any] = {}  # what all parties are to see of this round

    def _contribution(self, party: str, payload: bytes, binding: bytes) -> Contribution:
        """Return a party's contribution to this round; raise `DeserialisationError` where it has not signed it."""
        contribution = decode(payload, Contribution, "contribution")
        with refusing():
            contribution.check(self._roster, binding, self.round, party)
        return contribution

    def _pass_on(self) -> bytes:
        passed_on, self._passed_on = self._passed_on, {}
        return encode(tuple(passed_on[party] for party in self.manifest.parties))


class ContributingParty(KeyedParty[R]):
    """Base of the parties of joint sessions: it signs and seals what they send one another; raises as `check_joint`."""

    def __init__(self, manifest: Manifest, roster: Roster, identity: Identity, task: Any, computation: Any) -> None:
        super().__init__(manifest, task.party)
        check_joint(manifest, roster)
        roster.require(identity, self.name)
        self._roster, self._identity, self._binding = roster, identity, roster.binding(manifest)
        self._task, self._computation = task, computation

    def _sealed(self, purpose: bytes, plaintext: bytes, *, associated: bytes = b"") -> bytes:
        """Return `plaintext` sealed to all other parties."""
        others = {name: key for name, key in self._roster.encryption_keys.items() if name != self.name}
        return seal_to_all(others, plaintext, info=self._info(purpose, self.name), associated=associated)

    def _unsealed(self, purpose: bytes, sender: str, sealed: bytes, own: bytes, *, associated: bytes = b"") -> bytes:
        """Return what a party has sealed to the others, `own` for this party's own."""
        if sender == self.name:
            return own
        return unseal_mine(self._identity, sealed, info=self._info(purpose, sender), associated=associated)

    def _unsealed_secret(self, purpose: bytes, sender: str, sealed: bytes, own: bytes) -> bytes:
        """Return a party's part of the common secret; raise `TamperedError` where that has another length."""
        secret = self._unsealed(purpose, sender, sealed, own)
        if len(secret) != COMMON_SECRET_BYTES:
            raise TamperedError("its part of the common secret has a wrong length")
        return secret

    def _one_of_each(self, payload: bytes, shape: type[T]) -> Iterator[tuple[str, T]]:
        parts = decode(payload, tuple[shape, ...], "contributions")  # type: ignore[valid-type]
        if len(parts) != len(self.manifest.parties):
            raise DeserialisationError(f"contributions of {len(parts)} parties, of {len(self.manifest.parties)}")
        return zip(self.manifest.parties, parts, strict=True)

    def _info(self, purpose: bytes, sender: str) -> bytes:
        return signed_bytes(purpose, encode((self._binding, sender)))


def check_joint(manifest: Manifest, roster: Roster) -> None:
    """Raise `InputError` where a manifest is not one for joint keys, or a roster is of other parties than it names."""
    if not manifest.joint_keys:
        raise InputError("the session's manifest is not one for joint keys")
    if manifest.min_parties != len(manifest.parties):
        raise InputError(ALL_TAKE_PART)
    if roster.names != set(manifest.parties):
        raise InputError("the roster names other parties than the session's manifest")


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of these bytes."""
    return hashlib.sha256(data).digest()


def digests(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the SHA-256 of every part."""
    return tuple(map(sha256, parts))


def _check_signature(
    signature: bytes, roster: Roster, session: bytes, round_number: int, author: str, digests: tuple[bytes, ...]
) -> None:
    signed = encode((session, round_number, author, digests))
    if not has_signed(roster.signing_keys[author], _PURPOSE, signed, signature):
        raise TamperedError(
            f"a contribution bears no genuine signature of {author!r} for this session and round, and for the same "
            "commitments as were shown here"
        )
