"""Tables as documents have them."""

from collections.abc import Iterable, Iterator, Sequence


def markdown(head: Sequence[object], body: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table that ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(head, body))


def show(head: Sequence[object], body: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, each line as soon as it is known, and an empty line."""
    for line in _lines(head, body):
        print(line, flush=True)
    print()


def _lines(head: Sequence[object], body: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(map(str, head))} |"
    yield "|" + "---|" * len(head)
    for cells in body:
        yield f"| {' | '.join(map(str, cells))} |"
