"""Sessions carried as files in a folder, for sites that can exchange files only (SFTP, a shared drive).

    round-1.message                 from the aggregator, to all
    round-1/north.submission        from a site

Where the session has a helper, `helpers` is a folder like this one for the rounds that are its own.

A file is complete or refused: all are signed, and read again once they have changed. Messages to the aggregator or the
helper are sealed. So readers of the folder see no counts; whoever writes into it can delay a session, and change
nothing else. This is the shortest transport, as an example for others.
"""

import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import LONGEST, read_from_others, write_atomically
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.party_names import HELPER
from fhe_auc.machines import site_role
from fhe_auc.machines.aggregator_role import Transport
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message

_POLL = 0.5  # seconds
_WAITING = {False: "nothing has come", True: "what has come does not count"}
_LONGEST_NAME = 200  # bytes; file systems take 255


class FileTransport(Transport):
    """Carries rounds through `folder`; the rest is as of `Transport`.

    Raises `InputError` where the folder holds another session's messages, `MessageError` where it holds no messages.
    """

    def __init__(self, folder: Path, aggregator: Aggregator, journal: Journal, timeout: float) -> None:
        super().__init__(aggregator, journal, timeout)
        self._folder = folder
        number = newest_round(folder) if folder.is_dir() else None
        if number is not None:
            found = Message.from_bytes(read_from_others(_message_file(folder, number)), limit=LONGEST).session
            if found != aggregator.manifest.session:
                raise InputError(f"{str(folder)!r} is for session {found.hex()}; give each session a folder of its own")
        folder.mkdir(parents=True, exist_ok=True)
        journal.claim(folder, number)

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Write a message for all parties; yield (party, submission) until all are there, or the time is over."""
        aggregator, number = self.aggregator, self.aggregator.round
        deadline = time.monotonic() + self.timeout
        helping = aggregator.asked == (HELPER,)
        asked = _message_file(self._folder / "helpers" if helping else self._folder, number)
        answers = asked.with_suffix("")
        answers.mkdir(parents=True, exist_ok=True)
        write_atomically(asked, message, durable=True)
        seen: dict[str, tuple[int, int, int]] = {}
        while True:
            over = time.monotonic() > deadline
            for party in aggregator.asked:
                file = answers / file_name(party)
                if aggregator.has_accepted(party) or (state := _state(file)) in (None, seen.get(party)):
                    continue
                try:
                    submission = read_from_others(file)
                except (OSError, InputError) as error:  # which may pass, though the file stays as it is
                    self.failures[party] = str(error)
                    continue
                seen[party] = state
                yield party, submission
            awaited = self.awaited()
            reasons = {**aggregator.refusals, **self.failures}
            self.tell({party: reasons.get(party, _WAITING[party in seen]) for party in awaited}, deadline)
            if not awaited:
                return
            if over:
                for party in awaited:
                    self.failures.setdefault(party, f"no file {file_name(party)} in {str(answers)!r} that counts")
                return
            time.sleep(_POLL)


def answer(folder: Path, config: Mapping[str, Any], number: int, log: RoleLog) -> tuple[Path, bool]:
    """Answer a round in `folder` as the role that `config` is for; return the file, and whether the session has ended.

    `config`, `log` and errors are as of `fhe_auc.machines.site_role.answer`. Done again, it writes the same bytes.
    """
    asked = _message_file(folder, number)
    submission, ended = site_role.answer(config, read_from_others(asked), log=log)
    message = Message.from_bytes(submission, limit=LONGEST)
    file = asked.with_suffix("") / file_name(message.sender)
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or file.read_bytes() != submission:
        write_atomically(file, submission, durable=True)
    return file, ended


def newest_round(folder: Path) -> int | None:
    """Return the number of the last round that has been opened in a folder; None: none."""
    found = (re.fullmatch(r"round-([1-9][0-9]?)\.message", each.name) for each in folder.iterdir())
    return max((int(each[1]) for each in found if each), default=None)


def file_name(party: str) -> str:
    """Return the name of a party's file: its own, with what file systems do not take as %XX; a digest if too long."""
    name = quote(party, safe=" ").replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        name = hashlib.sha256(party.encode()).hexdigest()
    return f"{name}.submission"


def _message_file(folder: Path, number: int) -> Path:
    return folder / f"round-{number}.message"


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file's contents; None where there is no file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
