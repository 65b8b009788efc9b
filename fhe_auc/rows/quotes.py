"""Quotes that swallow rows of a text table: to a CSV reader all that follows one, to the next one, is a single entry.

An entry is quoted where its first character is a quote; a quote elsewhere is a character like any other, as in 6'1".
Certain is, and refused: a quoted entry that does not end, and one over several lines with text behind its end. So is
one over several lines that end as well-formed rows would (each line with the delimiters of a row, and numbers where the
columns of numbers are): a note can look like this, but hardly by chance. Not found are rows swallowed between two stray
quotes whose columns of numbers hold text.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fhe_auc.base.errors import InputError
from fhe_auc.rows.entries import canonical

_ENTRY = re.compile(rb'"[^"]*(?:""[^"]*)*"(?!")')
_BREAK = re.compile(rb"\r\n|\r|\n")


class QuoteError(InputError):
    """A quote swallows rows; `offset` is where it is in the text, in bytes."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(
            f"a quote begins an entry there {what}, and swallows the lines below; remove it, or put the entry within "
            "quotes and double it"
        )
        self.offset = offset


@dataclass
class Quotes:
    """Checks the text of a table as it comes, in an encoding that has ASCII characters as one byte each."""

    delimiter: bytes  # one character
    width: int  # number of columns
    numbers: Sequence[int]  # indices of the columns that hold numbers
    number: Callable[[str], float | None]  # the number that a text is
    longest: int  # bytes that an entry over several lines may have

    _rest: bytes = b"\n"  # an open entry and the character before it, or the last character
    _start: int = -1  # of the rest, in the text

    def feed_all(self, blocks: Iterable[bytes]) -> None:
        """Check the rest of the text, up to its end; raise `QuoteError`."""
        for block in blocks:
            self.feed(block)
        if len(self._rest) > 1 and not _ENTRY.fullmatch(self._rest, 1):
            raise QuoteError("that does not end", self._start + 1)

    def feed(self, block: bytes) -> None:
        """Check more of the text; raise `QuoteError`."""
        if len(self._rest) == 1 and b'"' not in block:
            self._start, self._rest = self._start + len(block), block[-1:] or self._rest
            return
        text, at = self._rest + block, 1
        while tidy := self._tidy.match(text, at):  # if only nothing
            quote = tidy.end()
            entry = _ENTRY.match(text, quote)
            if entry is None or entry.end() == len(text):
                break
            self._check(text, quote, entry.end() - 1)
            at = entry.end()
        self._start, self._rest = self._start + quote - 1, text[quote - 1 :]
        if len(self._rest) > self.longest:
            raise QuoteError(f"that goes on for {self.longest:,} bytes", self._start + 1)

    @cached_property
    def _tidy(self) -> re.Pattern[bytes]:
        """What stands before an entry that begins with a quote and does not end on its line."""
        opening = rb"[\r\n%s]" % re.escape(self.delimiter)
        entry = rb'(?<=%s)"[^"\r\n]*(?:""[^"\r\n]*)*"(?=[^"])' % opening
        return re.compile(rb'[^"]*(?:(?:%s|(?<!%s)")[^"]*)*' % (entry, opening))

    def _check(self, text: bytes, quote: int, end: int) -> None:
        """Raise `QuoteError` where an entry over several lines swallows rows."""
        breaks = text.count(b"\n", quote, end) or text.count(b"\r", quote, end)
        if text[end + 1 : end + 2] not in (b"\r", b"\n", self.delimiter):
            what = "with text behind the quote that ends it"
        elif text.count(self.delimiter, quote, end) == breaks * (self.width - 1) and self._are_rows(
            _BREAK.split(text[quote + 1 : end])
        ):
            what = "which look like rows"
        else:
            return
        raise QuoteError(f"that runs over {breaks + 1:,} lines, {what}", self._start + quote)

    def _are_rows(self, lines: list[bytes]) -> bool:
        """Return whether the lines of an entry look like the end of a row, rows, and the beginning of a row."""
        rows = [line.split(self.delimiter) for line in lines]
        first, last = rows[0], rows[-1]
        own = len(last) - 1  # the column of the entry, if the last line begins a row
        if len(first) + own != self.width or any(len(row) != self.width for row in rows[1:-1]):
            return False
        cells = [first[column - own] for column in self.numbers if column > own]
        cells += [last[column] for column in self.numbers if column < own]
        cells += [row[column] for column in self.numbers for row in rows[1:-1]]
        texts = [cell.decode(errors="replace").strip() for cell in cells]
        given = [text for text in texts if canonical(text) is not None]
        return bool(given) and all(self.number(text) is not None for text in given)
