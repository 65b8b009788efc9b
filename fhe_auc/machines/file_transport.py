"""Sessions carried as files in an exchange, for sites that can exchange files only (SFTP, a shared drive).

    round-1.message                 from the aggregator, to all
    round-1/north.submission        from a site

Where the session has a helper, `helpers` is a place like this one for the rounds that are its own. There may be one
exchange for all, or several, such as an inbox for each site: then every message is in each.

A file is complete or refused: all are signed, and read again once they have changed. Messages to the aggregator or the
helper are sealed. So who reads there sees no counts; who writes there can delay a session, and change nothing else.
What is no file, or nobody's, is named and skipped.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, MessageError
from fhe_auc.base.exchange import Arrivals, Exchange, Folder, told
from fhe_auc.base.files import LONGEST
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.machines import site_role
from fhe_auc.machines.aggregator_role import Transport
from fhe_auc.session.messages import ENVELOPE_BYTES, MESSAGE, Message, Protection

_POLL, _SLOW_POLL = 0.5, 5.0  # seconds; the longer it has waited, the slower
_FORWARD = 10.0  # seconds
_LONGEST_NAME = 200  # bytes; file systems take 255
_MOST_STRAYS = 10  # that are named in a folder
_MESSAGE = re.compile(r"round-([1-9][0-9]?)\.message")
_ANSWERS = re.compile(r"round-[1-9][0-9]?")
_HELPERS = "helpers/"
_LONGEST_FORWARDED = 2**26  # bytes
_MOST_FORWARDED = 20_000  # names in a folder
_NOT_GENUINE_SUBMISSION = "it is not whole, or not the party's for this round (the log says): have it copied again"
_FORWARDED = re.compile(r"session\.(announcement|helper|convened)|[^.].*\.bundle")
_NOT_GENUINE = {"signature", "ended", "format", "version", "length", "checksum", "body"}
"""Fields of errors of messages that the session's aggregator has not signed, or a site answers no more."""

NOTHING = "nothing has come"
"""Why a party is awaited that has done nothing wrong."""

Check: TypeAlias = Callable[[bytes], object]


class FileTransport(Transport):
    """Carries rounds through a place in an exchange, or in several; the rest is as of `Transport`.

    What one of several exchanges holds excludes only that one, which is named; where all are excluded, what is wrong
    with the first is raised: `InputError` where its first message is another session's, or as of `Journal.claim`. With
    a `check`, which raises `FheAucError` for what is not genuine, `forward` carries files between the exchanges.
    """

    def __init__(self, exchanges: Sequence[Exchange], place: str, *session: Any, check: Check | None = None) -> None:
        super().__init__(*session)
        self._place = place
        self._check = check if len(exchanges) > 1 else None
        self._views, excluded = list[Arrivals](), list[tuple[Arrivals, FheAucError]]()
        for view in [Arrivals(exchange, self.log) for exchange in exchanges]:
            try:
                self._claim(view)
            except (InputError, EvaluationError) as error:
                excluded.append((view, error))
                continue
            except OSError:  # it may be away
                if len(exchanges) == 1:
                    raise
            self._views.append(view)
        if not self._views:
            raise excluded[0][1]
        self._excluded: dict[str, str] = {}
        for view, why in excluded:
            view.name(place, f"it is excluded: {why}")
            self._excluded[view.shown(place)] = view.skipped[place]

    def _claim(self, view: Arrivals) -> None:
        session, place = self.aggregator.manifest.session, self._place
        begun = _sessions(view, place)
        if begun and (first := begun[min(begun)]) != session:
            shown = view.shown(place)
            raise InputError(f"{shown!r} is for session {first.hex()}; give each session a folder of its own")
        number = newest_round(view, place, session, self.aggregator.protection)
        if isinstance(view.exchange, Folder):  # which alone has locks
            folder = view.exchange.root / place
            view.exchange.prepare(folder)
            self.journal.claim(folder)
        self.journal.require_sent(number, view.shown(place))

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes] | float]:
        """Write a message for all parties; yield (party, submission) until all are there, or the time is over."""
        aggregator, clock = self.aggregator, self.journal.clock
        place = self._place + _HELPERS if aggregator.asked == (HELPER,) else self._place
        asked = message_name(place, aggregator.round)
        answers = answers_to(asked)
        parties = {file_name(party): party for party in (*aggregator.manifest.parties, HELPER)}
        longest = aggregator.submission_limit + ENVELOPE_BYTES
        due = started = clock.monotonic()
        unwritten = dict.fromkeys(self._views, "")  # and why
        while True:
            over = clock.monotonic() > started + self.timeout
            unwritten = self._written(asked, message, unwritten)
            gone = [view for view in self._views if asked.removeprefix(place) not in view.names(place)]
            unwritten = dict.fromkeys(gone, "the message is gone") | unwritten
            if self._check is not None and clock.monotonic() >= due:
                forward(self._views, self._place, self._check)
                due = clock.monotonic() + _FORWARD
            for view in self._views:
                names = sorted(name for name in view.names(answers) if not name.startswith("."))  # not finished
                for name in [name for name in names if name not in parties][:_MOST_STRAYS]:
                    view.name(answers + name, "it is named for no party of the session: rename or remove it")
                for party, file in [(parties[name], answers + name) for name in names if name in parties]:
                    if party not in aggregator.asked or aggregator.has_accepted(party):
                        continue
                    if (data := view.read(file, longest)) is not None:
                        yield party, data
                        if not aggregator.has_accepted(party):
                            view.name(file, _NOT_GENUINE_SUBMISSION)
            reasons = dict.fromkeys(self.awaited(), NOTHING)
            self.skipped = dict(self._excluded)
            for view in self._views:
                self.skipped |= {view.shown(name): why for name, why in view.skipped.items()}
                for name, why in view.skipped.items():
                    if (party := parties.get(name.removeprefix(answers), "")) in reasons:
                        reasons[party] = aggregator.refusals.get(party) or why
            self.skipped |= {view.shown(place): why for view, why in unwritten.items()}
            self.tell(reasons, started + self.timeout)
            if not reasons or over:
                places = ", ".join(view.shown(answers) for view in self._views)
                self.failures = {party: f"{why} in {places}" for party, why in reasons.items()}
                return
            yield max(_POLL, min((clock.monotonic() - started) / 100, _SLOW_POLL))

    def _written(self, asked: str, message: bytes, views: Mapping[Arrivals, str]) -> dict[Arrivals, str]:
        """Write a message into exchanges; return those where it could not be, and why.

        Raise that where all are such, and there is no reason `before` why they should be.
        """
        failed: dict[Arrivals, str] = {}
        for view, before in views.items():
            try:
                view.exchange.put(answers_to(asked), b"")
                view.exchange.put(asked, message)
            except (OSError, InputError) as error:
                failed[view] = f"the message is not there yet: {getattr(error, 'strerror', None) or error}"
                if len(failed) == len(self._views) and not before:
                    raise
                if failed[view] != before:
                    self.log.warning("%s: %s", view.shown(asked[: asked.rfind("/") + 1]), failed[view])
        return failed


def answer(
    view: Arrivals, place: str, config: Mapping[str, Any], number: int, log: RoleLog, clock: Clock = SYSTEM
) -> tuple[str, bool]:
    """Answer a round in a place as the role that `config` is for; return the file, and whether the session has ended.

    Where its message turns out not to be the aggregator's, that is named, and the highest round below it that is
    genuine is answered: the file returned is in `round-N`. `config`, `log` and errors are as of
    `fhe_auc.machines.site_role.answer`. Done again, it writes the same bytes.
    """

    def own(name: str) -> Iterator[bytes]:
        for answers in filter(_ANSWERS.fullmatch, view.names(place)):
            with suppress(OSError, InputError):
                file = file_name(HELPER if place.endswith(_HELPERS) else name)
                yield view.exchange.read(f"{place}{answers}/{file}")

    while True:
        asked = message_name(place, number)
        try:
            submission, ended = site_role.answer(config, view.exchange.read(asked), own=own, log=log, clock=clock)
            break
        except MessageError as error:
            if error.field not in _NOT_GENUINE:
                raise
            view.skip(asked, told(error))
            below = newest_round(view, place)
            if below is None or below >= number:
                raise
            number = below
    file = answers_to(asked) + file_name(Message.from_bytes(submission, limit=LONGEST).sender)
    lies = b""
    with suppress(OSError, InputError):
        lies = view.exchange.read(file, len(submission))
    if lies != submission:
        view.exchange.put(file, submission)
    return file, ended


def newest_round(view: Arrivals, place: str, session: bytes = b"", protection: Protection | None = None) -> int | None:
    """Return the number of the last round of a session that has begun in a place; None: none.

    A message counts once it is whole, and says itself that it is the session's of that round; by default the place's
    session is that of its first message. What `answer` has named there as not the aggregator's does not count. With a
    `protection`, of `session`, a message counts where the aggregator has signed it.
    """
    begun = _sessions(view, place)
    own = session or (begun[min(begun)] if begun else b"")
    for number, other in begun.items():
        if other != own:
            view.name(message_name(place, number), f"it is of session {other.hex()}, not {own.hex()}: remove it")
    for number in sorted((number for number, other in begun.items() if other == own), reverse=True):
        if protection is None or _is_signed(message_name(place, number), protection, view):
            return number
    return None


def _is_signed(name: str, protection: Protection, view: Arrivals) -> bool:
    try:
        message = Message.from_bytes(view.exchange.read(name), limit=LONGEST)
        protection.check(AGGREGATOR, MESSAGE, message.digest, message.signature)
    except (FheAucError, OSError) as error:
        view.skip(name, str(error))
        return False
    return True


def _sessions(view: Arrivals, place: str) -> dict[int, bytes]:
    """Return the session of each round whose message is whole, by the round's number."""
    numbers = [int(match[1]) for match in map(_MESSAGE.fullmatch, view.names(place)) if match]
    begun = {number: view.take(message_name(place, number), partial(_session, number)) for number in numbers}
    return {number: session for number, session in begun.items() if session is not None}


def _session(number: int, data: bytes) -> bytes:
    """Return the session of a round's message; raise `MessageError` where it is damaged, or none of that round."""
    message = Message.from_bytes(data, limit=LONGEST)
    message.require(round=number, sender=AGGREGATOR)
    return message.session


def forward(views: Sequence[Arrivals], place: str, check: Check) -> None:
    """Copy what opens sessions from a place in some of the exchanges into that in the others, byte for byte.

    What `check` refuses is copied nowhere, and nothing is written over. Where files of a name differ, each has a name
    of its own where it is copied: nobody keeps a file from another by one that is genuine, too. Nothing is read again
    until it changes.
    """
    copies: dict[str, dict[Arrivals, bytes]] = {}
    listed = {view: view.names(place) for view in views}
    for view, names in listed.items():
        for name in sorted(filter(_FORWARDED.fullmatch, names))[:_MOST_FORWARDED]:
            digest = view.take(place + name, partial(_checked, check), _LONGEST_FORWARDED)
            if digest is not None:
                copies.setdefault(name, {})[view] = digest
    for name, digests in copies.items():
        for digest in set(digests.values()):
            same = [view for view, own in digests.items() if own == digest]
            other = name if len(same) == len(digests) else f"{digest.hex()[:32]}.bundle"
            for view in same:  # who removes a file is not given it again
                view.had.add(place + other)
            for view in [view for view in views if other not in listed[view] and place + other not in view.had]:
                with suppress(OSError, InputError):  # tried again; what is copied may have changed
                    data = same[0].exchange.read(place + name, _LONGEST_FORWARDED)
                    if hashlib.sha256(data).digest() == digest:
                        view.exchange.put(place + other, data)
                        view.had.add(place + other)


def _checked(check: Check, data: bytes) -> bytes:
    check(data)
    return hashlib.sha256(data).digest()


def file_name(party: str) -> str:
    """Return the name of a party's file: its own, with what file systems do not take as %XX; a digest if too long."""
    name = quote(party, safe=" ").replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        name = hashlib.sha256(party.encode()).hexdigest()
    return f"{name}.submission"


def message_name(place: str, number: int) -> str:
    """Return the name of a round's message."""
    return f"{place}round-{number}.message"


def answers_to(asked: str) -> str:
    """Return the place where the answers to a message are."""
    return f"{asked.removesuffix('.message')}/"
