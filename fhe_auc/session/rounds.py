"""Two roles that exchange bytes in rounds: the frame of every protocol, over any transport.

    aggregator.start() -> message for all          party.respond(message) -> submission
    aggregator.receive(party, submission)          one at a time, as they arrive
    aggregator.finish_round() -> next message for all, or None at the end
    party.result()                                 an Evaluation, or what else the session is for; the aggregator's
                                                   record holds none of it

`conduct` plays the aggregator's part over any transport. A party whose process ends after each answer goes on in the
next one: `Party.saved` and `Party.restore`. An aggregator goes on from its `fhe_auc.session.journal.Journal`.

The base classes do what is the same everywhere (envelopes, checks, who has answered, the policy on missing parties); a
protocol fills in what each round carries.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from fhe_auc.base.errors import (
    DeserialisationError,
    EvaluationError,
    MessageError,
    TooFewPartiesError,
)
from fhe_auc.base.party_names import AGGREGATOR, MAX_CHARACTERS
from fhe_auc.base.serialise import frame, unframe
from fhe_auc.results.evaluation import Outcome
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message, Protection

R = TypeVar("R", bound=Outcome)
"""What a session yields to each party."""

_ENVELOPE_BYTES = 2560  # more than any envelope and seal, with a name of reasonable length
_LISTED_BYTES = 4 * MAX_CHARACTERS + 48  # of a party in the aggregator's list, at most: its name in UTF-8, a digest
_STATE_MAGIC = b"fhestat"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What the aggregator may tell about an ended session: who took part, never how good the model is.

    Parties are `counted` where their submissions are in the result, and `missing` where they never submitted anything
    acceptable. `delivered` are those that have confirmed the last round: they have the result, or know that there is
    none, and nobody else is told which. `refused` names those of which a submission was refused, each with the latest
    reason; in signed sessions what they have signed alone counts, as anybody may send the rest in their names.
    """

    session: bytes  # the manifest's id, 16 bytes
    counted: tuple[str, ...]
    missing: tuple[str, ...]
    delivered: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types; `from_dict` has the way back."""
        told = {name: list(getattr(self, name)) for name in ("counted", "missing", "delivered")}
        return {"session": self.session.hex(), **told, "refused": dict(self.refused)}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> SessionRecord:
        """Return the record of which `as_dict` has told."""
        counted, missing, delivered = (tuple(told[name]) for name in ("counted", "missing", "delivered"))
        return cls(bytes.fromhex(told["session"]), counted, missing, delivered, tuple(told["refused"].items()))


class _State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    party: str
    round: int
    ended: bool
    sent: bytes  # SHA-256 of what it submitted last
    bytes_sent: int
    bytes_received: int
    seconds: dict[str, float]
    own: bytes  # what the kind of party adds

    def __repr__(self) -> str:
        return f"<state of party {self.party!r} after round {self.round} (secret)>"


class Aggregator(ABC):
    """Base of every protocol's aggregator. It chooses nothing of what the manifest says."""

    rounds: int
    """Rounds in which parties answer."""

    submission_limit: int
    """Largest payload of a submission, in bytes."""

    protection: Protection | None = None
    """Set before the session starts, where it is one between machines; without it the session is refused."""

    open_late: Callable[[tuple[str, ...]], bytes] | None = None
    """Set before the session starts, where something is the key holder's to make once it is known who counts."""

    journal: Journal | None = None
    """Set before the session starts, where it is to outlive this process: `start` then goes on from what is there."""

    _stranger = "not a party of this session, or left out in an earlier round"

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.digest = manifest.digest
        self.round = 0
        self._answered: dict[str, bytes] = {}  # ordered by arrival: SHA-256 of what was submitted, where that is signed
        self._counted = manifest.parties
        self._names = self._awaited = frozenset(manifest.parties)  # the same, and who is still counted, to look up in
        self._refused: dict[str, str] = {}
        self._ended = False

    def start(self) -> bytes:
        """Return the message that opens round 1, or with a journal the round that the session had come to.

        Raises `EvaluationError` where the session has been started before, or its journal is damaged; and as
        `finish_round`, where a round had been closed and the next one was not opened yet.
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
            if not set(closed) <= set(self._answered):
                raise self.journal.damaged("submissions are gone")
            self._count(closed)
            message = self._open_next(self._close)
        return message

    def receive(self, party: str, submission: bytes) -> None:
        """Take one party's submission of this round; a refused one leaves the session as it was.

        `party` is who the transport says it comes from.

        Raises `MessageError`: wrong, damaged, late, duplicate or replayed; the text names the party and the field. And
        `OSError` where it cannot be written into the journal.
        """
        self._receive(party, submission, self.journal)

    def _receive(self, party: str, submission: bytes, journal: Journal | None = None) -> None:
        theirs = self.protection is None  # within one process, whoever hands it over says whose it is
        try:
            payload = self._checked(party, submission)
            theirs = True
            if party in self._answered:
                raise MessageError("already submitted in this round (duplicate or replay)", field="sender")
            if journal is not None:
                journal.add(self.round, party, submission)
            self._accept(party, payload)
        except DeserialisationError as error:
            if theirs and (
                party in self._names or self._is_asked(party)
            ):  # whatever strangers send is not worth keeping
                self._refused[party] = str(error)
            raise MessageError(f"submission of party {party!r} refused: {error}", field=error.field) from None
        self._answered[party] = b"" if self.protection is None else hashlib.sha256(submission).digest()

    def _checked(self, party: str, submission: bytes) -> bytes:
        """Return what a submission carries, its seal opened where it has one."""
        if not self.round or self._ended:
            raise MessageError("the session is not open", field="round")
        if not self._is_asked(party):
            raise MessageError(self._stranger, field="sender")
        message = Message.from_bytes(submission, limit=self.submission_limit + _ENVELOPE_BYTES)
        message.require(
            protocol=self.manifest.protocol,
            session=self.manifest.session,
            manifest=self.digest,
            round=self.round,
            sender=party,
        )
        protection = require_protection(self.manifest, self.protection)
        return message.payload if protection is None else message.opened(protection, AGGREGATOR)

    def finish_round(self) -> bytes | None:
        """Close the round and return the next message for all, or None when the session has ended.

        Raises
        ------
        TooFewPartiesError
            Fewer submissions than the manifest's `min_parties`; the text names who is missing. The round stays open.
        EvaluationError
            The session is not open.
        """
        if not self.round or self._ended:
            raise EvaluationError("the session is not open")
        missing = [party for party in self.asked if party not in self._answered]
        if self._must_answer() and len(self._answered) < self._least():
            named = ", ".join(repr(party) for party in missing[:10]) + (", …" if len(missing) > 10 else "")
            raise TooFewPartiesError(
                f"{len(self._answered)} of {len(self.asked)} parties submitted, at least "
                f"{self._least()} are needed; missing: {named}"
            )
        if self.round == self.rounds:
            self._ended = True
            return None
        if self._must_answer():
            answered = tuple(party for party in self.asked if party in self._answered)
            if self.journal is not None:
                self.journal.close_round(self.round, answered)
            self._count(answered)
        return self._open_next(self._close)

    def _count(self, answered: tuple[str, ...]) -> None:
        """Go on with those who have answered the round."""
        self._counted, self._awaited = answered, frozenset(answered)

    @property
    def refusals(self) -> dict[str, str]:
        """Parties of which a submission was refused, and the latest reason, as of `SessionRecord`."""
        return dict(self._refused)

    def result(self) -> SessionRecord:
        """Return who took part; raise `EvaluationError` while the session runs."""
        if not self._ended:
            raise EvaluationError("the session has not ended")
        missing = tuple(party for party in self.manifest.parties if party not in self._counted)
        delivered = tuple(party for party in self._counted if party in self._answered)
        return SessionRecord(self.manifest.session, self._counted, missing, delivered, tuple(self._refused.items()))

    @property
    def counted(self) -> tuple[str, ...]:
        """Parties still in the session."""
        return self._counted

    @property
    def asked(self) -> tuple[str, ...]:
        """Who is to answer this round: the parties still in the session, or its helper."""
        return self._counted

    def _is_asked(self, name: str) -> bool:
        return name in self._awaited

    def has_accepted(self, party: str, submission: bytes | None = None) -> bool:
        """Whether a party's submission of this round has been taken; in signed sessions: this very one."""
        if submission is None:
            return party in self._answered
        return self._answered.get(party) == hashlib.sha256(submission).digest()

    def _open_next(self, payload: Callable[[], bytes]) -> bytes:
        """Return the next round's message: the one that was sent before, if any, else a new one with this payload."""
        number = self.round + 1
        message = None if self.journal is None else self.journal.message(number)
        if message is None:
            content = payload()
            listed = self._listed(number) if self.protection else ()
            message = _message(self, number, AGGREGATOR, content, recipient=self._alone(number), submissions=listed)
            if self.journal is not None:
                self.journal.keep_message(number, message)
        elif not self._is_ours(message, number):
            raise self.journal.damaged(f"round {number}")  # type: ignore[union-attr] # it had the message
        self.round, self._answered = number, {}
        return message

    def _alone(self, number: int) -> str:
        """Return for whom alone the message of a round is: `HELPER`, or nobody where parties are to read it."""
        return ""

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """Return whose submissions count, with their digests, for the message of a round."""
        return tuple((party, self._answered[party]) for party in self._counted if party in self._answered)

    def _is_ours(self, message: bytes, number: int) -> bool:
        try:
            found = Message.from_bytes(message, limit=len(message))
        except MessageError:
            return False
        return (found.manifest, found.round, found.sender) == (self.digest, number, AGGREGATOR)

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


class Party(ABC, Generic[R]):
    """Base of every protocol's party; raises `EvaluationError` where its name is none of the manifest's.

    It answers each round once. That the *site* submits once it cannot see to: another one, made of the same material,
    would submit again, other rows too, under secrets that are for one use (zero-sum masks, authenticators), and two
    results tell how the rows differ. `fhe_auc.machines.site_state.answer` sees to it, across processes and crashes; who
    makes parties without it has to. Nor does it compare its rows with its cap in the manifest's study: `site_state`
    does that too, wherever a session between machines is joined, and otherwise whoever makes the party
    (`Study.require_rows`).
    """

    rounds: int
    """Rounds in which parties answer."""

    submission_round: int = 1
    """The one in which this party puts its rows in; later ones need them no more."""

    answers: tuple[int, ...] = ()
    """Rounds in which it is asked; empty: in all."""

    download_limit: int
    """Largest payload of the aggregator's messages, in bytes."""

    protection: Protection | None = None
    """Set before the first message, where the session is one between machines; without it none is answered."""

    asked_alone = False
    """Whether the aggregator's messages are for this role alone, and so sealed to it."""

    opened: tuple[str, ...] = ()
    """Of a helper: the parties whose pads it has opened, in the answer that does."""

    own_warnings: tuple[str, ...] = ()
    """What this party alone is told, about its own rows; they go into its result, and nowhere else."""

    def __init__(self, manifest: Manifest, name: str) -> None:
        if not self._belongs(manifest, name):
            raise EvaluationError(f"{name!r} is not a party of this session")
        self.manifest = manifest
        self.digest = manifest.digest
        self.name = name
        self.bytes_sent = 0
        self.bytes_received = 0
        self._round = 0
        self._ended = False
        self._sent = b""
        self._listed: frozenset[str] | None = None  # parties that the aggregator has listed last, in signed sessions
        self._seconds: dict[str, float] = {}
        self._outcome: R | None = None
        self._failure: EvaluationError | None = None

    def respond(self, message: bytes) -> bytes:
        """Return the submission that answers the aggregator's message.

        In the last round the answer is the same whatever the result: `result` tells this party alone that a check has
        failed. An aggregator that learned it could choose what the check depends on. Later messages are not answered.

        Raises
        ------
        MessageError
            Wrong, damaged, out of order or replayed; the party's state is as it was.
        EvaluationError
            The session cannot go on.
        """
        limit = self.download_limit + _ENVELOPE_BYTES + _LISTED_BYTES * len(self.manifest.parties)
        parsed = _parsed(message, limit)
        parsed.require(
            protocol=self.manifest.protocol,
            session=self.manifest.session,
            manifest=self.digest,
            sender=AGGREGATOR,
            round=next((each for each in self.answers if each > self._round), self._round + 1),
        )
        if self._ended:
            raise MessageError(f"the session has ended for party {self.name!r}", field="round")
        protection, content = require_protection(self.manifest, self.protection), parsed.payload
        if protection is not None:
            content = parsed.opened(protection, self.name if self.asked_alone else "")
            self._check_listed(parsed)
        try:
            payload = self._answer(parsed.round, content)
        except DeserialisationError as error:
            raise MessageError(f"message of the aggregator refused: {error}", field=error.field) from None
        except EvaluationError as error:
            self._ended = True
            if parsed.round < self.rounds:
                raise
            self._failure, payload = error, b""
        self._round = parsed.round
        self._ended = parsed.round == (self.answers or (self.rounds,))[-1]
        submission = _message(self, parsed.round, self.name, payload, recipient=AGGREGATOR)
        self._sent = b"" if protection is None else hashlib.sha256(submission).digest()
        self.bytes_received += len(message)
        self.bytes_sent += len(submission)
        return submission

    def result(self) -> R:
        """Return what the session yields.

        Raises `EvaluationError` where there is nothing yet; or the result has failed its checks or is undefined, and
        there is none for good.
        """
        if self._failure is not None:
            raise self._failure
        if self._outcome is None:
            why = "the process that ended the session had it" if self._ended else "the session has not ended"
            raise EvaluationError(f"party {self.name!r} has no result: {why}")
        return replace(
            self._outcome,
            study=self.manifest.study,
            warnings=(*self._outcome.warnings, *self.own_warnings),
            settings={**self._outcome.settings, "signed": self.protection is not None},
            rounds=len(self.answers) or self._round,
            upload_bytes_per_party=self.bytes_sent,
            download_bytes_per_party=self.bytes_received,
        )

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name in manifest.parties

    @property
    def submitted(self) -> bool:
        """Whether this party has put its rows in."""
        return self._round >= self.submission_round

    @property
    def ended(self) -> bool:
        """Whether this party answers nothing more."""
        return self._ended

    @property
    def failure(self) -> EvaluationError | None:
        """Why there is no result for good, as the last round has shown; None: no such thing."""
        return self._failure

    def saved(self) -> bytes:
        """Return what another process needs to go on as this party, with the same manifest, material and rows.

        It is secret, and belongs into a key store; where it is kept before the submission is sent, no round is ever
        answered in two ways. It holds no result: the process that answers the last round has to read it. Of a
        party that has ended, nothing secret is left in it.
        """
        state = _State(
            manifest=self.digest,
            party=self.name,
            round=self._round,
            ended=self._ended,
            sent=self._sent,
            bytes_sent=self.bytes_sent,
            bytes_received=self.bytes_received,
            seconds=self._seconds,
            own=b"" if self._ended else self._own_state(),
        )
        return frame(_STATE_MAGIC, state)

    def restore(self, state: bytes) -> None:
        """Go on from what `saved` has returned; for a party that has not answered anything yet.

        Raises
        ------
        DeserialisationError
            Damaged, of another version, or the state of another session or party.
        EvaluationError
            This party has answered already.
        """
        if self._round or self._ended:
            raise EvaluationError(f"party {self.name!r} has begun already, and is not put back")
        found = unframe(_STATE_MAGIC, state, _State, "party's state")
        if (found.manifest, found.party) != (self.digest, self.name) or not 0 <= found.round <= self.rounds:
            raise DeserialisationError("the state is that of another session or party", field="session")
        if not found.ended:
            self._restore_own(found.own)
        self._round, self._ended, self._seconds = found.round, found.ended, found.seconds
        self._sent, self.bytes_sent, self.bytes_received = found.sent, found.bytes_sent, found.bytes_received

    def _own_state(self) -> bytes:
        """Return what this kind of party keeps between rounds, beyond what it is made from."""
        return b""

    def _restore_own(self, own: bytes) -> None:
        """Take what `_own_state` has returned; raise `DeserialisationError` where it cannot be that."""
        if own:
            raise DeserialisationError("the state is that of another kind of party")

    def _check_listed(self, message: Message) -> None:
        """Raise `MessageError` unless the aggregator says that enough parties count, and this one with what it sent."""
        if message.round == 1 and not message.submissions:
            return
        listed = dict(message.submissions)
        odd = set(listed) - set(self.manifest.parties)
        if odd or len(listed) != len(message.submissions):
            raise MessageError("the list of submissions names a stranger, or a party twice", field="submissions")
        if len(listed) < self.manifest.min_parties:
            raise MessageError(
                f"{len(listed)} submissions count, at least {self.manifest.min_parties} are needed", field="submissions"
            )
        if not self._sent or listed.get(self.name) != self._sent:
            raise MessageError(f"what party {self.name!r} submitted does not count", field="submissions")
        self._listed = frozenset(listed)

    def _check_counted(self, parties: int) -> None:
        """Raise `DeserialisationError` where a result claims fewer parties than may be, or more than there are."""
        most = len(self.manifest.parties) if self._listed is None else len(self._listed)
        if not self.manifest.min_parties <= parties <= most or (self._listed is not None and parties != most):
            raise DeserialisationError(f"{parties} parties counted, of {most}")

    def _check_named(self, counted: tuple[str, ...]) -> None:
        """Raise `DeserialisationError` where these cannot be the parties that count; this one has to be among them."""
        named = frozenset(counted)
        if counted != tuple(party for party in self.manifest.parties if party in named):
            raise DeserialisationError("the parties counted are not some of the session's, each once and in its order")
        if self._listed not in (None, named):
            raise DeserialisationError("the parties counted are not those whose submissions the aggregator has listed")
        if self.name not in named:
            raise DeserialisationError(f"what party {self.name!r} submitted does not count")
        self._check_counted(len(counted))

    @abstractmethod
    def _answer(self, round_number: int, payload: bytes) -> bytes:
        """Return what this party's submission of the round carries.

        In the last round it is empty, and ``self._outcome`` is set or `EvaluationError` raised.
        """


@lru_cache(maxsize=1)  # in one process, all parties are given the same bytes, and may keep the payload
def _parsed(message: bytes, limit: int) -> Message:
    return Message.from_bytes(message, limit=limit)


def _message(
    role: Aggregator | Party[Any],
    round_number: int,
    sender: str,
    payload: bytes,
    *,
    recipient: str,
    submissions: tuple[tuple[str, bytes], ...] = (),
) -> bytes:
    """Return a message of a role; between machines signed, and sealed to `recipient` if it is for one alone."""
    protocol, session = role.manifest.protocol, role.manifest.session
    message = Message(protocol, session, round_number, sender, role.digest, payload, submissions, b"")
    if role.protection is not None:
        message = message.protected(role.protection, recipient)
    return message.to_bytes()


def require_protection(manifest: Manifest, protection: Protection | None) -> Protection | None:
    """Return a role's protection; raise `EvaluationError` where a session between machines would go without."""
    if manifest.aggregator and protection is None:
        raise EvaluationError("messages of this session are sealed and signed, and this role has no keys to do so")
    return protection


def conduct(
    aggregator: Aggregator,
    exchange: Callable[[bytes], Iterable[tuple[str, bytes]]],
    *,
    seconds: dict[str, float] | None = None,
    refused: Callable[[MessageError], None] | None = None,
) -> SessionRecord:
    """Play a session from the aggregator's side, whatever carries the messages.

    Parameters
    ----------
    aggregator : Aggregator
        Not started yet.
    exchange : callable
        Takes a message for all, and yields (party, submission) as answers arrive, until no more are to be waited for.
    seconds : dict, optional
        Wall-clock time spent on "ingest" and "circuit" is added to it.
    refused : callable, optional
        Told of each submission that is refused, and the session goes on; without it the error is raised.

    Raises `MessageError` or `EvaluationError`: as `Aggregator.receive` and `Aggregator.finish_round`.
    """
    spent = {} if seconds is None else seconds
    message: bytes | None = aggregator.start()
    while message is not None:
        for party, submission in exchange(message):
            started = time.perf_counter()
            try:
                aggregator.receive(party, submission)
            except MessageError as error:
                if refused is None:
                    raise
                refused(error)
            spent["ingest"] = spent.get("ingest", 0.0) + time.perf_counter() - started
        started = time.perf_counter()
        message = aggregator.finish_round()
        spent["circuit"] = spent.get("circuit", 0.0) + time.perf_counter() - started
    return aggregator.result()
