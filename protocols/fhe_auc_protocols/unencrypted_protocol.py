"""Base of the protocols without encryption: no keys, and two rounds in which noisy or randomised counts add up.

    round 1   a party sends its counts, which protect themselves
    round 2   the sums go to all parties, who read the result off them and answer with nothing

What a session computes with, checked against its manifest, is its *terms*: a budget, an encoding.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec

from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Protocol, Request, Session
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import encode

__all__ = ["INTEGER_BYTES", "MOST_ROWS", "SummingAggregator", "SummingParty", "UnencryptedProtocol"]

T = TypeVar("T")

INTEGER_BYTES = 9
"""Most that an int64 takes in a message."""

MOST_ROWS = 2**62
"""Pooled; sums of more might not be int64."""

_ROUNDS = 2


class UnencryptedProtocol(Protocol[R], Generic[R, T]):
    """Base of the protocols that encrypt nothing: `prepare`, and the check of another's manifest."""

    encrypts = False

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    @abstractmethod
    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries; raise `InputError` for a wrong one."""

    @abstractmethod
    def terms(self, options: Mapping[str, object], thresholds: int) -> T:
        """Return what a session with these options and so many thresholds computes with.

        Raises
        ------
        InputError
            The options do not fit.
        """

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session; there are no keys.

        Raises
        ------
        InputError
            A wrong option; or something that only encryption has: a backend, joint keys, smudging.
        """
        self.check_options(request.options)
        for name, value in (("backend", request.backend), ("smudging_bits", request.smudging_bits)):
            if value is not None:
                raise InputError(f"protocol {self.name!r} encrypts nothing: {name} does not apply")
        if request.keys != "sealed":  # the default
            raise InputError(f"protocol {self.name!r} encrypts nothing: keys {request.keys!r} do not apply")
        request = self.completed(request)
        manifest = self.manifest(request, options=self.agreed(request))
        self.checked(manifest)
        return Session(manifest, b"", b"")

    def checked(self, manifest: Manifest) -> T:
        """Return the terms of a manifest; raise `InputError` where it is not one of this protocol."""
        if manifest.protocol != self.name:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {self.name!r}")
        if manifest.keys != "none":
            raise InputError(f"the session's manifest is not one of {self.name!r}, which encrypts nothing")
        self.check_options(manifest.options)
        return self.terms(manifest.options, len(manifest.thresholds))


class SummingAggregator(Aggregator):
    """Adds up submissions as they arrive."""

    rounds = _ROUNDS

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._add(payload)

    @abstractmethod
    def _add(self, payload: bytes) -> None:
        """Add one submission; on `DeserialisationError` nothing may have changed."""


class SummingParty(Party[R]):
    """Sends what it has counted, and reads the result off the sums of all."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, data: PartyData, *, download_limit: int) -> None:
        super().__init__(manifest, data.name)
        self.download_limit = download_limit
        self._data = data

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            answer = encode(self._submission())
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        outcome = self._read(payload)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, seconds=self._seconds)
        return b""

    @abstractmethod
    def _submission(self) -> msgspec.Struct:
        """Return what this party sends: noisy or randomised anew."""

    @abstractmethod
    def _read(self, payload: bytes) -> R:
        """Return the result from the sums.

        Raises
        ------
        DeserialisationError
            They are none.
        EvaluationError
            The result is undefined.
        """
