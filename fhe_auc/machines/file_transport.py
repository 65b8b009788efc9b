"""Sessions carried as files in a folder, for sites that can exchange files only (SFTP, a shared drive).

    round-1.message                 from the aggregator, to all
    round-1/north.submission        from a site

Where the session has a helper, `helpers` is a folder like this one for the rounds that are its own. The folder may be
one for all, or several, such as an inbox for each site: then every message is in each.

A file is complete or refused: all are signed, and read again once they have changed. Messages to the aggregator or the
helper are sealed. So readers of the folder see no counts; whoever writes into it can delay a session, and change
nothing else. What is no file, or nobody's, is named and skipped.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, MessageError
from fhe_auc.base.exchange import SHARED, Arrivals, is_own, make_folder, told
from fhe_auc.base.files import LONGEST, read_from_others, write_atomically
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.machines import site_role
from fhe_auc.machines.aggregator_role import Transport
from fhe_auc.session.messages import ENVELOPE_BYTES, MESSAGE, Message, Protection

_POLL, _SLOW_POLL = 0.5, 5.0  # seconds; the longer it has waited, the slower
_FORWARD = 10.0  # seconds
_LONGEST_NAME = 200  # bytes; file systems take 255
_MOST_STRAYS = 10  # that are named in a folder
_MESSAGE = re.compile(r"round-([1-9][0-9]?)\.message")
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
    """Carries rounds through a folder, or several; the rest is as of `Transport`.

    What one of several folders holds excludes only that one, which is named; where all are excluded, what is wrong with
    the first is raised: `InputError` where its first message is another session's, or as of `Journal.claim`. With a
    `check`, which raises `FheAucError` for what is not genuine, `forward` carries files between the folders.
    `inside` is as of `make_folder`, of each folder.
    """

    def __init__(
        self, folders: Path | Sequence[Path], *session: Any, check: Check | None = None, inside: bool = False
    ) -> None:
        super().__init__(*session)
        self._inside = inside
        self._arrivals = Arrivals(self.log)
        given = [folders] if isinstance(folders, Path) else list(folders)
        self._check = check if len(given) > 1 else None
        excluded: dict[Path, FheAucError] = {}
        for folder in given:
            try:
                self._claim(folder)
            except (InputError, EvaluationError) as error:
                excluded[folder] = error
            except OSError:  # it may be away
                if len(given) == 1:
                    raise
        self._folders = [folder for folder in given if folder not in excluded]
        if not self._folders:
            raise excluded[given[0]]
        for folder, why in excluded.items():
            self._arrivals.name(folder, f"it is excluded: {why}")

    def _claim(self, folder: Path) -> None:
        session = self.aggregator.manifest.session
        found = _sessions(folder, self._arrivals)
        if found and (first := found[min(found)]) != session:
            raise InputError(f"{str(folder)!r} is for session {first.hex()}; give each session a folder of its own")
        number = newest_round(folder, self._arrivals, session, self.aggregator.protection)
        make_folder(folder, inside=self._inside)
        self.journal.claim(folder, number)

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Write a message for all parties; yield (party, submission) until all are there, or the time is over."""
        aggregator = self.aggregator
        places = [each / "helpers" if aggregator.asked == (HELPER,) else each for each in self._folders]
        answers = [message_file(place, aggregator.round).with_suffix("") for place in places]
        parties = {file_name(party): party for party in (*aggregator.manifest.parties, HELPER)}
        longest = aggregator.submission_limit + ENVELOPE_BYTES
        due = started = time.monotonic()
        arrivals = self._arrivals
        unwritten = dict.fromkeys(places, "")  # and why
        while True:
            over = time.monotonic() > started + self.timeout
            unwritten = self._written(message, unwritten)
            gone = [place for place in places if not os.path.lexists(message_file(place, aggregator.round))]
            unwritten = dict.fromkeys(gone, "the message is gone") | unwritten
            if self._check is not None and time.monotonic() >= due:
                forward(self._folders, arrivals, self._check)
                due = time.monotonic() + _FORWARD
            for folder in answers:
                names = sorted(each for each in arrivals.names(folder) if not each.startswith("."))  # not finished
                for name in [name for name in names if name not in parties][:_MOST_STRAYS]:
                    arrivals.name(folder / name, "it is named for no party of the session: rename or remove it")
                for party, file in [(parties[name], folder / name) for name in names if name in parties]:
                    if party not in aggregator.asked or aggregator.has_accepted(party):
                        continue
                    if (data := arrivals.read(file, longest)) is not None:
                        yield party, data
                        if not aggregator.has_accepted(party):
                            arrivals.name(file, _NOT_GENUINE_SUBMISSION)
            self.skipped = {one_line(str(file)): why for file, why in (arrivals.skipped | unwritten).items()}
            reasons = dict.fromkeys(self.awaited(), NOTHING)
            for file, why in arrivals.skipped.items():
                if file.parent in answers and (party := parties.get(file.name, "")) in reasons:
                    reasons[party] = aggregator.refusals.get(party) or why
            self.tell(reasons, started + self.timeout)
            if not reasons or over:
                self.failures = {party: f"{why} in {', '.join(map(str, answers))}" for party, why in reasons.items()}
                return
            time.sleep(max(_POLL, min((time.monotonic() - started) / 100, _SLOW_POLL)))

    def _written(self, message: bytes, places: Mapping[Path, str]) -> dict[Path, str]:
        """Write a message into folders; return those where it could not be, and why.

        Raise that where all are such, and there is no reason `before` why they should be.
        """
        failed: dict[Path, str] = {}
        for place, before in places.items():
            asked = message_file(place, self.aggregator.round)
            try:
                make_folder(place if place in self._folders else place.parent, inside=self._inside)
                make_folder(place, inside=self._inside or place not in self._folders)
                if is_own(place):  # another owner may not be in the group that ours would be open to: sites make it
                    make_folder(asked.with_suffix(""), inside=True)
                write_atomically(asked, message, mode=SHARED, durable=True)
            except (OSError, InputError) as error:
                failed[place] = f"the message is not there yet: {getattr(error, 'strerror', None) or error}"
                if len(failed) == len(self._folders) and not before:
                    raise
                if failed[place] != before:
                    self.log.warning("%s: %s", place, failed[place])
        return failed


def answer(
    folder: Path, config: Mapping[str, Any], number: int, log: RoleLog, arrivals: Arrivals | None = None
) -> tuple[Path, bool]:
    """Answer a round in `folder` as the role that `config` is for; return the file, and whether the session has ended.

    Where its message turns out not to be the aggregator's, that is named, and the highest round below it that is
    genuine is answered: the file returned is in `round-N`. `config`, `log` and errors are as of
    `fhe_auc.machines.site_role.answer`; `arrivals` as of `newest_round`. Done again, it writes the same bytes.
    """
    arrivals = arrivals or Arrivals(log)
    while True:
        asked = message_file(folder, number)
        try:
            submission, ended = site_role.answer(config, read_from_others(asked, plain=True), log=log)
            break
        except MessageError as error:
            if error.field not in _NOT_GENUINE:
                raise
            arrivals.skip(asked, told(error))
            below = newest_round(folder, arrivals)
            if below is None or below >= number:
                raise
            number = below
    file = asked.with_suffix("") / file_name(Message.from_bytes(submission, limit=LONGEST).sender)
    make_folder(file.parent, inside=True)
    found = b""
    with suppress(OSError, InputError):
        found = read_from_others(file, len(submission), plain=True)
    if found != submission:
        write_atomically(file, submission, mode=SHARED, durable=True)
    return file, ended


def newest_round(
    folder: Path, arrivals: Arrivals | None = None, session: bytes = b"", protection: Protection | None = None
) -> int | None:
    """Return the number of the last round of a session that has been opened in a folder; None: none.

    A message counts once it is whole, and says itself that it is the session's of that round; by default the folder's
    session is that of its first message. `arrivals` remembers what has been read, and which messages `answer` has found
    not to be the aggregator's; without it, everything is read anew. With a `protection`, of `session`, a message counts
    where the aggregator has signed it.
    """
    arrivals = arrivals or Arrivals()
    found = _sessions(folder, arrivals)
    own = session or (found[min(found)] if found else b"")
    for number, other in found.items():
        if other != own:
            arrivals.name(message_file(folder, number), f"it is of session {other.hex()}, not {own.hex()}: remove it")
    for number in sorted((number for number, each in found.items() if each == own), reverse=True):
        if protection is None or _is_signed(message_file(folder, number), protection, arrivals):
            return number
    return None


def _is_signed(file: Path, protection: Protection, arrivals: Arrivals) -> bool:
    try:
        message = Message.from_bytes(read_from_others(file, plain=True), limit=LONGEST)
        protection.check(AGGREGATOR, MESSAGE, message.digest, message.signature)
    except (FheAucError, OSError) as error:
        arrivals.skip(file, str(error))
        return False
    return True


def _sessions(folder: Path, arrivals: Arrivals) -> dict[int, bytes]:
    """Return the session of each round whose message is whole, by the round's number."""
    numbers = [int(match[1]) for match in map(_MESSAGE.fullmatch, arrivals.names(folder)) if match]
    found = {number: arrivals.take(message_file(folder, number), partial(_session, number)) for number in numbers}
    return {number: session for number, session in found.items() if session is not None}


def _session(number: int, data: bytes) -> bytes:
    """Return the session of a round's message; raise `MessageError` where it is damaged, or none of that round."""
    message = Message.from_bytes(data, limit=LONGEST)
    message.require(round=number, sender=AGGREGATOR)
    return message.session


def forward(folders: Sequence[Path], arrivals: Arrivals, check: Check) -> None:
    """Copy what opens sessions, and lies in some of the folders, into the others, byte for byte.

    What `check` refuses is copied nowhere, and nothing is written over. Where files of a name differ, each has a name
    of its own where it is copied: nobody keeps a file from another by one that is genuine, too. `arrivals` remembers
    what is done: nothing is read again until it changes.
    """
    found: dict[str, dict[Path, bytes]] = {}
    listed = {folder: arrivals.names(folder) for folder in folders}
    for folder, names in listed.items():
        for name in sorted(filter(_FORWARDED.fullmatch, names))[:_MOST_FORWARDED]:
            digest = arrivals.take(folder / name, partial(_checked, check), _LONGEST_FORWARDED)
            if digest is not None:
                found.setdefault(name, {})[folder] = digest
    for name, copies in found.items():
        for digest in set(copies.values()):
            same = [folder for folder, each in copies.items() if each == digest]
            other = name if len(same) == len(copies) else f"{digest.hex()[:32]}.bundle"
            had = arrivals.had.setdefault(other, set())  # who removes a file is not given it again
            had.update(same)
            for folder in [each for each in folders if other not in listed[each] and each not in had]:
                with suppress(OSError, InputError):  # tried again; what is copied may have changed
                    data = read_from_others(same[0] / name, _LONGEST_FORWARDED, plain=True)
                    if os.access(folder, os.W_OK) and hashlib.sha256(data).digest() == digest:
                        write_atomically(folder / other, data, mode=SHARED)
                        had.add(folder)


def _checked(check: Check, data: bytes) -> bytes:
    check(data)
    return hashlib.sha256(data).digest()


def file_name(party: str) -> str:
    """Return the name of a party's file: its own, with what file systems do not take as %XX; a digest if too long."""
    name = quote(party, safe=" ").replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        name = hashlib.sha256(party.encode()).hexdigest()
    return f"{name}.submission"


def message_file(folder: Path, number: int) -> Path:
    """Return the file of a round's message."""
    return folder / f"round-{number}.message"
