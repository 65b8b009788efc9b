"""What carries files between exchanges: nobody gets past its places, names and sizes, and nothing is lost for good.

Attacks first. The letters of a server that lies are made by hand.
"""

import itertools
import os
from pathlib import Path

import pytest

from fhe_auc.base.errors import DeserialisationError, MessageError
from fhe_auc.base.serialise import frame
from fhe_auc.exchange.exchange import Folder
from fhe_auc.machines import postman
from fhe_auc.machines.postman import Hub, Letter, Postman, answer


def lie(
    known: dict[str, bytes] | None = None, files: dict[str, bytes] | None = None, gone: list[str] | None = None
) -> bytes:
    return frame(postman._MAGIC, Letter("", known or {}, files or {}, gone or []))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def north(tmp_path: Path) -> Path:
    """A site's exchange, beside a file that is nobody's business."""
    (tmp_path / "rows.csv").write_bytes(b"1,0.75")
    (tmp_path / "north" / "north").mkdir(parents=True)
    (tmp_path / "north" / "north" / "request").write_bytes(b"sealed")
    return tmp_path / "north"


BAD_NAMES = (
    "../rows.csv", "south/../../rows.csv", "/etc/passwd", "south/./x", "south//x", "south/", "/south", "x", "",
    "south/.x", "south/.tmp-0123", "south/x\n", "south/x\0", "south\\..\\x", "south/C:x", "south/ä", "south/x.",
    "south/x ", " south/x", "a/b/c/d", "south/" + "x" * 256,
)  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_lead_elsewhere_is_refused_with_the_whole_letter(name: str, north: Path) -> None:
    before = files_in(north.parent)
    for letter in (lie(files={"south/good": b"", name: b""}), lie(gone=[name]), lie(known={name: b""})):
        with pytest.raises(MessageError, match="is no name of a file in an exchange"):
            answer(Folder(north), "north", letter)
    assert files_in(north.parent) == before


@pytest.mark.parametrize("place", ["north", "North", "NORTH"])  # one folder, where file systems ignore case
def test_a_server_puts_and_removes_nothing_in_the_site_s_own_place(place: str, north: Path) -> None:
    before = files_in(north.parent)
    for letter in (lie(files={"south/good": b"", f"{place}/request": b""}), lie(gone=[f"{place}/request"])):
        with pytest.raises(MessageError, match="is not for the other side to bring"):
            answer(Folder(north), "north", letter)
    assert files_in(north.parent) == before


def test_a_link_that_lies_in_the_exchange_leads_nowhere(north: Path) -> None:
    (north / "south").symlink_to(north.parent)
    (north / "north" / "rows").symlink_to(north.parent / "rows.csv")
    told = Postman(Folder(north)).open(answer(Folder(north), "north", lie()))
    assert told.files == {"north/request": b"sealed"}
    with pytest.raises((OSError, ValueError)):
        answer(Folder(north), "north", lie(files={"south/rows.csv": b"others"}))
    assert (north.parent / "rows.csv").read_bytes() == b"1,0.75"


def test_what_a_side_may_put_is_bounded_in_number_and_size_with_what_it_has_put_before(
    north: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postman, "_MOST_NAMES", 3)
    monkeypatch.setattr(postman, "_MOST_BYTES", 100)
    answer(Folder(north), "north", lie(files={"south/a": b"1" * 40, "west/b": b"2" * 40}))
    answer(Folder(north), "north", lie(files={"west/b": b"3" * 60}))  # in place of the other
    before = files_in(north)
    for letter in (lie(files={"c/c": b"", "d/d": b""}), lie(files={"c/c": b"1"})):
        with pytest.raises(MessageError, match="more than 3 files, or 100 bytes of them"):
            answer(Folder(north), "north", letter)
    assert files_in(north) == before


def test_a_letter_that_is_damaged_or_none_is_refused(north: Path) -> None:
    letter = lie(files={"south/a": b"1"})
    for wrong in (b"", b"x", letter[:-1], letter[:40] + b"\xff" + letter[41:], letter[:7] + b"\xc8" + letter[8:]):
        with pytest.raises(DeserialisationError):
            answer(Folder(north), "north", wrong)


def test_a_letter_holds_nothing_but_what_lies_in_the_site_s_place(north: Path) -> None:
    """Whatever a server claims to have, or not to have."""
    answer(Folder(north), "north", lie(files={"south/a": b"of south"}))
    for known in ({}, {"rows/csv": b"", "north/request": b"", "south/a": b"", "north/none": b""}):
        told = Postman(Folder(north)).open(answer(Folder(north), "north", lie(known)))
        assert told.files == {"north/request": b"sealed"}
        assert set(told.known) == {"south/a"}
        assert set(told.gone) <= {"north/none"}


class Mail:
    """A hub and sites, each with an exchange, and letters that arrive, or do not."""

    def __init__(self, folder: Path, *names: str, by_claim: bool = False) -> None:
        self.at = {name: folder / name for name in ("server", *names)}
        for path in self.at.values():
            path.mkdir()
        known = {f"{name}'s node": name for name in names}
        self.hub = Hub(Folder(self.at["server"]), {} if by_claim else known, 0.0)
        self.site_of = known

    def put(self, at: str, name: str, data: bytes) -> None:
        Folder(self.at[at]).put(name, data)

    def go(self, lost: str = "") -> int:
        """Exchange letters once; the answer of one is lost. Return how many letters there were."""
        letters = self.hub.letters(list(self.site_of))
        for node, letter in letters.items():
            name = self.site_of[node]
            told = answer(Folder(self.at[name]), name, letter)
            if name == lost:
                self.hub.failed(node, "lost")
            else:
                self.hub.take(node, told)
        return len(letters)


@pytest.mark.parametrize("by_claim", [False, True])
def test_every_exchange_ends_with_the_same_files_though_answers_are_lost(tmp_path: Path, *, by_claim: bool) -> None:
    mail = Mail(tmp_path, "north", "south", "west", by_claim=by_claim)
    right = {"server/request": b"server's"}
    mail.put("server", "server/request", b"server's")
    for name in ("north", "south", "west"):
        mail.put(name, f"{name}/request", name.encode())
        right[f"{name}/request"] = name.encode()
    mail.put("north", "north/members/1.json", b"{}")
    right["north/members/1.json"] = b"{}"
    for lost in ("south", "", "north", "", "", ""):
        mail.go(lost)
    assert {name: files_in(path) for name, path in mail.at.items()} == dict.fromkeys(mail.at, right)
    mail.put("west", "west/request", b"changed")
    (mail.at["north"] / "north" / "request").unlink()
    right["west/request"] = b"changed"
    del right["north/request"]
    for lost in ("", "west", "", ""):
        mail.go(lost)
    assert {name: files_in(path) for name, path in mail.at.items()} == dict.fromkeys(mail.at, right)


def test_a_site_brings_its_own_files_alone_and_another_s_name_is_taken_once(tmp_path: Path) -> None:
    mail = Mail(tmp_path, "north", "south")
    mail.put("south", "north/request", b"forged")
    mail.put("south", "north/members/1.json", b"forged")
    mail.put("south", "south/request", b"south's")
    for _ in range(4):
        mail.go()
    assert files_in(mail.at["server"]) == {"south/request": b"south's"}
    for forged in (lie(files={"north/request": b"forged"}), lie(gone=["north/x"]), b"junk"):
        mail.hub.take("south's node", forged)
    assert files_in(mail.at["server"]) == {"south/request": b"south's"}
    (tmp_path / "again").mkdir()
    open_to_all = Hub(Folder(tmp_path / "again"), {}, 0.0)
    claims = ("north", "north", "North", "Köln")
    open_to_all.letters(claims := {f"{number}": name for number, name in enumerate(claims)})
    for node, name in claims.items():
        for place in ("north", "K=C3=B6ln"):
            file = f"{place}/request"
            open_to_all.take(node, frame(postman._MAGIC, Letter(name, {}, {file: node.encode()}, [])))
    assert files_in(tmp_path / "again") == {"north/request": b"0", "K=C3=B6ln/request": b"3"}


def test_what_cannot_be_read_for_now_is_neither_carried_nor_gone_elsewhere(tmp_path: Path) -> None:
    mail = Mail(tmp_path, "north", "south")
    for name in ("kept", "closed"):
        mail.put("north", f"north/{name}", name.encode())
    for _ in range(3):
        mail.go()
    closed = mail.at["north"] / "north" / "closed"
    closed.unlink()
    os.mkfifo(closed)
    mail.put("north", "north/new", b"new")
    for _ in range(3):
        mail.go()
    assert {*files_in(mail.at["south"])} == {"north/kept", "north/closed", "north/new"}


def test_a_hub_whose_exchange_is_away_says_so_once_and_goes_on_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mail = Mail(tmp_path, "north", "south")
    mail.put("north", "north/request", b"1")
    mail.at["server"].rename(tmp_path / "elsewhere")
    assert [mail.go() for _ in range(3)] == [0, 0, 0]
    assert len([record for record in caplog.records if "there is no folder" in record.getMessage()]) == 1
    (tmp_path / "elsewhere").rename(mail.at["server"])
    for _ in range(3):
        mail.go()
    assert files_in(mail.at["south"]) == {"north/request": b"1"}


def test_what_others_say_to_the_server_or_are_sealed_does_not_go_to_a_site(tmp_path: Path) -> None:
    mail = Mail(tmp_path, "north", "south")
    mail.put("north", "north/5e/session", b"")
    mail.put("north", "north/5e/south.bundle", b"")
    mail.put("north", "north/5e/aggregator.bundle", b"")
    mail.put("south", "south/5e/round-1.submission", b"")
    mail.put("server", "server/5e/round-1.message", b"")
    for _ in range(4):
        mail.go()
    everything = {*files_in(mail.at["server"])}
    assert len(everything) == 5
    assert everything - {*files_in(mail.at["south"])} == {"north/5e/aggregator.bundle"}
    assert everything - {*files_in(mail.at["north"])} == {"south/5e/round-1.submission"}


def test_what_is_long_comes_in_several_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postman, "_LETTER", 100)
    mail = Mail(tmp_path, "north", "south")
    for number in range(5):
        mail.put("north", f"north/session/{number}", os.urandom(60))
    mail.put("north", "north/session/5", os.urandom(500))
    lengths = []
    for _ in range(20):
        mail.go()
        lengths.append(len(files_in(mail.at["south"])))
    assert lengths[-1] == 6
    assert {after - before for before, after in itertools.pairwise(lengths)} <= {0, 1}


def test_an_idle_hub_asks_rarely_and_at_once_where_something_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(postman.time, "monotonic", lambda: now[0])
    mail = Mail(tmp_path, "north", "south")
    mail.hub._every = 60.0
    asked = 0
    for second in range(3600):
        now[0] = float(second)
        asked += mail.go()
    assert 2 * 60 <= asked <= 2 * 75
    mail.put("server", "server/news", b"1")
    assert mail.go() == 2
    assert files_in(mail.at["south"]) == {"server/news": b"1"}
    now[0] += 0.1
    assert mail.go() == 0
    mail.hub.failed("north's node", "away")
    mail.put("server", "server/news", b"2")
    now[0] += 1
    assert mail.go() == 1  # who has failed is written to later


def test_a_site_s_role_is_given_a_while_to_answer_what_has_come_and_no_longer(
    north: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            Folder(north).put("north/answer", b"sealed")

    now = [0.0]
    monkeypatch.setattr(postman.time, "sleep", sleep)
    monkeypatch.setattr(postman.time, "monotonic", lambda: now[0] + sum(slept))
    known = {"north/request": Postman(Folder(north))}
    known["north/request"].look()
    here = known["north/request"].files
    told = Postman(Folder(north)).open(answer(Folder(north), "north", lie(here, {"south/a": b"1"}), wait=10.0))
    assert (told.files, len(slept)) == ({"north/answer": b"sealed"}, 3)
    slept.clear()
    answer(Folder(north), "north", lie(here | told.known, {}), wait=10.0)
    assert not slept
