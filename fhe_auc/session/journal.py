"""An aggregator's session in a folder, so that it goes on where it was, whatever dies in between.

    round-N.message             what is sent to all in round N, written before it leaves
    round-N.PARTY.submission    what a party has sent last, written before it counts
    round-N.closed              whose submissions count, written before anything is computed from them
    record.json                 who took part, and who has confirmed the last round; or what went wrong
    status.json                 who is awaited at this moment, and why
    lock                        locked while a process runs the session

Parties see no second message of a round: where one is here, it is sent again. Of what is here, nothing is secret from
the aggregator, and nothing tells it more than it has seen already; the folder is private, as others must not change it.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.files import TEMPORARY, is_private, open_descriptor, write_atomically
from fhe_auc.base.serialise import frame, json_text, unframe
from fhe_auc.exchange.exchange import file_of

_CLOSED, _ENTRY = b"fheclos", b"fheentr"
_PATIENCE, _PAUSE = 1.0, 0.05  # seconds: `is_running` has the lock for a moment
_RECORD, _STATUS, _LOCK = "record.json", "status.json", "lock"


class Journal(AbstractContextManager["Journal"]):
    """The journal of one session in a `folder`, made where there is none; a context manager.

    `InputError` where others may read or write the folder, `EvaluationError` where a process runs the session.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        self.folder, self.clock = folder, clock
        self._lock = lock_folder(folder, "journal", "runs the session of")

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes run the session; done twice, it does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def require_sent(self, newest: int | None, place: str) -> None:
        """Raise `EvaluationError` where the last round that has begun in a place, if any, was not sent from here."""
        if newest is not None and self.message(newest) is None:
            raise EvaluationError(
                f"round {newest} in {place!r} was not sent from the journal {str(self.folder)!r}: go on with the "
                "journal that has sent it, or, where that is lost, ask the key holder for a new session"
            )

    def message(self, number: int) -> bytes | None:
        """Return what was sent to all in a round (from 1); None: nothing yet."""
        return _read(self._path(number, "message"))

    def keep_message(self, number: int, message: bytes) -> None:
        """Write down what is about to be sent to all in a round."""
        write_atomically(self._path(number, "message"), message, mode=0o600, durable=True)

    def submissions(self, number: int) -> Iterator[tuple[str, bytes]]:
        """Yield each (party, submission) of `add` in a round; errors as `damaged`."""
        for path in sorted(self.folder.glob(f"round-{number}.*.submission")):
            try:
                yield unframe(_ENTRY, path.read_bytes(), tuple[str, bytes], "entry of a journal")
            except DeserialisationError as error:
                raise self.damaged(f"{path.name}: {error}") from None

    def add(self, number: int, party: str, submission: bytes) -> None:
        """Write down what a party has sent in a round, in place of what it has sent before."""
        entry, path = frame(_ENTRY, (party, submission)), self._path(number, f"{file_of(party)}.submission")
        write_atomically(path, entry, mode=0o600, durable=True)

    def closed(self, number: int) -> tuple[str, ...] | None:
        """Return the parties whose submissions of a round count; None while it is open. Errors as `damaged`."""
        path = self._path(number, "closed")
        data = _read(path)
        if data is None:
            return None
        try:
            return unframe(_CLOSED, data, tuple[str, ...], "list of submissions")
        except DeserialisationError as error:
            raise self.damaged(f"{path.name}: {error}") from None

    def close_round(self, number: int, counted: tuple[str, ...]) -> None:
        """Write down whose submissions of a round count."""
        write_atomically(self._path(number, "closed"), frame(_CLOSED, counted), mode=0o600, durable=True)

    def damaged(self, what: str) -> EvaluationError:
        """Return the error of a journal that cannot be gone on from."""
        return EvaluationError(f"the journal {str(self.folder)!r} is damaged or of another session: {what}")

    def keep_record(self, record: Mapping[str, object]) -> None:
        """Write down how the session has ended; where all have their results, what it took to go on is removed."""
        write_atomically(self.folder / _RECORD, json_text(record).encode(), mode=0o600, durable=True)
        for path in self.folder.glob("round-*.submission") if is_finished(record) else ():
            path.unlink()

    def forget_record(self) -> None:
        """Remove what `keep_record` has written."""
        (self.folder / _RECORD).unlink(missing_ok=True)

    def tell(self, *, deadline: float, **status: object) -> None:
        """Write the status, for whoever asks; the round ends at `deadline` (monotonic). A full disk ends no session."""
        until = self.clock.now() + timedelta(seconds=deadline - self.clock.monotonic())
        with contextlib.suppress(OSError):
            keep_status(self.folder, {"until": until.isoformat(timespec="seconds"), **status})

    def _path(self, number: int, what: str) -> Path:
        return self.folder / f"round-{number}.{what}"


def lock_folder(folder: Path, name: str, does: str) -> int:
    """Make a private folder where there is none, lock it, tidy it; return the lock's descriptor.

    `name` is what the folder is, and `does` what another process with the lock does; errors as of `Journal`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(folder.stat()):
        raise InputError(f"{name}: {str(folder)!r} is another user's, or open to others: chmod 700 it")
    lock = open_descriptor(folder / _LOCK, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + _PATIENCE
    while not _locked(lock):
        if time.monotonic() > deadline:
            os.close(lock)
            raise EvaluationError(f"another process {does} {str(folder)!r}")
        time.sleep(_PAUSE)
    for left_over in folder.glob(f"{TEMPORARY}*"):
        left_over.unlink()
    return lock


def keep_status(folder: Path, status: Mapping[str, object]) -> None:
    """Write a status into a folder, for `read_status`; raise `OSError` where that fails."""
    write_atomically(folder / _STATUS, json_text(status).encode(), mode=0o600)


def forget_status(folder: Path) -> None:
    """Remove what `keep_status` has written, where that is possible: it takes no room."""
    with contextlib.suppress(OSError):
        (folder / _STATUS).unlink()


def is_finished(record: Mapping[str, Any] | None) -> bool:
    """Whether by its record, if any, a session is over for all who count, so that there is nothing to go on with."""
    return record is not None and "error" not in record and set(record["counted"]) == set(record["delivered"])


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return what `Journal.keep_record` has written last, whether or not the session runs; None: nothing yet."""
    return _read_json(folder / _RECORD)


def read_status(folder: Path) -> dict[str, Any] | None:
    """Return what `Journal.tell` has written last in a journal's folder; None: nothing yet, or it is damaged."""
    with contextlib.suppress(EvaluationError):
        return _read_json(folder / _STATUS)
    return None


def is_running(folder: Path) -> bool:
    """Whether a process runs the session of a journal's folder."""
    try:
        descriptor = open_descriptor(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read_json(path: Path) -> dict[str, Any] | None:
    data = _read(path)
    try:
        content: dict[str, Any] | None = None if data is None else json.loads(data)
    except ValueError:
        raise EvaluationError(f"{str(path)!r} is damaged: remove it, and run the session again") from None
    return content


def _locked(descriptor: int) -> bool:
    """Lock a file that nobody else has locked, and say whether that was possible."""
    from filelock import lock_descriptor

    return bool(lock_descriptor(descriptor, blocking=False))
