"""Base of the protocols without encryption: no keys, and two rounds in which noisy or randomised counts add up.

    round 1   a party sends its counts, which protect themselves
    round 2   the sums go to all parties, who read the result off them and answer with nothing

What a session computes with, checked against its manifest, is its *terms*: a budget, an encoding.

Every submission of a session has the same length, whatever it counts: once it is sealed, the length is all that shows.
"""

from __future__ import annotations

import operator
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.options import check_names
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.protocol import Protocol, Request, Session, new_manifest

T = TypeVar("T")

MOST_ROWS = 2**62
"""Pooled; sums of more might not be int64."""

_INTEGER_BYTES = 9  # most that an int64 takes in a message
_FRAME_BYTES = 64
_ROUNDS = 2
_PADDING = b"\xc1"  # with which no msgpack begins


class ClearSums(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Counts of one party, or the sums of all; `parties` says of how many.

    Subclasses add fields, all of integers or (nested) lists of them, so that any two messages of a session add up.
    """

    parties: int
    """1 in a party's message."""

    @classmethod
    def submitted(cls: type[T], payload: bytes) -> T:
        """Return what a party has sent; raise `DeserialisationError` where it is malformed."""
        return decode(payload.lstrip(_PADDING), cls, "submission")

    @classmethod
    def integers(cls, manifest: Manifest, terms: Any) -> int:
        """Return how many integers such a message holds at most, lengths of lists included."""
        raise NotImplementedError

    def check(self, manifest: Manifest, terms: Any) -> None:
        """Raise `DeserialisationError` where so many parties of the session cannot have these counts."""
        raise NotImplementedError


class UnencryptedProtocol(Protocol[R], Generic[R, T]):
    """Base of the protocols that encrypt nothing: `prepare`, the check of another's manifest, and the roles."""

    encrypts = False

    party_type: ClassVar[type[SummingParty[Any, Any]]]
    """Role of the parties; it names the type of the messages."""

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    @abstractmethod
    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries; raise `InputError` for a wrong one."""

    @abstractmethod
    def terms(self, options: Mapping[str, object], thresholds: int) -> T:
        """Return what a session with these options and so many thresholds computes with; raise `InputError` if none."""

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session; `InputError`: a wrong option, or one that only encryption has."""
        check_names(self.options, self.name, request.options)
        if request.backend is not None:
            raise InputError(f"protocol {self.name!r} encrypts nothing: backend does not apply")
        if request.keys != "sealed":  # the default
            raise InputError(f"protocol {self.name!r} encrypts nothing: keys {request.keys!r} do not apply")
        request = self.completed(request)
        manifest = new_manifest(self, request, options=self.agreed(request))
        self.checked(manifest)
        return Session(manifest)

    def checked(self, manifest: Manifest) -> T:
        """Return the terms of a manifest; raise `InputError` where it is not one of this protocol."""
        if manifest.protocol != self.name:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {self.name!r}")
        if manifest.keys != "none":
            raise InputError(f"the session's manifest is not one of {self.name!r}, which encrypts nothing")
        check_names(self.options, self.name, manifest.options)
        return self.terms(manifest.options, len(manifest.thresholds))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return SummingAggregator(manifest, self.party_type.sums, self.checked(manifest))

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party whose rows are `data`; `material` is empty."""
        return self.party_type(manifest, self.checked(manifest), data)


class SummingAggregator(Aggregator):
    """Adds up submissions as they arrive, and sends the sums to all."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, sums: type[ClearSums], terms: object) -> None:
        super().__init__(manifest)
        self.submission_limit = _payload_limit(manifest, sums, terms)
        self._type, self._terms = sums, terms
        self._sums: ClearSums | None = None

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == _ROUNDS:
            return
        submission = self._type.submitted(payload)
        if submission.parties != 1:
            raise DeserialisationError(f"a party sent the counts of {submission.parties}")
        submission.check(self.manifest, self._terms)
        if self._sums is None:
            self._sums = submission
            return
        added = self._type(*map(_sum, msgspec.structs.astuple(self._sums), msgspec.structs.astuple(submission)))
        added.check(self.manifest, self._terms)
        self._sums = added

    def _close(self) -> bytes:
        return encode(self._sums)


class SummingParty(Party[R], Generic[R, T]):
    """Sends what it has counted, and reads the result off the sums of all."""

    rounds = _ROUNDS

    sums: ClassVar[type[Any]]
    """Type of the messages, a `ClearSums`."""

    def __init__(self, manifest: Manifest, terms: T, data: PartyData) -> None:
        super().__init__(manifest, data.name)
        self.download_limit = _payload_limit(manifest, self.sums, terms)
        self._terms, self._data = terms, data

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            limit = _payload_limit(self.manifest, self.sums, self._terms)
            answer = encode(self._submission()).rjust(limit, _PADDING)
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        sums = decode(payload, self.sums, "result")
        self._check_counted(sums.parties)
        sums.check(self.manifest, self._terms)
        outcome = self._read(sums)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, seconds=self._seconds)
        return b""

    @abstractmethod
    def _submission(self) -> ClearSums:
        """Return what this party sends: noisy or randomised anew."""

    @abstractmethod
    def _read(self, sums: Any) -> R:
        """Return the result from checked sums; raise `EvaluationError` where it is undefined."""


def _payload_limit(manifest: Manifest, sums: type[ClearSums], terms: object) -> int:
    return _FRAME_BYTES + _INTEGER_BYTES * sums.integers(manifest, terms)


def _sum(first: Any, second: Any) -> Any:
    """Add integers, or lists of them number by number, in Python's integers, which do not overflow."""
    if isinstance(first, int):
        return first + second
    return type(first)(map(operator.add if isinstance(first[0], int) else _sum, first, second))
