"""Protocol messages: a versioned envelope, its seal and its signature; which key is whose, `keys` know.

Between machines, what goes to the aggregator is sealed to it, and what it has for a helper alone, to the helper: many
others may read what carries messages, such as a shared folder. Echoes, and the last round's answers, which are empty,
are not sealed. The sender signs what travels, and the recipient checks the signature before it unseals. In the
aggregator's message each party looks for its own submission, and at how many they are. Without signatures a stranger on
the link could add to a submission what a public key allows, or make up a result.

An *echo* alone is not signed. It is for the other parties, who know it by a secret that the aggregator lacks
(`fhe_auc_keys.roles.sealed`): a signature costs the server more than all else about it, and proves nothing more. It
bears a MAC (HMAC-SHA256 of its digest), by a key that its sender has drawn and sealed to the aggregator with its signed
answer before. Bare, junk that somebody puts where a party writes would be taken for its echo, and end the session for
all without a number, in that party's name. Which round is of echoes say `Rounds`, and no message: there nothing counts
but a MAC, elsewhere nothing but a signature.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import msgspec

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError
from fhe_auc.base.serialise import DIGEST, damaged, decode, encode, marked, unmarked
from fhe_auc.session.manifest import Manifest

_MAGIC, _WHAT = b"fheamsg", "fhe-auc message"

ENVELOPE_BYTES = 2560  # more than any envelope and seal, with a name of reasonable length
MESSAGE = b"message 2"  # the purpose of signatures on messages; a signature for one purpose says nothing for another
SEALED = b"sealed message 1"  # the purpose of seals on messages
MAC_KEY_BYTES = 32


class Protection(ABC):
    """One role's signatures and seals in one session, which are bound to the same 32 bytes or more for all roles.

    Its messages have the time of `clock`.
    """

    clock: Clock = SYSTEM

    @abstractmethod
    def sign(self, purpose: bytes, statement: bytes) -> bytes:
        """Return this role's signature, at most 64 bytes; a purpose holds no zero byte."""

    @abstractmethod
    def check(self, author: str, purpose: bytes, statement: bytes, signature: bytes) -> None:
        """Raise `MessageError` unless `author`, a party or `AGGREGATOR`, has signed just that for this session."""

    @abstractmethod
    def seal(self, recipient: str, purpose: bytes, about: bytes, payload: bytes) -> bytes:
        """Return `payload` sealed to `AGGREGATOR` or `HELPER`, bound to `about`; a purpose holds no zero byte."""

    @abstractmethod
    def unseal(self, purpose: bytes, about: bytes, sealed: bytes) -> bytes:
        """Return what was sealed to this role; raise `MessageError` where it was not, or for another purpose."""


class Message(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """One message of a protocol.

        7 bytes magic | 1 byte format version | 32 bytes digest | 1 byte, length of the signature | signature | content

    All is hashed once: the digest finds damage, is what the sender signs, and names a submission. The content is all
    fields but the signature.
    """

    protocol: str  # name of the plug-in
    session: bytes  # its random id, 16 bytes
    round: int  # from 1
    sender: str  # party name, "aggregator" or the helper's
    manifest: bytes  # SHA-256 of the session's manifest

    # What the round carries; between machines sealed, where it is for the aggregator or the helper alone. As no two
    # seals are alike, a submission's digest then tells nobody anything.
    payload: bytes
    # In a signed message of the aggregator, from the second round on: the parties whose submissions of the round before
    # count, each with its `Message.digest`.
    submissions: tuple[tuple[str, bytes], ...]
    time: (
        int  # Unix seconds by the sender's clock, for who compares clocks; 0 in sessions that are played in one process
    )
    signature: bytes  # the sender's, of the digest, or an echo's MAC; empty in sessions that are played in one process

    def __repr__(self) -> str:
        return f"<Message {self.protocol} round {self.round} from {self.sender!r}, {len(self.payload)} bytes>"

    @cached_property
    def _content(self) -> bytes | memoryview:
        return encode(msgspec.structs.astuple(self)[:-1])

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all but the signature."""
        return hashlib.sha256(self._content).digest()

    @cached_property
    def unsealed(self) -> bytes:
        """The payload, where it is not sealed: copied once for all parties that one process plays."""
        return bytes(self.payload)

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        protection: Protection | None,
        number: int,
        sender: str,
        payload: bytes,
        *,
        recipient: str,
        submissions: tuple[tuple[str, bytes], ...] = (),
        mac_key: bytes | None = None,
    ) -> Message:
        """Return a role's message of a round; between machines as of `protected`."""
        time = 0 if protection is None else int(protection.clock.now().timestamp())
        named = manifest.protocol, manifest.session, number, sender, manifest.digest
        message = cls(*named, payload, submissions, time, b"")
        return message if protection is None else message.protected(protection, recipient, mac_key)

    def protected(self, protection: Protection, recipient: str = "", mac_key: bytes | None = None) -> Message:
        """Return the message sealed to `recipient`, where that is one alone, and signed by its sender.

        With a `mac_key` it bears a MAC by that key in place of the signature.
        """
        message = self
        if recipient:
            sealed = protection.seal(recipient, SEALED, self._about(recipient), self.payload)
            message = msgspec.structs.replace(self, payload=sealed)
        by = protection.sign(MESSAGE, message.digest) if mac_key is None else message._mac(mac_key)
        signed = msgspec.structs.replace(message, signature=by)
        signed.__dict__.update(message.__dict__)  # content and digest, which are of all but the signature
        return signed

    def unseal(self, protection: Protection, recipient: str = "", mac_key: bytes | None = None) -> bytes:
        """Return the payload for this role, which is `recipient` where the payload is sealed.

        Raises `MessageError`, with the field "signature" or "seal", unless the sender signed it (with a `mac_key`: made
        its MAC) and it can be unsealed.
        """
        if mac_key is None:
            protection.check(self.sender, MESSAGE, self.digest, self.signature)
        elif not hmac.compare_digest(self._mac(mac_key), self.signature):
            raise MessageError(f"it bears no genuine MAC of {self.sender!r}", field="signature")
        return protection.unseal(SEALED, self._about(recipient), self.payload) if recipient else self.unsealed

    def _mac(self, key: bytes) -> bytes:
        return hmac.digest(key, self.digest, "sha256")

    def _about(self, recipient: str) -> bytes:
        return encode((self.round, self.sender, recipient))

    def to_bytes(self) -> bytes:
        """Serialise."""
        return marked(_MAGIC, self.digest, bytes([len(self.signature)]), self.signature, self._content)

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int) -> Message:
        """Parse a message of at most `limit` bytes.

        Raises `MessageError`: too long, not a message, another format version, truncated, damaged or malformed;
        ``error.field`` says which: "length", "format", "version", "checksum" or "body".
        """
        if not isinstance(data, bytes):  # from a transport; a view could change
            raise MessageError(f"not a {_WHAT}", field="format")
        if len(data) > limit:
            raise MessageError(f"message of {len(data):,} bytes, at most {limit:,} expected", field="length")
        try:
            rest = unmarked(_MAGIC, data, _WHAT)
            start = DIGEST + 1 + sum(rest[DIGEST : DIGEST + 1])  # what is cut off before has no content
            content = rest[start:]
            digest = hashlib.sha256(content).digest()
            if digest != rest[:DIGEST]:
                raise damaged(_WHAT)
            fields = decode(  # the payload, most of the message, is not copied
                content, tuple[str, bytes, int, str, bytes, memoryview, tuple[tuple[str, bytes], ...], int], _WHAT
            )
        except DeserialisationError as error:
            raise MessageError(str(error), field=error.field) from None
        message = cls(*fields, bytes(rest[DIGEST + 1 : start]))  # type: ignore[arg-type]
        message.__dict__.update(_content=content, digest=digest)  # the bytes that came, and that its sender has signed
        return message

    def require_of(self, manifest: Manifest, digest: bytes, **expected: str | int | bytes) -> None:
        """Raise `MessageError` where it is not of the session with this manifest, or else as `require`."""
        self.require(protocol=manifest.protocol, session=manifest.session, manifest=digest, **expected)

    def require(self, **expected: str | int | bytes) -> None:
        """Raise `MessageError` where a field differs from what is expected; the text names it, ``error.field`` too."""
        for field, value in expected.items():
            actual = getattr(self, field)
            if actual != value:
                shown = [item.hex()[:16] if isinstance(item, bytes) else repr(item)[:80] for item in (actual, value)]
                raise MessageError(f"message with {field} {shown[0]}, expected {shown[1]}", field=field)


class Rounds(NamedTuple):
    """How many rounds a session has, which its helper answers, and in how many, the last, answers are not sealed.

    These are empty, or go to all in the next round.
    """

    number: int
    of_helper: range = range(0)
    unsealed: int = 1

    def is_sealed(self, number: int) -> bool:
        """Whether answers of the round are sealed to the aggregator."""
        return number <= self.number - self.unsealed

    @property
    def echo(self) -> int:
        """The round whose answers are echoes, which bear a MAC: the first unsealed one, but for the last; 0: none is.

        The key of the MAC goes with the answer before. With a helper there are no echoes.
        """
        first = self.number - self.unsealed + 1
        return first if 1 < first < self.number and not self.of_helper else 0

    def lists(self, number: int) -> bool:
        """Whether the message of a round lists whose submissions count, with their digests.

        It does where it is for parties, and what they answered last was sealed. A helper sees no digest.
        """
        before = self.of_helper.start if number == self.of_helper.stop else number
        return number not in self.of_helper and before > 1 and self.is_sealed(before - 1)


def require_protection(manifest: Manifest, protection: Protection | None) -> Protection | None:
    """Return a role's protection; raise `EvaluationError` where a session between machines would go without."""
    if manifest.aggregator and protection is None:
        raise EvaluationError("messages of this session are sealed and signed, and this role has no keys to do so")
    return protection
