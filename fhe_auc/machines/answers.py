"""A role's answer to each round of a session: the same one however often it is asked, and whatever dies in between.

At a site every message may meet a fresh process. A transport calls `answer` alone: it looks up the session in the
site's state, makes the party, restores it, and writes down the answer before that leaves the site: with what it spends
and the audit trail's line, as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, MessageError, ResultCheckError
from fhe_auc.base.logs import LOGGER
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import KeptFormat, SecretStruct, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.machines.site_state import Joined
from fhe_auc.rows.own_checks import few_levels, near_other_sessions, row_hashes
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.messages import MESSAGE, Message, Protection
from fhe_auc.session.party import Party

if TYPE_CHECKING:
    from fhe_auc.machines.site_state import Records, SiteState

_GONE = (
    "party {party!r}: the rows have changed since they were submitted, or cannot be read; the result is of the rows as "
    "they were, and was not compared with them"
)

_MAX_MESSAGE = 2**31  # Flower, and gRPC beneath it, carries no more; the party itself has a closer limit


class _Answered(SecretStruct, frozen=True):
    message: bytes  # SHA-256 of the message answered last
    submission: bytes
    rows: bytes  # SHA-256 of the rows that the session is about
    party: bytes  # `Party.saved`
    question: bytes  # SHA-256 of what is evaluated: the study's model and outcome
    size: int  # number of rows
    counted: tuple[str, ...]  # who counts, as the role was told or decided last; of a session that was not read, too
    ended: bool
    outcome: str  # in a word, of a party that has ended, or has read its result
    parties: tuple[str, ...]  # of the session
    budget: bool = False  # whether it spends one
    last_round: int = 0  # of the session


_FORMAT = KeptFormat(b"fheansw", _Answered, "answer kept", version=8)
_READ = "result", "UndefinedAucError", "UndefinedMetricError"  # outcomes that tell about the rows
_UNKNOWN = (
    "what this site keeps of session {session} cannot be read ({error}): whether this result and that one together "
    "tell the counts of one site, nobody has compared"
)


class Answer(NamedTuple):
    """What a site or a helper sends, and with what the session has ended for it: "result", or the kind of error."""

    submission: bytes
    outcome: str | None  # None: it has not ended


def answer(
    site: SiteState,
    message: bytes,
    rows: Callable[[str, Joined], PartyData],
    done: Callable[[Party[Any], Records], object],
    own: Iterable[bytes] = (),
) -> Answer:
    """Return a site's answer to an aggregator's message; the same one where it has been asked before.

    `rows` returns the site's rows for the session, as the party of that name. The first answer submits them, and with
    the last message the result is compared with them: rounds between read none. Where they have changed by then, or
    cannot be read, the session ends without them.

    `done` takes the party after the last round, to read its result, and the records that sign it; before the last
    answer is written down or sent, so that a crash cannot lose the result. A warning says where the site has put nearly
    as many rows into another session of the same model and outcome. Before rows are submitted, the log says what is odd
    about them (`doubts`), and with few of the levels that a study lists, its session waits for a person.

    `own` is what lies where this role's answers in the session belong. One of them that it has signed, and that its
    state knows nothing of, shows that the state was put back to an older one (`SiteState.close_all`).

    The site's audit trail says when it has submitted, how many rows, and what that spends of their privacy; whose pads
    a helper has opened; and how the session has ended.

    Raises `MessageError` for anything but the next message of its session, with the field "signature" where it is not
    the aggregator's, "ended" where the site answers nothing more, "missed" where the session has gone on without it,
    was closed here, or the state was put back; `FheAucError` where the site is not in that session, its rows are more
    than its cap, or it does not allow what the session spends.
    """
    parsed = Message.from_bytes(message, limit=_MAX_MESSAGE)
    session = parsed.session
    kept = site.state(session)
    last = None if kept is None else _FORMAT.unframe(kept)
    asked = hashlib.sha256(message).digest()
    if last is not None and last.message == asked:
        return Answer(last.submission, last.outcome if last.ended else None)
    if last is not None and last.ended:
        raise MessageError(f"the session has ended for party {site.name!r}", field="ended")
    joined = site.session(session)
    joined.protection.check(AGGREGATOR, MESSAGE, parsed.digest, parsed.signature)  # before it costs anything
    _require_known(site, joined, last, own)
    if last is not None and last.budget:
        site.stop(joined.manifest)
    return _Turn(site, joined, last, parsed.round, rows).answer(message, asked, done)


def said(data: bytes, session: bytes, author: str, protection: Protection) -> int:
    """Return the round of an answer that a role, as its messages name it, has signed in a session; 0 if it is none."""
    with suppress(MessageError):
        answer = Message.from_bytes(data, limit=_MAX_MESSAGE)
        answer.require(session=session, sender=author)
        protection.check(author, MESSAGE, answer.digest, answer.signature)
        return answer.round
    return 0


def _require_known(site: SiteState, joined: Joined, last: _Answered | None, own: Iterable[bytes]) -> None:
    """Raise `MessageError`, and close all, where the role has said what its state does not know."""
    mine = 0 if last is None else Message.from_bytes(last.submission, limit=_MAX_MESSAGE).round
    session, author = joined.manifest.session, HELPER if joined.helps else site.name
    for data in own:
        number = said(data, session, author, joined.protection)
        if number > mine or (last is not None and number == mine and data != last.submission):
            site.close_all(f"it has answered round {number} of session {session.hex()} before")
            raise MessageError(
                f"what {site.name!r} keeps was put back to an older state: it has answered round {number} of this "
                "session before, and answers nothing more in any that was made until now",
                field="missed",
            )


class _Turn:
    """A role's turn in a round that it has not answered; parameters and errors as of `answer`."""

    def __init__(
        self,
        site: SiteState,
        joined: Joined,
        last: _Answered | None,
        number: int,
        rows: Callable[[str, Joined], PartyData],
    ) -> None:
        self._site, self._joined, self._last = site, joined, last
        self._manifest, self._asked = joined.manifest, b""
        self._log = {"session": self._manifest.session.hex(), "round": number}
        is_between = last is not None and number < last.last_round
        if joined.helps or is_between:
            known = (b"", 0) if last is None else (last.rows, last.size)
            data, self._digest, self._size = PartyData.without_rows(site.name, joined.analysis), *known
        else:
            data, self._digest, self._size = _rows(site.name, joined, rows, last)
        self._party = party = joined.helper() if joined.helps else joined.party(data)
        if last is not None:
            party.restore(last.party)
            party.who.listed = last.counted
        if number > party.next_round:
            raise MessageError(
                f"the session has gone on to round {number} without {party.name!r}: nothing is to be done; it takes "
                "part in the next session",
                field="missed",
            )
        if last is None and not joined.helps:
            if few := few_levels(data, joined.analysis):
                joined.records.ask_about_rows("; ".join(few))
            for doubt in party.own_warnings[bool(data.dropped) :]:  # the first one tells a number of rows
                LOGGER.warning("%s", doubt, extra=self._log)
        if data.rows == 0 and not joined.helps and not is_between:
            self._warn(_GONE.format(party=party.name))
        study, mine = self._manifest.study, self._manifest.parties
        self._question = b"" if study is None else hashlib.sha256(encode(study.question)).digest()
        self._others = self._known() if number > 1 and self._question else []
        read = (each for each in (*self._others, last) if each and each.outcome in _READ)
        lists = (each.counted for each in read if set(each.parties) == set(mine) and each.counted)
        party.who.earlier = (mine, *lists)

    def answer(self, message: bytes, asked: bytes, done: Callable[[Party[Any], Records], object]) -> Answer:
        """Return the answer, once what has to be written down is."""
        party, self._asked = self._party, asked
        try:
            submission = party.respond(message)
        except EvaluationError as error:
            self._asked = b""
            with self._site.together():
                self._check_verdict(error)
                self._joined.records.note("ended", outcome=type(error).__name__)
                self._keep(b"", type(error).__name__)
            raise
        first = self._last is None and not self._joined.helps
        if first or not party.ended:
            with self._site.together():
                self._submit() if first else self._note_opened()
                self._keep(submission)
        return Answer(submission, self._end(submission, done) if party.ended else None)

    def _submit(self) -> None:
        """Write down that the rows are in, and what that spends."""
        spending = registry.load(self._manifest.protocol).spends(self._manifest)
        spent = self._site.charge(self._manifest, spending, rows=self._size)
        self._joined.records.note("submitted", rows=self._size, **spent)

    def _end(self, submission: bytes, done: Callable[[Party[Any], Records], object]) -> str:
        """Hand out the result, write down how the session has ended, and return that."""
        party, helps, failure = self._party, self._joined.helps, self._party.failure
        outcome = "result" if failure is None else type(failure).__name__
        with self._site.together():  # before anything leaves: whatever dies from now on, this list is one that was read
            self._check_verdict(failure)
            if self._last is not None and not helps and outcome in _READ:
                read = msgspec.structs.replace(self._last, counted=party.who.listed, outcome=outcome)
                self._site.keep(self._manifest.session, _FORMAT.frame(read))
        if not helps:
            party.own_warnings += near_other_sessions(party.name, self._size, [each.size for each in self._others])
            done(party, self._joined.records)
        with self._site.together():
            self._note_opened()
            self._joined.records.note("ended", outcome="helped" if helps and failure is None else outcome)
            self._keep(submission, outcome)
        return outcome

    def _keep(self, submission: bytes, outcome: str = "") -> None:
        """Write down an answer, and erase what nobody needs after it."""
        party = self._party
        about = self._digest, party.saved(), self._question, self._size, party.who.listed, party.ended, outcome
        budget = registry.load(self._manifest.protocol).spends(self._manifest) is not None
        state = _Answered(self._asked, submission, *about, self._manifest.parties, budget, party.last_round)
        self._site.keep(self._manifest.session, _FORMAT.frame(state), ended=party.ended)

    def _note_opened(self) -> None:
        """Write down whose pads a helper has opened, and why it stops, if it does."""
        party, who = self._party, self._party.who
        stopped = party.failure if self._joined.helps else None
        if who.unpadded or stopped is not None:
            not_proved = {"not_proved": list(who.unproved)} if who.unproved else {}
            self._joined.records.note("opened", parties=list(who.unpadded), **not_proved)
            for why in [*(f"{name}: {NOT_PROVED}" for name in who.unproved), *([str(stopped)] if stopped else [])]:
                LOGGER.warning("%s", why, extra=self._log)

    def _check_verdict(self, error: EvaluationError | None) -> None:
        """Have the site write down that a result has failed its checks."""
        if isinstance(error, ResultCheckError) and not self._joined.helps:
            self._site.refuse(self._manifest, type(error).__name__)

    def _known(self) -> list[_Answered]:
        """Return the states of other sessions of the same question; warn of those that cannot be read."""
        known = []
        for session, state in self._site.others(self._manifest.session).items():
            try:
                known.append(_FORMAT.unframe(state))
            except DeserialisationError as error:
                self._warn(_UNKNOWN.format(session=session, error=error))
        return [each for each in known if each.question == self._question]

    def _warn(self, warning: str) -> None:
        self._party.own_warnings += (warning,)
        LOGGER.warning("%s", warning, extra=self._log)


def _rows(
    name: str, joined: Joined, rows: Callable[[str, Joined], PartyData], last: _Answered | None
) -> tuple[PartyData, bytes, int]:
    """Return a party's rows, their digest and their number: none of them, where they are in and are not there now."""
    try:
        data = rows(name, joined)
        digest = _digest(data)
    except (OSError, InputError):
        if last is None:
            raise
        digest = b""
    if last is None:
        return data, digest, data.rows
    if digest != last.rows:
        data = PartyData.without_rows(name, joined.analysis)
    return data, last.rows, last.size


def without_secrets(state: bytes, *, answer: bool) -> bytes:
    """Return a session's state without what its party would go on from; the last answer stays if `answer` is set."""
    kept = _FORMAT.unframe(state)
    bare = {} if answer else {"message": b"", "submission": b""}
    return _FORMAT.frame(msgspec.structs.replace(kept, party=b"", **bare))


def _digest(data: PartyData) -> bytes:
    """Return what tells rows from others, but not their order, in which a database gives them as it likes.

    It is a sum over rows of two hashes: for changes, not for attacks.
    """
    total = np.zeros(2, np.uint64)
    for batch in data.batches():
        total += np.array([row_hashes(batch, seed).sum(dtype=np.uint64) for seed in (1, 2)])
    return hashlib.sha256(total.tobytes() + data.rows.to_bytes(8, "little")).digest()
