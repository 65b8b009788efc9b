"""Protocol messages: a versioned, self-describing envelope, and its signature; which key is whose, `keys` know.

A party's submission is signed before it is parsed by the aggregator. In the aggregator's message each party looks for
its own submission, and at how many they are. Without signatures a stranger on the link could add to a submission what
a public key allows, or make up a result.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from fhe_auc.base.errors import DeserialisationError, MessageError
from fhe_auc.base.party_names import AGGREGATOR
from fhe_auc.base.serialise import encode, frame, unframe

_MAGIC = b"fheamsg"
NONCE_BYTES = 32

MESSAGE = b"message 1"
"""The purpose of signatures on messages; a signature for one purpose says nothing for another."""


class Signatures(ABC):
    """One role's signatures in one session.

    Every statement is signed together with what names the session, its manifest and all keys: 32 bytes or more that are
    the same for all roles.
    """

    @abstractmethod
    def sign(self, purpose: bytes, statement: bytes) -> bytes:
        """Return this role's signature, at most 64 bytes; a purpose holds no zero byte."""

    @abstractmethod
    def check(self, author: str, purpose: bytes, statement: bytes, signature: bytes) -> None:
        """Raise `MessageError` unless `author`, a party or `AGGREGATOR`, has signed just that for this session."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message of a protocol.

    Attributes
    ----------
    protocol : str
        Name of the plug-in.
    session : bytes
        Random id of the session, 16 bytes.
    round : int
        Counted from 1.
    sender : str
        Party name, or "aggregator".
    manifest : bytes
        SHA-256 of the session's manifest: parties, thresholds, parameters and key fingerprint all hang on it.
    payload : bytes
        What the round carries.
    nonce : bytes
        In a signed submission 32 fresh random bytes, so that its digest tells nobody anything; otherwise empty.
    submissions : tuple of (str, bytes)
        In a signed message of the aggregator, from the second round on: whose submissions of the round before count,
        each with the SHA-256 of the whole message.
    signature : bytes
        The sender's, of `statement`; empty in sessions that are played in one process.
    """

    protocol: str
    session: bytes
    round: int
    sender: str
    manifest: bytes
    payload: bytes
    nonce: bytes
    submissions: tuple[tuple[str, bytes], ...]
    signature: bytes

    def __repr__(self) -> str:
        return f"<Message {self.protocol} round {self.round} from {self.sender!r}, {len(self.payload)} bytes>"

    @property
    def statement(self) -> bytes:
        """What is signed; `Signatures` add what names session and manifest."""
        return encode((self.round, self.sender, hashlib.sha256(self.payload).digest(), self.nonce, self.submissions))

    def signed(self, signatures: Signatures) -> Message:
        """Return the message with its sender's signature, which `signatures` are."""
        return msgspec.structs.replace(self, signature=signatures.sign(MESSAGE, self.statement))

    def check_signature(self, signatures: Signatures) -> None:
        """Raise `MessageError` unless it bears its sender's signature, and a nonce where a party sends it."""
        signatures.check(self.sender, MESSAGE, self.statement, self.signature)
        expected = 0 if self.sender == AGGREGATOR else NONCE_BYTES
        if len(self.nonce) != expected:
            raise MessageError(f"a nonce of {len(self.nonce)} bytes, expected {expected}", field="nonce")

    def to_bytes(self) -> bytes:
        """Serialise."""
        return frame(_MAGIC, self)

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int) -> Message:
        """Parse a message of at most `limit` bytes.

        Raises `MessageError`: too long, not a message, another format version, truncated, damaged or malformed;
        ``error.field`` says which: "length", "format", "version", "checksum" or "body".
        """
        if isinstance(data, bytes) and len(data) > limit:  # type: ignore[redundant-expr] # from a transport
            raise MessageError(f"message of {len(data):,} bytes, at most {limit:,} expected", field="length")
        try:
            return unframe(_MAGIC, data, cls, "fhe-auc message")
        except DeserialisationError as error:
            raise MessageError(str(error), field=error.field) from None

    def require(self, **expected: Any) -> None:
        """Raise `MessageError` where a field differs from what is expected; the text names it, ``error.field`` too."""
        for field, value in expected.items():
            found = getattr(self, field)
            if found != value:
                shown = [item.hex()[:16] if isinstance(item, bytes) else repr(item)[:80] for item in (found, value)]
                raise MessageError(f"message with {field} {shown[0]}, expected {shown[1]}", field=field)
