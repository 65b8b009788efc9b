"""Sessions carried as files in an exchange (`fhe_auc.exchange`), where each role writes in its own place alone.

    MAKER/SESSION/session                       the announcement, signed, for all
    MAKER/SESSION/aggregator.bundle             sealed to it, as those to the parties: PARTY.bundle
    AGGREGATOR/SESSION/round-1.message          to all parties; helper-2.message: to the helper
    PARTY/SESSION/round-1.submission            to the aggregator, as the helper's

SESSION is its id, hexadecimal. A file is whole or refused: all are signed, or have a MAC (`fhe_auc.session.messages`),
and what does not count yet is read again. Messages to the aggregator or the helper are sealed. So who reads there sees
no counts; who writes there can delay a session, and change nothing else. What a role finds changed at a name of its own
it puts back, and names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from fhe_auc.base.errors import MessageError
from fhe_auc.base.files import LONGEST
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.exchange.exchange import Arrivals
from fhe_auc.session.messages import MESSAGE, Message, Protection

_MOST_OFF = 600.0  # seconds
_COMPARED = 600.0  # seconds
_MESSAGE = re.compile(r"(round|helper)-([1-9][0-9]?)\.message")
_SUBMISSION = re.compile(r"round-[1-9][0-9]?\.submission")

ANNOUNCEMENT, FOR_AGGREGATOR = "session", "aggregator.bundle"
"""Names of a maker's files in a session's place."""

NOTHING = "nothing has come"
"""Why a party is awaited that has done nothing wrong."""


def submission_name(number: int) -> str:
    """Return the name of an answer to a round."""
    return f"round-{number}.submission"


def is_submission(name: str) -> bool:
    """Return whether a name is that of an answer to a round."""
    return _SUBMISSION.fullmatch(name) is not None


def of_session(name: str, bundle: str = FOR_AGGREGATOR) -> bool:
    """Return whether a file, by its name, has a meaning in a session for who has this `bundle`: of some 400 names."""
    return name in (ANNOUNCEMENT, bundle) or is_submission(name) or _MESSAGE.fullmatch(name) is not None


def message_name(number: int, *, to_helper: bool) -> str:
    """Return the name of a round's message."""
    return f"{'helper' if to_helper else 'round'}-{number}.message"


class Own:
    """A file that a role has put into its place, and puts back: it is not to be other than as it was written.

    Where a server tells times of whole seconds, which whoever writes there may set as they were (SFTP, WebDAV), the
    contents are compared every ten minutes, whatever it tells: often enough for rounds of hours, and one request.
    """

    def __init__(self, view: Arrivals, name: str, data: bytes) -> None:
        self.name = name
        self._view, self._digest, self._is_there = view, hashlib.sha256(data).digest(), False
        self._compared = view.clock.monotonic()

    def keep(self, data: Callable[[], bytes]) -> str:
        """Put it there where it is not, after a look into its place; return what was there, or "" if all was well.

        Raises `OSError` or `InputError` where it cannot be put there.
        """
        now = self._view.clock.monotonic()
        if self._view.exchange.coarse and now - self._compared >= _COMPARED:
            self._view.again(self.name)
            self._compared = now
        found = self._view.take(self.name, lambda found: hashlib.sha256(found).digest())
        if found == self._digest:
            self._is_there = True
            return ""
        self._view.exchange.put(self.name, data())
        self._view.again(self.name)
        if found is None and not self._is_there:
            self._is_there = True
            return ""
        return "it was replaced by another, and is put back" if found else "it was removed, and is put back"


def time_of(data: bytes) -> int:
    """Return when a message was made, by its sender's clock, in Unix seconds."""
    return Message.from_bytes(data, limit=LONGEST).time


def off(time: float, after: float, before: float) -> str:
    """Return how far a sender's clock is off that told `time`, which was between these two; "" where it is right."""
    far = time - before if time > before else min(time - after, 0.0)
    if -_MOST_OFF < far < _MOST_OFF:
        return ""
    where = "ahead of" if far > 0 else "behind"
    return f"its clock is {abs(far) / 3600:.1f} h {where} this one: set the one that is wrong"


class Begun(NamedTuple):
    """A round that has begun, and its message's digest."""

    number: int
    digest: bytes


def newest_round(
    view: Arrivals, place: str, session: bytes, *, protection: Protection | None = None, to_helper: bool | None = None
) -> Begun | None:
    """Return the last round that has begun in an aggregator's place; None: none.

    A message counts once it is whole, and says itself that it is the session's of that round; with a `protection`,
    where the aggregator has signed it. By default messages to the helper count as those to the parties.
    """
    listed = [(name, match) for name in view.names(place) if (match := _MESSAGE.fullmatch(name))]
    if to_helper is not None:
        listed = [(name, match) for name, match in listed if (match[1] == "helper") == to_helper]
    rounds = sorted(((int(match[2]), name) for name, match in listed), reverse=True)
    for number, name in rounds:
        digest = view.take(place + name, partial(_checked, number, session, protection))
        if digest is not None:
            return Begun(number, digest)
    return None


def _checked(number: int, session: bytes, protection: Protection | None, data: bytes) -> bytes:
    """Return a message's digest; raise `MessageError` where it is not of that round."""
    message = Message.from_bytes(data, limit=LONGEST)
    if message.session != session:
        raise MessageError(f"it is of session {message.session.hex()}, not {session.hex()}", field="session")
    message.require(round=number, sender=AGGREGATOR)
    if protection is not None:
        protection.check(AGGREGATOR, MESSAGE, message.digest, message.signature)
    return message.digest
