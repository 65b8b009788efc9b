"""Signatures on messages, as roles of sessions between machines need them; which key is whose, `keys` know.

    a party's submission        its payload and 32 fresh random bytes; the aggregator checks it before it parses these
    the aggregator's message    its payload, and of every party that is counted the SHA-256 of what it submitted in the
                                round before; each party looks for its own, and at how many they are

Without them a stranger on the link could add to a submission what a public key allows, or make up a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

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
