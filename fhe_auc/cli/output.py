"""What the commands print: the result on stdout, all else on stderr."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import BufferedWriter, FileIO, TextIOWrapper
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from fhe_auc.base import terminal

if TYPE_CHECKING:
    from fhe_auc.base.terminal import Progress

Cell: TypeAlias = str  # perhaps `styled`

_LAST_COLUMN = 20  # characters that a table's last column needs, unless its texts are shorter
_GAP = 2  # blanks between columns
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}  # of terminals (ECMA-48, 8.3.117)
_INDENT = 1  # of what stands below a row's first words; a line of a fingerprint, 39 characters, then fits into 40

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to stderr.")
"""Decorator: the option ``--json``, which every command has; the command receives ``as_json``."""


class _Output(FileIO):
    """A stream whose reader may leave early, as ``head`` does: what is written then is dropped.

    Any other failure, as of a full disk, is raised once; what comes after it is dropped.
    """

    _failed = False
    _drops = False

    @classmethod
    def over(cls, stream: TextIOWrapper, *, drops: bool) -> _Output:
        """Return what writes where a stream does; with `drops`, all that cannot be written is dropped."""
        made = cls(stream.fileno(), "w", closefd=False)
        made._drops = drops
        return made

    def write(self, data: Any, /) -> int:
        if not self._failed:
            try:
                return super().write(data)
            except BrokenPipeError:
                pass
            except OSError:
                self._failed = True
                if not self._drops:
                    raise
        return len(data)


def never_fail_to_write() -> None:
    """Let a finished command end with its own status, whether or not its reader is still there.

    What the encoding of stdout and stderr lacks is written as ``?``. Streams that are closed, as daemons have them, are
    opened on nothing: the next file would otherwise take a stream's number, and be written into.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # it has the lowest number that is free
            os.set_inheritable(descriptor, descriptor <= 2)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            raw = _Output.over(stream, drops=name == "stderr")
            lines = name == "stderr" or stream.line_buffering
            wrapped = TextIOWrapper(BufferedWriter(raw), stream.encoding, "replace", line_buffering=lines)
            setattr(sys, name, wrapped)


def sign(text: str, plain: str) -> str:
    """Return a sign, or what stands for it where the encoding of stdout lacks it, as that of pipes on Windows may."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return plain
    return text


def print_line(text: str) -> None:
    """Print on stderr, as one line whatever the text holds: names of files and parties may hold anything."""
    click.echo("".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split())), err=True)


def print_warning(text: str) -> None:
    """Print a one-line warning on stderr."""
    print_line(f"warning: {text}")


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout, null for what is not finite: JSON has no NaN."""
    from fhe_auc.base.serialise import json_text

    click.echo(json_text(value, indent=2))


def print_text(text: Cell = "", indent: int = 0) -> None:
    """Print a paragraph on stdout, wrapped between words to the width of the terminal."""
    for line in _wrapped(text, max(terminal.width() - indent, _longest_word(text))):
        click.echo(" " * indent + _coloured(line), color=True)  # click is not to take the colours out


def fits(characters: int, columns: int) -> bool:
    """Whether a table with so many characters in a line fits on the terminal."""
    return characters + _GAP * (columns - 1) <= terminal.width()


def print_table(
    rows: Iterable[tuple[Cell, ...]], *, header: tuple[str, ...] | None = None, words: int = 1, numbers: int = 0
) -> None:
    """Print rows in columns, the last one wrapped between words and dimmed: it explains.

    After `words` columns so many as `numbers` says are aligned to the right. Where the terminal is too narrow, all
    columns are wrapped; without a header each row is a paragraph then. No word and no number is cut or parted.
    """
    rows = [(*row[:-1], row[-1] if isinstance(row[-1], _Styled) else styled(row[-1], "dim")) for row in rows]
    every = [*rows, header] if header else rows
    columns = range(len(every[0]))
    widths = [max(_width(row[column]) for row in every) for column in columns]
    least = [max(_longest_word(row[column]) for row in every) for column in columns]
    room = terminal.width() - _GAP * (len(columns) - 1)
    if header is None and sum(widths[:-1]) + max(min(widths[-1], _LAST_COLUMN), least[-1]) > room:
        for row in rows:
            _print_paragraph(row)
        return
    while sum(widths) > room and (wider := [column for column in columns if widths[column] > least[column]]):
        widths[max(wider, key=widths.__getitem__)] -= 1
    right = range(words, words + numbers)
    if header:
        _print_row([styled(each, "bold") for each in header], widths, right)
        _print_row([sign("─", "-") * (sum(widths) + _GAP * (len(columns) - 1))], [0], right)
    for row in rows:
        _print_row(row, widths, right)


def _print_row(row: Sequence[Cell], widths: Sequence[int], right: Container[int]) -> None:
    """Print a row of a table, with the columns `right` aligned to the right."""
    for parts in zip_longest(*map(_wrapped, row, widths), fillvalue=""):
        cells = []
        for column, (part, width) in enumerate(zip(parts, widths, strict=True)):
            text, blanks = _coloured(part), " " * (width - _width(part))
            cells.append(blanks + text if column in right else text + blanks)
        click.echo((" " * _GAP).join(cells).rstrip(), color=True)


def _print_paragraph(row: tuple[Cell, ...]) -> None:
    """Print a row of a table for which the terminal is too narrow: its first cell, and the others below it."""
    if _width(row[0]):
        print_text(styled(row[0].strip(), "bold"))
    for cell in filter(_width, row[1:]):
        print_text(cell, _INDENT)


def _wrapped(text: Cell, width: int) -> list[Cell]:
    """Return the lines of a text, each of whole words, and of so many columns at most unless a word has more."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in re.findall(r"\s*\S+", paragraph):
            if line and _width(line + word) > width:
                lines.append(line)
                line = word.lstrip()
            else:
                line += word
        lines.append(line)
    return [styled(line, text.style) for line in lines] if isinstance(text, _Styled) else lines


def _width(cell: str) -> int:
    """Return how many columns a text takes that is not wrapped."""
    return max(len(line) if line.isascii() else sum(map(_columns, line)) for line in cell.split("\n"))


def _columns(letter: str) -> int:
    return 0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "FW")


def _longest_word(cell: str) -> int:
    return max(map(_width, cell.split()), default=0)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print on stdout, below a result, what its reader ought to know."""
    for warning in warnings:
        print_text(styled(f"warning: {warning}", "yellow"))


def examples(*lines: str) -> str:
    """Return an epilog for a command's help: example calls, each on a line of its own."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class _Styled(str):
    style: str


def styled(text: str, style: str) -> Cell:
    """Return text in a style, such as "bold red", which shows on a terminal only."""
    made = _Styled(text)
    made.style = style
    return made


def _coloured(text: Cell) -> str:
    """Return what shows text in its style on stdout."""
    if not (text and isinstance(text, _Styled) and terminal.has_colours(sys.stdout)):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in text.style.split())}m{text}\x1b[0m"


@contextmanager
def progress(first: str, *, unit: str = "parties", time_left: bool = False) -> Iterator[Progress]:
    """Show progress as `fhe_auc.base.terminal.progress`; what a library prints on stdout meanwhile goes to stderr."""
    with redirect_stdout(sys.stderr), terminal.progress(first, unit=unit, time_left=time_left) as report:
        yield report
