"""No link in the documents is broken, every page can be reached from the index, and modules that pages name exist."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted(
    {
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        *ROOT.glob("[!.]*/README.md"),
        *(ROOT / "docs").rglob("*.md"),
    }
)
MAPS = [ROOT / folder / "README.md" for folder in ("fhe_auc", "keys", "protocols", "benchmarks")]
PROMISES = ROOT / "docs" / "security" / "promises.md"
FOLDERS = ("fhe_auc", "keys", "protocols", "benchmarks", "tests", "examples")
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_OTHER_SITE = re.compile(r"[a-z]+:")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> list[tuple[Path, str]]:
    """The files of this repository that a page links to, each with an anchor or ""."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))  # in code brackets are no links
    targets = [unquote(target) for target in _LINK.findall(text) if not _OTHER_SITE.match(target)]
    parted = [target.partition("#") for target in targets]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parted]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ +(.+?) *$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        found.append(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    repeated = {f"{anchor}-{number}" for anchor, times in Counter(found).items() for number in range(1, times)}
    return repeated.union(found)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for target, anchor in links(page):
        assert target.is_relative_to(ROOT), f"{target} is outside the repository"
        assert target.exists(), f"there is no {name(target)}"
        if anchor:
            assert anchor in anchors(target), f"{name(target)} has no heading #{anchor}"


def test_every_page_is_there_that_code_names_and_can_be_reached_from_the_index() -> None:
    naming = [ROOT / "CHANGELOG.md", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    named = {(name(path), page) for path in naming for page in _PAGE.findall(path.read_text(encoding="utf-8"))}
    assert named
    assert sorted(pair for pair in named if not (ROOT / pair[1]).exists()) == []
    reached, new = set(), {INDEX}
    while new:
        reached |= new
        new = {target for page in new for target, _ in links(page) if target.suffix == ".md" and target.exists()}
        new = {target for target in new if target.is_relative_to(INDEX.parent)} - reached
    assert {name(page) for page in PAGES if page.is_relative_to(INDEX.parent)} == {name(page) for page in reached}


@pytest.mark.parametrize("page", MAPS, ids=name)
def test_every_module_that_a_map_names_exists(page: Path) -> None:
    modules = {path.as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    named = re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert named
    assert [each for each in named if not any(path.endswith(f"/{each}") for path in modules)] == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *b* `c`: d\n## A\n## A\n[other](there.md#x) [here](#a) [web](https://example.org)\n"
        "`f[0](no.md)`\n```\n# no heading\n[no](no.md)\n```\n"
    )
    assert links(page) == [(tmp_path / "there.md", "x"), (page, "a")]
    assert anchors(page) == {"a-b-c-d", "a", "a-1"}


def test_every_line_of_a_promise_names_its_test_and_every_test_that_is_named_exists() -> None:
    text, path = PROMISES.read_text("utf-8"), ""
    for file, test in re.findall(r"`([\w/]*(?:\.py)?)::(test_\w+)`", text):
        path = file or path  # a second one of the same file
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), f"{path}::{test}"
    blocks = [block.splitlines() for block in text.split("\n\n") if "| shown by |" in block.partition("\n")[0]]
    rows = [row for block in blocks for row in block[2:]]
    assert len(rows) > 10
    assert [row for row in rows if "::test_" not in row.split("|")[-2]] == []
