"""Progress on a terminal or in a notebook, and what stream shows what."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO, TypeAlias

from fhe_auc.base.quantities import seconds_text

Progress: TypeAlias = Callable[[str, int, int], None]  # called with (phase, parties done, parties in all)
_WIDEST = 110  # columns; longer lines are hard to read
_COLUMNS_OF_A_FILE = 100
_BAR = 20  # columns
_DRAWN_EVERY = 0.1  # seconds

APART: dict[str, Any] = {"creationflags": 0x200} if sys.platform == "win32" else {"start_new_session": True}
"""What keeps Ctrl-C from a process that `subprocess` starts; there `CREATE_NEW_PROCESS_GROUP`."""


def width() -> int:
    """Return how many columns lines may take."""
    return max(40, min(_WIDEST, shutil.get_terminal_size((_COLUMNS_OF_A_FILE, 24)).columns))


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream shows colours: a terminal does, unless `NO_COLOR` is set."""
    return _is_terminal(stream) and not os.environ.get("NO_COLOR")


@contextmanager
def progress(first: str, *, unit: str = "parties", time_left: bool = False) -> Iterator[Progress]:
    """Show a progress bar on stderr, if that is a terminal or a notebook's, for as long as the block runs.

    `first` is shown until the first report, `unit` is what is counted, in the plural; `time_left` adds a guess.
    """
    if not _is_terminal(sys.stderr) and "ipykernel" not in sys.modules:
        yield _silent
        return
    import click

    stream, started, line = sys.stderr, monotonic(), ""
    current, drawn = first, started

    def draw(bar: str, text: str) -> None:
        nonlocal line
        bar = f"{bar:.<{_BAR}}"
        before, line = line, f"{bar} {text}"
        code, end = ("\x1b[32m", "\x1b[0m") if has_colours(stream) else ("", "")
        blanks = " " * (len(before) - len(line))
        click.echo(f"\r{code}{bar}{end} {text}{blanks}", file=stream, nl=False, color=True)

    def report(phase: str, done: int, total: int) -> None:
        nonlocal current, drawn
        now = monotonic()
        if phase == current and now < drawn + _DRAWN_EVERY:
            return
        current, drawn, spent = phase, now, now - started
        texts = [phase.capitalize(), f"{done} of {total} {unit}", seconds_text(spent)]
        if unit == "parties" and done == total:  # the last tick of a round waits for no party
            texts[0] += ", aggregator"
        if time_left and done:
            texts.append(f"left: {seconds_text(spent * (total - done) / done)}")
        draw("#" * (_BAR * done // max(total, 1)), "  ".join(texts))

    draw("", first)
    try:
        yield report
    finally:
        click.echo(f"\r{'':{len(line)}}\r", file=stream, nl=False)


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
