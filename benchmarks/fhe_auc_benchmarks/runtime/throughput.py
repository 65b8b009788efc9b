"""Submissions per second that so many processes take in: branches of one aggregator, each with an inbox of its own."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fhe_auc_benchmarks.runtime.contender import OurProtocol
from fhe_auc_keys import branches

_POLL = 0.005  # seconds


class Throughput(NamedTuple):
    """What some processes took in, by the clock on the wall.

    Time runs from when all processes have their keys and start to read, until the aggregator has all sums.
    """

    backend: str
    processes: int
    submissions: int
    seconds: float

    @property
    def rate(self) -> float:
        """Submissions per second."""
        return self.submissions / self.seconds


@dataclass(frozen=True)
class _Files:
    """An inbox of files, which are read once a start signal has come."""

    folder: Path
    number: int
    names: tuple[str, ...]

    def __call__(self) -> Iterator[tuple[str, bytes]]:
        (self.folder / f"ready {self.number}").touch()
        while not (self.folder / "go").exists() and self.folder.exists():  # which goes where the parent gave up
            time.sleep(_POLL)
        for name in self.names:
            yield name, (self.folder / name).read_bytes()


def throughput(session: OurProtocol, processes: int) -> Throughput:
    """Return how fast so many processes ingest the submissions of a session.

    Submissions are files in the folder for temporary files, read back from the page cache. Raises `TooFewPartiesError`
    where a party was not counted.
    """
    names = list(session.submissions)
    with tempfile.TemporaryDirectory(prefix="fhe-auc-") as temporary:
        folder = Path(temporary)
        for name, message in session.submissions.items():
            (folder / name).write_bytes(message)
        shares = [tuple(names[number::processes]) for number in range(processes)]
        inboxes = [branches.Inbox(share, _Files(folder, number, share)) for number, share in enumerate(shares)]
        session.begin()
        started: list[float] = []
        starter = threading.Thread(target=_start_together, args=(folder, processes, started))
        starter.start()
        try:
            branches.ingest(session.aggregator, session.material, inboxes)
            ended = time.perf_counter()
        finally:
            (folder / "go").touch()
            starter.join()
    session.circuit()  # refuses where a party was not counted
    return Throughput(session.backend, processes, len(names), ended - started[0])


def _start_together(folder: Path, processes: int, started: list[float]) -> None:
    while not (folder / "go").exists() and any(not (folder / f"ready {i}").exists() for i in range(processes)):
        time.sleep(_POLL)
    started.append(time.perf_counter())
    (folder / "go").touch()
