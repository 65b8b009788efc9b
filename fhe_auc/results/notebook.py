"""An evaluation as HTML, for a notebook: plain tables, without scripts, colours or anything from elsewhere.

Names of models, groups and levels come from others, so every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fhe_auc.results.result_tables import TextTable

_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right; font-variant-numeric: tabular-nums"'


def html(headline: str, tables: Iterable[TextTable], lines: Iterable[str]) -> str:
    """Return a headline, tables, and a list of lines; none of these texts may be HTML, and none is taken for it."""
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return "".join(
        (
            f"<div><p><strong>{escape(headline)}</strong></p>",
            *(_table(table) for table in tables),
            f"<ul>{listed}</ul>" if listed else "",
            "</div>",
        )
    )


def _table(table: TextTable) -> str:
    return f"<table><thead>{_row('th', table.header, table)}</thead><tbody>{_body(table)}</tbody></table>"


def _body(table: TextTable) -> str:
    return "".join(_row("td", row, table) for row in table.rows)


def _row(tag: str, cells: tuple[str, ...], table: TextTable) -> str:
    last = len(cells) - 1
    return "<tr>{}</tr>".format(
        "".join(
            f"<{tag}{_RIGHT if table.words <= at < last else _LEFT}>{escape(text)}</{tag}>"
            for at, text in enumerate(cells)
        )
    )
