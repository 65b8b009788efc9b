"""Tables as files and documents have them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path

from fhe_auc.base.files import write_atomically


def save_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Save these columns of the rows, whatever else they have; raise `OSError` where that fails."""
    text = StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def markdown(head: Sequence[object], body: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table that ends with a newline."""

    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(map(str, cells)) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, body)]) + "\n"
