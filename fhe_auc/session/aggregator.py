"""The aggregator's side of a session's rounds: the frame of every protocol, over any transport.

    aggregator.start() -> message for all          party.respond(message) -> submission
    aggregator.receive(party, submission)          one at a time, as they arrive
    aggregator.finish_round() -> next message for all, or None at the end
    party.result()                                 an Evaluation, or what else the session is for; the aggregator's
                                                   record holds none of it

`Aggregator` does what is the same everywhere: envelopes and checks, and who counts when parties are away. What a round
carries makes its `AggregatorSide`, which has the computation and the keys. Where its process ends, another one goes on
from its `fhe_auc.session.journal.Journal`. The other side is `fhe_auc.session.party`.
"""

from __future__ import annotations

import contextlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError, TooFewPartiesError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import ENVELOPE_BYTES, MAC_KEY_BYTES, Message, Protection, Rounds, require_protection

_SECRET_BYTES = 32
Parse: TypeAlias = Callable[[int, bytes, Words], Words]


class AggregatorSide(ABC):
    """What an aggregator makes of submissions; it has a computation, and the keys that an aggregator has."""

    rounds: Rounds
    protection: Protection | None = None  # the aggregator's, once it has started, for what parties tell each other
    refusals: Mapping[str, str] = {}  # parties that it has left out, and why, beyond those whose submissions it refused

    @abstractmethod
    def limit(self, number: int) -> int:
        """Return the largest payload of an answer in a round, in bytes."""

    @abstractmethod
    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Take the payload of an answer; on `DeserialisationError` nothing may have changed."""

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return who counts after a round, of those who have answered; after the helper's, of those before it."""
        return parties

    @abstractmethod
    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return what the message after this round carries; raise `EvaluationError` where there is none.

        `keep` writes down the digest of all submissions, and returns a new secret (`Aggregator.fix`).
        """


class Aggregator:
    """The aggregator of one session; everything that can be chosen stands in the manifest."""

    def __init__(self, manifest: Manifest, side: AggregatorSide) -> None:
        self.manifest = manifest
        self.digest = manifest.digest
        self.round = 0
        # Set before the session starts:
        self.protection: Protection | None = None  # between machines; without it the session is refused
        self.fix_list: Callable[[bytes], bytes] | None = None  # keeps a digest in the key store; the secret of a query
        self.journal: Journal | None = None  # for a session that outlives this process; `start` goes on from it
        self._side, self._rounds = side, side.rounds
        self.rounds = side.rounds.number  # in the last one parties only confirm
        self.counted = manifest.parties  # still in the session, in this order: who does not answer a round is out of it
        self._awaited = frozenset(manifest.parties)  # the same, to look up names in
        self._digests: dict[str, bytes] = {}  # of what each has submitted in this round, as it came; empty if unsigned
        self._refusals: dict[str, str] = {}
        self._ended = False
        self._goes_on = False  # whether it takes what is in the journal
        self._listed: dict[str, bytes] = {}  # digests of what the parties have submitted last
        self._mac_keys: dict[str, bytes] = {}  # of their echoes

    @property
    def submission_limit(self) -> int:
        """Largest payload of an answer in this round, in bytes."""
        return self._side.limit(self.round)

    def start(self) -> bytes:
        """Return the message that begins round 1, or, with a journal, the round that the session had reached.

        Raises `EvaluationError` where the session was started before or its journal is damaged, and as `finish_round`.
        """
        if self.round:
            raise EvaluationError("the session has already been started; every session runs once")
        self._side.protection = require_protection(self.manifest, self.protection)
        message = self._begin(self._earlier_message() or self._message(b""))
        while self.journal is not None:
            self._goes_on = True
            for party, submission in self.journal.submissions(self.round):
                with contextlib.suppress(MessageError):  # it was refused before, too
                    self.receive(party, submission)
            self._goes_on = False
            closed = self.journal.closed(self.round)
            if closed is None:
                break
            if not set(closed) <= set(self._digests):
                raise self.journal.damaged("submissions are gone")
            self._count(closed)
            known = self._earlier_message()
            message = self._begin(known or self._message(self._side.close(self.round, self.counted, self.fix)))
        return message

    def receive(self, party: str, submission: bytes) -> None:
        """Take one party's submission of this round; a refused one leaves the session as it was.

        `party` is the sender that the transport names. Raises `MessageError` for a submission that is wrong, damaged,
        late, duplicate or replayed, with party and field; `OSError` where the journal cannot be written.
        """
        authentic = self.protection is None  # within one process, whoever hands it over says whose it is
        try:
            payload, digest = self._checked(party, submission)
            authentic = True
            if self.has_accepted(party):
                raise MessageError("already submitted in this round (duplicate or replay)", field="sender")
            if self.journal is not None and not self._goes_on:
                self.journal.add(self.round, party, submission)
            if self.protection is not None and self.round + 1 == self._rounds.echo:
                self._mac_keys[party] = payload[:MAC_KEY_BYTES]
                payload = cast("bytes", memoryview(payload)[MAC_KEY_BYTES:])  # uncopied
            if self.round < self.rounds:  # in the last one parties confirm, with nothing
                self._side.accept(self.round, party, payload)
        except DeserialisationError as error:
            if authentic and (party in self.manifest.parties or self._is_asked(party)):
                self._refusals[party] = str(error)  # what strangers send is not worth keeping
            raise MessageError(f"submission of party {party!r} refused: {error}", field=error.field) from None
        self._digests[party] = b"" if self.protection is None else digest

    def _checked(self, party: str, submission: bytes) -> tuple[bytes, bytes]:
        """Return what a submission carries, unsealed where it is sealed; and its digest."""
        if not self.round or self._ended:
            raise MessageError("the session has not begun, or has ended", field="round")
        if not self._is_asked(party):
            raise MessageError("not a party of this session, or left out in an earlier round", field="sender")
        message = Message.from_bytes(submission, limit=self.submission_limit + ENVELOPE_BYTES)
        message.require_of(self.manifest, self.digest, round=self.round, sender=party)
        protection = require_protection(self.manifest, self.protection)
        if protection is None:
            return message.unsealed, message.digest
        recipient = AGGREGATOR if self._rounds.is_sealed(self.round) else ""
        mac_key = self._mac_keys[party] if self.round == self._rounds.echo else None
        return message.unseal(protection, recipient, mac_key), message.digest

    def finish_round(self) -> bytes | None:
        """Close the round and return the next message for all, or None when the session has ended.

        Raises `TooFewPartiesError` for fewer submissions than the round needs, and names who is missing: the round
        stays open. Raises `EvaluationError` where the session has not begun, or has ended.
        """
        if not self.round or self._ended:
            raise EvaluationError("the session has not begun, or has ended")
        if self.round == self.rounds:
            self._ended = True
            return None
        least = self.manifest.min_parties if self.round == 1 else len(self.counted)  # nobody counted may miss the echo
        self._require(1 if self._asks_helper else least)
        answered = self._answered
        if self.journal is not None:
            self.journal.close_round(self.round, answered)
        self._count(answered)
        known = self._earlier_message()
        return self._begin(known or self._message(self._side.close(self.round, self.counted, self.fix)))

    def fix(self, digest: bytes) -> bytes:
        """Keep the digest of all submissions, and return a new secret; within one process nothing is kept.

        Errors as of `fhe_auc_keys.store.fixed_lists.fix`; `EvaluationError` where there is none.
        """
        if self.protection is None:
            return secrets.token_bytes(_SECRET_BYTES)
        if self.fix_list is None:
            raise EvaluationError("between machines an aggregator asks about proofs once its key store has the list")
        return self.fix_list(digest)

    def _count(self, answered: tuple[str, ...]) -> None:
        """Go on with those who count after this round."""
        if not self._asks_helper:
            self._listed = self._digests
        self.counted = self._side.counts(self.round, self.counted if self._asks_helper else answered)
        self._awaited = frozenset(self.counted)
        self._refusals.update(self._side.refusals)

    def _require(self, least: int) -> None:
        """Raise `TooFewPartiesError`, which names who is missing, where fewer than `least` have answered this round."""
        if len(self._digests) >= least:
            return
        missing = [name for name in self.asked if name not in self._digests]
        named = ", ".join(map(repr, missing[:10])) + (", …" if len(missing) > 10 else "")
        answered = f"{len(self._digests)} of {len(self.asked)} parties submitted"
        raise TooFewPartiesError(f"{answered}, at least {least} are needed; missing: {named}")

    @property
    def refusals(self) -> dict[str, str]:
        """Parties of which a submission was refused, and the latest reason, as of `SessionRecord`."""
        return dict(self._refusals)

    def result(self) -> SessionRecord:
        """Return who took part; raise `EvaluationError` while the session runs."""
        if not self._ended:
            raise EvaluationError("the session has not ended")
        missing = tuple(party for party in self.manifest.parties if party not in self._awaited)
        return SessionRecord(self.manifest.session.hex(), self.counted, missing, self._answered, self.refusals)

    @property
    def asked(self) -> tuple[str, ...]:
        """Names of those who are to answer this round: the parties still in the session, or its helper."""
        return (HELPER,) if self._asks_helper else self.counted

    @property
    def _asks_helper(self) -> bool:
        return self.round in self._rounds.of_helper

    def _is_asked(self, name: str) -> bool:
        return name == HELPER if self._asks_helper else name in self._awaited

    @property
    def _answered(self) -> tuple[str, ...]:
        return tuple(name for name in self.asked if self.has_accepted(name))

    def has_accepted(self, party: str) -> bool:
        """Whether the party's submission of this round was accepted."""
        return party in self._digests

    def _earlier_message(self) -> bytes | None:
        """Return the next round's message where it was sent before; `EvaluationError` where that is not ours."""
        number = self.round + 1
        message = None if self.journal is None else self.journal.message(number)
        if message is None or self.journal is None:
            return None
        with contextlib.suppress(MessageError):
            parsed = Message.from_bytes(message, limit=len(message))
            if (parsed.manifest, parsed.round, parsed.sender) == (self.digest, number, AGGREGATOR):
                return message
        raise self.journal.damaged(f"round {number}")

    def _message(self, content: bytes) -> bytes:
        """Return the next round's message, which the journal has then."""
        number = self.round + 1
        recipient = HELPER if number in self._rounds.of_helper else ""
        listed: tuple[tuple[str, bytes], ...] = ()
        if self.protection is not None and self._rounds.lists(number):
            listed = tuple((party, self._listed[party]) for party in self.counted if party in self._listed)
        made = Message.of(
            self.manifest, self.protection, number, AGGREGATOR, content, recipient=recipient, submissions=listed
        )
        message = made.to_bytes()
        if self.journal is not None:
            self.journal.keep_message(number, message)
        return message

    def _begin(self, message: bytes) -> bytes:
        """Begin the next round, with this message."""
        self.round, self._digests = self.round + 1, {}
        return message


class RunningSum:
    """The sum of all submissions so far, part by part; memory does not grow with their number.

    Each is parsed and checked before it counts. Sums are of coefficients modulo primes: they need no encryption
    library, and come out the same whatever the order and grouping. `shapes` are those of the parts of a submission.
    `parse` takes the number of a part, its bytes, and an array of the part's shape that it may write into; it returns
    coefficients of that shape, or raises `DeserialisationError`.
    """

    def __init__(self, shapes: Sequence[Polynomials], parse: Parse) -> None:
        self._sums = [PolynomialSum(shape) for shape in shapes]
        self._arrays = [np.empty(shape.shape, np.uint64) for shape in shapes]  # the same ones for every submission
        self._parse = parse

    def add(self, parts: Sequence[bytes]) -> None:
        """Add one party's submission, or raise `DeserialisationError` and leave the sum as it was."""
        if len(parts) != len(self._sums):
            raise DeserialisationError(f"expected {len(self._sums)} parts, got {len(parts)}")
        parsed = [self._parse(number, *each) for number, each in enumerate(zip(parts, self._arrays, strict=True))]
        for total, words in zip(self._sums, parsed, strict=True):
            total.add(words)

    @property
    def totals(self) -> list[Words]:
        """Coefficients of the sum, part by part, each of the shape (polynomials, N)."""
        return [total.words for total in self._sums]


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What the aggregator may tell about an ended session: who took part, never how good the model is.

    The submissions of `counted` parties are in the result; `missing` ones submitted nothing acceptable.
    `delivered` parties have confirmed the last round: they have the result, or know that there is none, and nobody else
    learns which. `refused` names parties of which a submission was refused, each with the latest reason; in signed
    sessions only what they have signed is named, as anybody may send the rest in their names. A missing party is named
    there, too, whose input proof did not hold.
    """

    session: str  # the manifest's id, hexadecimal
    counted: tuple[str, ...]
    missing: tuple[str, ...]
    delivered: tuple[str, ...]
    refused: dict[str, str]


def conduct(
    aggregator: Aggregator,
    exchange: Callable[[bytes], Iterable[tuple[str, bytes]]],
    *,
    refused: Callable[[MessageError], None] | None = None,
) -> SessionRecord:
    """Play a session from the aggregator's side, whatever carries the messages; the aggregator is not started yet.

    `exchange` takes a message for all, and yields (party, submission) as answers arrive, until none is waited for.
    `refused` is called with the error of each refused submission, and the session goes on; without it the error is
    raised. Errors as of the aggregator.
    """
    message: bytes | None = aggregator.start()
    while message is not None:
        for party, submission in exchange(message):
            try:
                aggregator.receive(party, submission)
            except MessageError as error:
                if refused is None:
                    raise
                refused(error)
        message = aggregator.finish_round()
    return aggregator.result()
