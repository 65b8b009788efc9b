"""The aggregator's side of a session's rounds: the frame of every protocol, over any transport.

    aggregator.start() -> message for all          party.respond(message) -> submission
    aggregator.receive(party, submission)          one at a time, as they arrive
    aggregator.finish_round() -> next message for all, or None at the end
    party.result()                                 an Evaluation, or what else the session is for; the aggregator's
                                                   record holds none of it

The base class does what is the same everywhere: envelopes and checks; a protocol fills in what each round carries. Who
counts when parties are away is decided in `fhe_auc.session.counted_parties`. Where its process ends, another one goes
on from its `fhe_auc.session.journal.Journal`. The other side is `fhe_auc.session.party`.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.session.counted_parties import CountedParties, SessionRecord
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import ENVELOPE_BYTES, Message, Protection, Rounds, in_envelope, require_protection


class Aggregator(Rounds, ABC):
    """Base of every protocol's aggregator; everything that can be chosen stands in the manifest."""

    helper_rounds: range = range(0)  # those of `rounds` that the session's helper answers, in place of the parties
    submission_limit: int  # largest payload of a submission, in bytes
    # Set before the session starts:
    protection: Protection | None = None  # between machines; without it the session is refused
    fix_list: Callable[[bytes], bytes] | None = None  # keeps the digest of all submissions; the secret of a query
    journal: Journal | None = None  # for a session that outlives this process; `start` goes on from what is there

    _stranger = "not a party of this session, or left out in an earlier round"

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.digest = manifest.digest
        self.round = 0
        self._parties = CountedParties(manifest.parties)
        self._ended = False

    def start(self) -> bytes:
        """Return the message that opens round 1, or, with a journal, the round that the session had reached.

        Raises `EvaluationError` where the session was started before or its journal is damaged, and as `finish_round`.
        """
        if self.round:
            raise EvaluationError("the session has already been started; every session runs once")
        require_protection(self.manifest, self.protection)
        message = self._open_next(self._opening)
        while self.journal is not None:
            for party, submission in self.journal.submissions(self.round):
                with contextlib.suppress(MessageError):  # it was refused before, too
                    self._receive(party, submission)
            closed = self.journal.closed(self.round)
            if closed is None:
                break
            if not set(closed) <= set(self._parties.digests):
                raise self.journal.damaged("submissions are gone")
            self._count(closed)
            message = self._open_next(self._close)
        return message

    def receive(self, party: str, submission: bytes) -> None:
        """Take one party's submission of this round; a refused one leaves the session as it was.

        `party` is the sender that the transport names. Raises `MessageError` for a submission that is wrong, damaged,
        late, duplicate or replayed, with party and field; `OSError` where the journal cannot be written.
        """
        self._receive(party, submission, self.journal)

    def _receive(self, party: str, submission: bytes, journal: Journal | None = None) -> None:
        authentic = self.protection is None  # within one process, whoever hands it over says whose it is
        try:
            payload, digest = self._checked(party, submission)
            authentic = True
            if self.has_accepted(party):
                raise MessageError("already submitted in this round (duplicate or replay)", field="sender")
            if journal is not None:
                journal.add(self.round, party, submission)
            self._accept(party, payload)
        except DeserialisationError as error:
            if authentic:
                self._parties.refuse(party, str(error))
            raise MessageError(f"submission of party {party!r} refused: {error}", field=error.field) from None
        self._parties.digests[party] = b"" if self.protection is None else digest

    def _checked(self, party: str, submission: bytes) -> tuple[bytes, bytes]:
        """Return what a submission carries, its seal opened where it has one; and its digest."""
        if not self.round or self._ended:
            raise MessageError("the session is not open", field="round")
        if not self._parties.is_asked(party):
            raise MessageError(self._stranger, field="sender")
        message = Message.from_bytes(submission, limit=self.submission_limit + ENVELOPE_BYTES)
        message.require(
            protocol=self.manifest.protocol,
            session=self.manifest.session,
            manifest=self.digest,
            round=self.round,
            sender=party,
        )
        protection = require_protection(self.manifest, self.protection)
        if protection is None:
            return message.unsealed, message.digest
        return message.opened(protection, AGGREGATOR if self._is_sealed(self.round) else ""), message.digest

    def finish_round(self) -> bytes | None:
        """Close the round and return the next message for all, or None when the session has ended.

        Raises `TooFewPartiesError` for fewer submissions than the round needs, and names who is missing: the round
        stays open. Raises `EvaluationError` where the session is not open.
        """
        if not self.round or self._ended:
            raise EvaluationError("the session is not open")
        if not self._must_answer():
            self._ended = True
            return None
        self._parties.require(1 if self.round in self.helper_rounds else self._least())
        answered = self._parties.answered
        if self.journal is not None:
            self.journal.close_round(self.round, answered)
        self._count(answered)
        return self._open_next(self._close)

    def _count(self, answered: tuple[str, ...]) -> None:
        self._parties.count(answered)

    @property
    def refusals(self) -> dict[str, str]:
        """Parties of which a submission was refused, and the latest reason, as of `SessionRecord`."""
        return dict(self._parties.refusals)

    def result(self) -> SessionRecord:
        """Return who took part; raise `EvaluationError` while the session runs."""
        if not self._ended:
            raise EvaluationError("the session has not ended")
        return self._parties.record(self.manifest.session)

    @property
    def counted(self) -> tuple[str, ...]:
        """Parties still in the session."""
        return self._parties.counted

    @property
    def asked(self) -> tuple[str, ...]:
        """Names of those who are to answer this round: the parties still in the session, or its helper."""
        return self._parties.asked

    def has_accepted(self, party: str, submission: bytes | None = None) -> bool:
        """Whether the party's submission of this round was accepted; in signed sessions: exactly this `submission`."""
        digest = self._parties.digests.get(party)
        if digest is None or submission is None:
            return digest is not None
        with contextlib.suppress(MessageError):
            return Message.from_bytes(submission, limit=len(submission)).digest == digest
        return False

    def _open_next(self, payload: Callable[[], bytes]) -> bytes:
        """Return the next round's message: the one that was sent before, if any, else a new one with this payload."""
        number = self.round + 1
        message = None if self.journal is None else self.journal.message(number)
        if message is None:
            content = payload()
            recipient = HELPER if number in self.helper_rounds else ""
            listed = self._listed(number) if self.protection and self._is_sealed(number - 1) else ()
            message = in_envelope(
                self.manifest, self.protection, number, AGGREGATOR, content, recipient=recipient, submissions=listed
            ).to_bytes()
            if self.journal is not None:
                self.journal.keep_message(number, message)
        elif not self._is_ours(message, number):
            raise self.journal.damaged(f"round {number}")  # type: ignore[union-attr] # it had the message
        self.round = number
        self._parties.open_round(for_helper=number in self.helper_rounds)
        return message

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """Return whose submissions count, with their digests, for the message of a round."""
        digests = self._parties.digests
        return tuple((party, digests[party]) for party in self.counted if party in digests)

    def _is_ours(self, message: bytes, number: int) -> bool:
        try:
            parsed = Message.from_bytes(message, limit=len(message))
        except MessageError:
            return False
        return (parsed.manifest, parsed.round, parsed.sender) == (self.digest, number, AGGREGATOR)

    def _must_answer(self) -> bool:
        """Whether this round needs submissions; the last one only acknowledges."""
        return self.round < self.rounds

    def _least(self) -> int:
        """Return how many submissions this round needs."""
        return self.manifest.min_parties

    def _opening(self) -> bytes:
        """Return what the first message carries."""
        return b""

    @abstractmethod
    def _accept(self, party: str, payload: bytes) -> None:
        """Take one submission's payload; on `DeserialisationError` nothing may have changed."""

    @abstractmethod
    def _close(self) -> bytes:
        """Return what the next round's message carries."""


def conduct(
    aggregator: Aggregator,
    exchange: Callable[[bytes], Iterable[tuple[str, bytes]]],
    *,
    seconds: dict[str, float] | None = None,
    refused: Callable[[MessageError], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> SessionRecord:
    """Play a session from the aggregator's side, whatever carries the messages; the aggregator is not started yet.

    `exchange` takes a message for all, and yields (party, submission) as answers arrive, until none is waited for.
    Time by `clock` spent on "ingest" and "circuit" is added to `seconds`. `refused` is called with the error of each
    refused submission, and the session goes on; without it the error is raised.

    Errors are those of `Aggregator.receive` and `Aggregator.finish_round`.
    """
    spent = {} if seconds is None else seconds
    message: bytes | None = aggregator.start()
    while message is not None:
        for party, submission in exchange(message):
            started = clock()
            try:
                aggregator.receive(party, submission)
            except MessageError as error:
                if refused is None:
                    raise
                refused(error)
            spent["ingest"] = spent.get("ingest", 0.0) + clock() - started
        started = clock()
        message = aggregator.finish_round()
        spent["circuit"] = spent.get("circuit", 0.0) + clock() - started
    return aggregator.result()
