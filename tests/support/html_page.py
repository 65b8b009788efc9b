"""A page of HTML as tests read it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags with attributes, and the texts between them; tags that are not closed are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    @property
    def words(self) -> str:
        """All texts as one, with single blanks."""
        return " ".join(" ".join(self.texts).split())
