"""A quote that swallows rows is found, and where; quotes that do not are no matter."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.rows import csv_files
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.party_files import Entries, read_parties
from fhe_auc.rows.quotes import QuoteError, Quotes


def rows(number: int, **notes: str) -> list[str]:
    """Lines of a file: the header, and rows with notes, those of given rows (r1, ...) as they are to stand there."""
    return ["y_true,y_score,note,site"] + [
        f"{k % 2},{k % 10 / 10},{notes.get(f'r{k}', 'well')},north" for k in range(1, number + 1)
    ]


def scores_of(lines: list[str], encoding: str = "utf-8") -> list[float]:
    Path("a.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
    (party,) = read_parties(["a.csv"], entries=Entries(form=TextFormat(encoding=encoding)))
    return party.y_score.tolist()


def refusal(lines: list[str], encoding: str = "utf-8") -> InputError:
    with pytest.raises(InputError) as caught:
        scores_of(lines, encoding)
    assert str(caught.value).startswith(f"file 'a.csv': line {caught.value.line}: a quote begins an entry there that ")
    assert "5'10" not in str(caught.value)
    assert caught.value.file == "a.csv"
    return caught.value


def test_a_quote_that_does_not_end_or_ends_where_another_entry_begins_is_refused_with_its_line(folder: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "windows-1252"):
        refused = refusal(rows(1000, r1="Größe", r100="\"height 5'10"), encoding)
        assert (refused.line, "does not end" in str(refused)) == (101, True)
    refused = refusal(rows(1000, r100="\"height 5'10", r900='"tall, well"'))
    assert (refused.line, "over 801 lines, with text behind" in str(refused)) == (101, True)


@pytest.mark.parametrize("last", [101, 102, 900])
@pytest.mark.parametrize("note", [2, 0], ids=["behind the score", "before the score"])
def test_rows_between_two_stray_quotes_are_refused(folder: Path, last: int, note: int) -> None:
    """To every reader of CSV this is one long note, in a file that is in order."""
    lines = rows(1000, **{"r100": "\"height 5'10", f"r{last}": "height 6'1\""})
    cells = [line.split(",") for line in lines]
    lines = [",".join([*cell[2 - note : 2], cell[2], *cell[: 2 - note], cell[3]]) for cell in cells]
    assert len(list(csv.reader(io.StringIO("\n".join(lines)), strict=True))) == 1001 - (last - 100)
    refused = refusal(lines)
    assert (refused.line, f"over {last - 99:,} lines, which look like rows" in str(refused)) == (101, True)


def test_quotes_within_entries_and_notes_of_several_lines_are_read(folder: Path) -> None:
    lines = rows(
        2000,
        r1="6'1\"",
        r2='a "b" c',
        r3='""',
        r4='"say ""A, B"""',
        r5='"two\nlines, and, more"',
        r6='"a list:\n1, 2, 3\n4, 5, 6\n\nand ""more"""',
        r7='"Fever\n1, high, more"',
        r8='""""',
        r9='"x" y',
        r10='"\n"',
        r2000='"end\n"',
    )
    assert scores_of(lines) == [k % 10 / 10 for k in range(1, 2001)]
    assert scores_of([*lines, '1,0.5,well,"north"']) == [*(k % 10 / 10 for k in range(1, 2001)), 0.5]


@pytest.mark.parametrize("block", [1500, 1501, 1502, 1503, 4096])
def test_where_the_readers_blocks_end_is_no_matter(folder: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK", block)
    monkeypatch.setattr(csv_files, "_SMALL", block // 3)
    notes = ['"say ""A, B"""', '"a\nb"', "6'1\"", '""', '"c, d"', "well", '"\n\n"']
    random = np.random.default_rng(1)
    for every in (notes, ['"c, d"', '""', '""""']):  # these are the ones without lines, that are checked all at once
        lines = rows(600, **{f"r{k}": every[random.integers(len(every))] for k in range(1, 601)})
        assert scores_of(lines) == [k % 10 / 10 for k in range(1, 601)]
        quoted = [",".join(f'"{cell}"' for cell in line.split(",")) for line in rows(600)]
        assert scores_of(quoted) == [k % 10 / 10 for k in range(1, 601)]
        line = "\n".join([*lines, ""]).count("\n") + 1
        stray = rows(1, r1="\"height 5'10")[1]
        for after in (5, 500):  # the entry fits into a block, or does not
            assert refusal([*lines, stray, *rows(after)[1:]]).line == line


@pytest.mark.parametrize("end", range(1, 60))
def test_a_quote_within_an_entry_at_the_end_of_a_block_begins_none(end: int) -> None:
    text = b"y_true,height,note\r\n1,6'1\",\"well\r\n0,5'9,ill\r\n0,5'9,ill\r\n"
    quotes = Quotes(b",", 3, [0], float, 1000)
    with pytest.raises(QuoteError, match="that does not end") as caught:
        quotes.feed_all([text[:end], text[end:]])
    assert caught.value.offset == text.index(b'"well')
