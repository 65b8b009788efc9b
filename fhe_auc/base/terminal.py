"""Progress on a terminal or in a notebook, and what stream shows what. rich is imported when something is shown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

Progress: TypeAlias = Callable[[str, int, int], None]  # called with (phase, parties done, parties in all)
_WIDEST = 110  # columns; longer lines are hard to read
_COLUMNS_OF_A_FILE = 100

APART: dict[str, Any]
"""What keeps Ctrl-C from a process that `subprocess` starts."""
if sys.platform == "win32":
    APART = {"creationflags": 0x200}  # `subprocess.CREATE_NEW_PROCESS_GROUP`, which few who load this need
else:
    APART = {"start_new_session": True}


def console(stream: TextIO) -> Console:
    """Return what prints on a stream: texts as they are, in colour on a terminal only."""
    from rich.console import Console

    terminal = _is_terminal(stream)
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system="auto" if terminal and not os.environ.get("NO_COLOR") else None,
        width=max(40, min(_WIDEST, shutil.get_terminal_size((_COLUMNS_OF_A_FILE, 24)).columns)),
        markup=False,
        highlight=False,
        emoji=False,
    )


@contextmanager
def progress(first: str, *, unit: str = "parties", time_left: bool = False) -> Iterator[Progress]:
    """Show a progress bar on stderr, if that is a terminal or a notebook's, for as long as the block runs.

    `first` is shown until the first report, `unit` is what is counted, in the plural; `time_left` adds a guess.
    """
    if not _is_terminal(sys.stderr) and "ipykernel" not in sys.modules:
        yield _silent
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
        *((TextColumn("left:"), TimeRemainingColumn()) if time_left else ()),
    )
    with Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(first, total=None, counted="")

        def report(phase: str, done: int, total: int) -> None:
            counted = f"{done} of {total} {unit}"
            if unit == "parties" and done == total:  # the last tick of a round waits for no party
                phase = f"{phase}, aggregator"
            bars.update(task, description=phase.capitalize(), completed=done, total=total, counted=counted)

        yield report


@contextmanager
def shown(wanted: bool | Progress) -> Iterator[Progress]:
    """Return what to report progress to: a bar for True, or what is given."""
    if wanted is True:
        with progress("Keys and parties") as report:
            yield report
    else:
        yield wanted or _silent


def _is_terminal(stream: TextIO | None) -> bool:
    """Say whether a stream, which Python has as None where it is closed, is a terminal."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def _silent(phase: str, done: int, total: int) -> None:
    pass
