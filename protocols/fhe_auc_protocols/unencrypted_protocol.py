"""Base of the protocols without encryption: no keys, and two rounds in which noisy or randomised counts add up.

    round 1   a party sends its counts, which protect themselves
    round 2   the sums go to all parties, who read the result off them and answer with nothing

What a session computes with, checked against its manifest, is its *terms*: a budget, an encoding.

Every submission of a session has the same length, whatever it counts: once it is sealed, the length is all that shows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.options import check_names
from fhe_auc.base.serialise import decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Rounds
from fhe_auc.session.party import Party, PartySide, R, WhoCounts
from fhe_auc.session.protocol import Protocol, Request, Session, new_manifest

T = TypeVar("T")  # terms
S = TypeVar("S", bound="ClearSums")

MOST_ROWS = 2**62  # pooled; sums of more might not be int64

_INTEGER_BYTES = 9  # most that an int64 takes in a message
_FRAME_BYTES = 64
_ROUNDS = Rounds(2)
_PADDING = b"\xc1"  # with which no msgpack begins


class ClearSums(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Counts of one party, or the sums of all; `parties` says of how many.

    Subclasses add fields, all of integers or (nested) lists of them, so that any two messages of a session add up.
    """

    parties: int  # 1 in a party's message

    @classmethod
    def submitted(cls: type[S], payload: bytes) -> S:
        """Return what a party has sent; raise `DeserialisationError` where it is malformed."""
        return decode(payload.lstrip(_PADDING), cls, "submission")

    @classmethod
    def integers(cls, manifest: Manifest, terms: Any) -> int:
        """Return how many integers such a message holds at most, lengths of lists included."""
        raise NotImplementedError

    def check(self, manifest: Manifest, terms: Any) -> None:
        """Raise `DeserialisationError` where so many parties of the session cannot have these counts."""
        raise NotImplementedError


class KeylessProtocol(Protocol[R], Generic[R, T]):
    """Base of the protocols without keys of a session: `prepare`, and the check of another's manifest."""

    encrypts = False
    beside: ClassVar[frozenset[str]] = frozenset()  # what manifests' options hold beside the protocol's own

    @abstractmethod
    def terms(self, options: Mapping[str, object], thresholds: int) -> T:
        """Return what a session with these options and so many thresholds computes with; raise `InputError` if none."""

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session; `InputError`: a wrong option, or one that only encryption has."""
        check_names(self.options, self.name, request.options)
        if request.backend is not None:
            raise InputError(f"protocol {self.name!r} takes no encryption library: backend does not apply")
        if request.keys != "sealed":  # the default
            raise InputError(f"protocol {self.name!r} has no keys: keys {request.keys!r} do not apply")
        request = self.completed(request)
        manifest = new_manifest(self, request, options=self.agreed(request))
        self.checked(manifest)
        return Session(manifest)

    def checked(self, manifest: Manifest) -> T:
        """Return the terms of a manifest; raise `InputError` where it is not one of this protocol."""
        if manifest.protocol != self.name:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {self.name!r}")
        if manifest.keys != "none":
            raise InputError(f"the session's manifest is not one of {self.name!r}, which has no keys")
        check_names(self.options, self.name, set(manifest.options) - self.beside)
        return self.terms(manifest.options, len(manifest.thresholds))

    def evaluation(self, manifest: Manifest, auc: float, parties: int, **said: Any) -> Evaluation:
        """Return that of an estimate, moved into [0, 1], with other fields; nothing bounds its error for certain."""
        return Evaluation(
            auc=min(max(auc, 0.0), 1.0),
            binning_error=math.nan,
            numerical_error=math.nan,
            protocol=manifest.protocol,
            backend="none",
            parties=parties,
            verified=False,
            security_bits=0,
            **said,
        )


class UnencryptedProtocol(KeylessProtocol[R, T], Generic[R, T, S]):
    """Base of those that encrypt nothing, whose parties send counts."""

    sums: type[S]  # of the messages

    def check_party(self, terms: T, data: PartyData) -> None:
        """Raise `InputError` where a party with these rows, whose scores are checked, cannot take part."""

    @abstractmethod
    def submission(self, manifest: Manifest, terms: T, data: PartyData) -> S:
        """Return what a party with these rows sends: noisy or randomised anew."""

    @abstractmethod
    def told(self, manifest: Manifest, terms: T, sums: S) -> R:
        """Return the result from checked sums; raise `EvaluationError` where it is undefined."""

    def message_bytes(self, manifest: Manifest, terms: T) -> int:
        """Return the length of every submission, which the sums do not exceed."""
        return _FRAME_BYTES + _INTEGER_BYTES * self.sums.integers(manifest, terms)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return Aggregator(manifest, SummingAggregator(self, manifest))

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party whose rows are `data`; `material` is empty."""
        return Party(manifest, data.name, SummingParty(self, manifest, data))


class SummingAggregator(AggregatorSide, Generic[R, T, S]):
    """Adds up submissions as they arrive, and sends the sums to all."""

    rounds = _ROUNDS

    def __init__(self, protocol: UnencryptedProtocol[R, T, S], manifest: Manifest) -> None:
        self._protocol, self._manifest, self._terms = protocol, manifest, protocol.checked(manifest)
        self._sums: S | None = None

    def limit(self, number: int) -> int:
        """Return the length of every submission."""
        return self._protocol.message_bytes(self._manifest, self._terms)

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Add a party's counts."""
        submission = self._protocol.sums.submitted(payload)
        if submission.parties != 1:
            raise DeserialisationError(f"a party sent the counts of {submission.parties}")
        submission.check(self._manifest, self._terms)
        if self._sums is not None:
            pairs = zip(msgspec.structs.astuple(self._sums), msgspec.structs.astuple(submission), strict=True)
            submission = self._protocol.sums(*[_sum(*pair) for pair in pairs])
            submission.check(self._manifest, self._terms)
        self._sums = submission

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return the sums."""
        return encode(self._sums)


class SummingParty(PartySide[R], Generic[R, T, S]):
    """Sends what it counts of its rows, and reads the result off the sums of all."""

    rounds = _ROUNDS

    def __init__(self, protocol: UnencryptedProtocol[R, T, S], manifest: Manifest, data: PartyData) -> None:
        self._protocol, self._manifest, self._terms, self._data = protocol, manifest, protocol.checked(manifest), data
        self.download_limit = protocol.message_bytes(manifest, self._terms)
        protocol.check_party(self._terms, data)

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return the counts, at the length that all submissions have."""
        submission = self._protocol.submission(self._manifest, self._terms, self._data)
        return encode(submission).rjust(self.download_limit, _PADDING)

    def read(self, payload: bytes, who: WhoCounts) -> R:
        """Return what the sums say."""
        sums = decode(payload, self._protocol.sums, "result")
        who.check_number(sums.parties)
        sums.check(self._manifest, self._terms)
        return self._protocol.told(self._manifest, self._terms, sums)


def _sum(first: Any, second: Any) -> Any:
    """Add integers, or lists of them number by number, in Python's integers, which do not overflow."""
    if isinstance(first, int):
        return first + second
    return type(first)([_sum(*pair) for pair in zip(first, second, strict=False)])
