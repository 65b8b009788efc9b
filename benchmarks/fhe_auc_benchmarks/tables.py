"""Tables as documents have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(head: Sequence[object], body: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table that ends with a newline."""

    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(map(str, cells)) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, body)]) + "\n"
