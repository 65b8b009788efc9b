"""``fhe-auc members`` and ``join``: how a consortium is founded, who gets in, and what a bad exchange can do."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fhe_auc.base.files import read_toml
from fhe_auc.exchange.exchange import Folder
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import Vault, own_identity
from fhe_auc_keys.trust.join_request import comparison, link, request, requested, split_link
from fhe_auc_keys.trust.members import Change, Member, Members, countersign
from fhe_auc_keys.trust.published import Published
from fhe_auc_keys.trust.sealing import PrivateKeys
from tests.support.certified import NOW
from tests.support.command_line import call, told
from tests.support.keys_commands import Clock, settings
from tests.support.processes import wait_for


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    settings(monkeypatch, clock)
    monkeypatch.chdir(tmp_path)
    return clock


def ok(*arguments: str, said: str = "y\n") -> dict[str, Any]:
    return told(*arguments, input=said)


def refused(why: str, *arguments: str, said: str = "y\n") -> None:
    result = call(*arguments, input=said)
    assert result.exit_code in (1, 2)
    assert re.search(why, " ".join(result.stderr.split())), result.output


def founded(exchange: str = "exchange", name: str = "north") -> str:
    return str(ok("members", "new", exchange, name, "--no-start")["link"])


def join(where: str, name: str, *more: str) -> dict[str, Any]:
    return ok("join", where, name, "--no-start", *more)


def known(name: str) -> Members:
    """Whom somebody knows now, after a look at the exchange."""
    ok("members", "show", f"{name}/config.toml")
    with Vault(Path(name, "store"), Path(name, "passphrase")).open() as store:
        return known_members.stored(store)


def compared_in(result: Result) -> list[str]:
    return re.findall(r"\b[a-z2-7]{4}(?: [a-z2-7]{4}){3}\b", result.stderr)


def test_who_is_let_in_has_compared_the_same_characters_as_the_coordinator() -> None:
    where = founded()
    asked = call("join", where, "south", "--no-start", input="y\n")
    assert asked.exit_code == 0
    assert known("south").by_name.keys() == {"north"}
    admit = ("members", "admit", "north/config.toml", "--compared")  # as scripts do
    refused("'south' has read out something else than", *admit, "abcd " * 4, said="")
    admitted = call("members", "admit", "north/config.toml", input="y\n")
    assert admitted.exit_code == 0
    line = requested(Path("exchange/south/request").read_bytes())
    shown = comparison(split_link(where)[1], line)
    assert compared_in(asked) == compared_in(admitted) == [shown]
    assert known("north").by_name.keys() == known("south").by_name.keys() == {"north", "south"}
    assert join(where, "south", "--compared", shown.upper().replace(" ", ""))["member"]  # done again, it says so
    refused("'south' is 'south''s: give another --folder", "join", where, "east", "--no-start", "--folder", "south")


def test_what_join_writes_is_all_that_a_role_needs_but_where_the_rows_are() -> None:
    where = founded()
    join(where, "south", "--data", "rows.csv")
    join(where, "adder", "--role", "aggregator")
    here = str(Path().absolute())
    site = read_toml(Path("south/config.toml"), dict[str, Any], "configuration")
    assert site == {
        "role": "site",
        "exchange": f"{here}/exchange",
        **{name: f"{here}/south/{name}" for name in ("store", "state", "results")},
        "passphrase-file": f"{here}/south/passphrase",
        "data": f"{here}/rows.csv",
    }
    assert {path.stat().st_mode & 0o077 for path in (Path("south"), *Path("south").rglob("*"))} == {0}
    assert read_toml(Path("adder/config.toml"), dict[str, Any], "configuration").keys() == {
        *("role", "exchange", "store", "state", "passphrase-file")
    }
    Path("south/config.toml").write_text("role = 'site' # mine")
    join(where, "south")
    assert Path("south/config.toml").read_text() == "role = 'site' # mine"


@pytest.mark.parametrize("said", ["n\n", "\n", ""])
def test_nothing_is_trusted_or_let_in_unless_somebody_has_compared(said: str) -> None:
    where = founded()
    why = "not confirmed|nobody is there to compare: give --compared"
    refused(why, "join", where, "south", "--no-start", said=said)
    with Vault(Path("south/store"), Path("south/passphrase")).open() as store:
        assert known_members.known(store) is None
    assert not Path("south/config.toml").exists()
    join(where, "south")
    refused("not confirmed|nobody is there", "members", "admit", "north/config.toml", said=said)
    assert known("north").version == 1


def test_a_study_that_came_with_the_link_is_shown_and_agreed_to_by_who_takes_part_in_it() -> None:
    where, study = founded(), Path("study.toml")
    asked = 'model = "net 2"\noutcome = "o"\ncohort = "c"\nperiod = "p"\nsites = ["north", "south"]\n'
    study.write_text(f'{asked}maker = "north"\naggregator = "adder"\nthresholds = "uniform:16"\n')
    more = ("--study", "study.toml")
    refused("'west' takes no part in the study", "join", where, "west", "--no-start", *more)
    refused("the study is not agreed to", "join", where, "south", "--no-start", *more, said="y\nn\n")
    refused("nobody is there to agree", "join", where, "south", "--no-start", *more, said="y\n")
    assert not Path("south/config.toml").exists()
    shown = call("join", where, "south", "--no-start", *more, input="y\ny\n")
    assert (shown.exit_code, "net 2" in shown.stderr) == (0, True)
    (agreed,) = ok("pending", "south/config.toml")["agreed"].values()
    assert (agreed["study"]["model"], agreed["last"]) == ("net 2", {})
    study.write_text(asked)  # nobody makes it, nobody adds up
    refused("study.toml", "join", where, "south", "--no-start", *more, said="y\ny\n")


def test_who_sits_in_the_middle_shows_each_side_other_characters() -> None:
    """The site is given another consortium's link, and the coordinator another site's request."""
    where, theirs = founded(), founded("theirs", "mallory")
    site = call("join", theirs, "south", "--no-start", input="y\n")
    forged = Member.of("south", PrivateKeys.generate())
    Path("exchange", "south").mkdir()
    Path("exchange/south/request").write_bytes(request(forged))
    coordinator = call("members", "admit", "north/config.toml", input="n\n")
    assert coordinator.exit_code == 1
    assert compared_in(site) != compared_in(coordinator)
    # Nor does the same request in two consortia, or two requests in one.
    Path("exchange/south/request").write_bytes(Path("theirs/south/request").read_bytes())
    again = call("members", "admit", "north/config.toml", input="n\n")
    assert len({*compared_in(site), *compared_in(coordinator), *compared_in(again)}) == 3
    assert where != theirs


def test_a_link_that_is_changed_or_an_exchange_of_another_consortium_is_refused() -> None:
    where = founded()
    place, root = split_link(where)
    refused("not the first members' file that the link names", "join", link(place, bytes(20)), "south", "--no-start")
    refused("copy it whole", "join", where[:-1], "south", "--no-start")
    Path("empty").mkdir()
    refused("no members' file in .*is that the exchange", "join", link("empty", root), "south", "--no-start")
    refused("there is no folder .*nowhere", "join", link("nowhere", root), "south", "--no-start")
    refused("there is a consortium in .* already", "members", "new", "exchange", "west", "--no-start")
    assert ok("members", "new", "exchange", "north", "--no-start")["link"] == where  # done again


def test_requests_in_anothers_place_or_of_no_use_are_passed_over() -> None:
    where = founded()
    join(where, "south")
    for place, data in (
        ("west", Path("exchange/south/request").read_bytes()),
        ("east", b"anything"),
        ("long", b"x" * 10**6),
        ("odd\x1b[2J", b"fhejoin"),
    ):
        Path("exchange", place).mkdir()
        Path("exchange", place, "request").write_bytes(data)
    result = call("members", "show", "north/config.toml", "--json")
    assert json.loads(result.stdout)["waiting"] == ["south"]
    assert "\x1b" not in result.output
    assert result.stderr.count("is passed over") == 3
    refused("'west' has not asked to be let in; those who have: south", "members", "admit", "north/config.toml", "west")


def test_two_of_three_coordinators_sign_and_one_change_waits_at_a_time() -> None:
    where = founded()
    for name in ("south", "west", "east"):
        join(where, name)
    ok("members", "admit", "north/config.toml", "south", "west", said="y\ny\n")
    three = [word for name in ("north", "south", "west") for word in ("--coordinator", name)]
    assert not ok("members", "renew", "north/config.toml", *three, "--signatures", "2")["signed"]
    assert known("north").version == 2
    assert ok("members", "sign", "south/config.toml", "--yes")["signed"]
    admitted = ok("members", "admit", "north/config.toml", "east")
    assert (admitted["version"], admitted["signed"], known("west").version) == (4, False, 3)
    refused("version 4 of the members' file waits for signatures", "members", "remove", "north/config.toml", "south")
    result = call("members", "sign", "west/config.toml", input="n\n")
    assert result.exit_code == 1
    assert "east: comes in" in result.stderr
    assert "nothing was signed" in result.stderr
    refused("'east' is no member|is no coordinator", "members", "sign", "east/config.toml")
    assert ok("members", "sign", "west/config.toml")["signed"]
    assert known("east").by_name.keys() == {"north", "south", "west", "east"}
    assert call("members", "show", "north/config.toml").stderr == ""  # its copy lacked a signature, and has it now
    (complete,) = {path.read_bytes() for path in Path("exchange").glob("*/members/4.json")}
    assert complete == Path("exchange/north/members/4.json").read_bytes()
    refused("no members' file waits", "members", "sign", "south/config.toml")


def test_who_hands_over_leaves_the_signed_file_where_others_look_for_it() -> None:
    where = founded()
    join(where, "south")
    ok("members", "admit", "north/config.toml")
    before = known("south")
    assert not ok("members", "renew", "north/config.toml", "--coordinator", "south")["signed"]
    assert ok("members", "sign", "south/config.toml")["signed"]
    for _ in range(2):  # by the copy of north, which names south; and by its own
        found = Published(Folder(Path("exchange").absolute())).newest(before)
        assert (found.version, found.coordinators) == (3, ("south",))
        assert known("north").version == 3
        shutil.rmtree("exchange/south", ignore_errors=True)


def test_who_left_is_out_at_everybody_and_comes_back_with_new_keys_alone_after_a_theft() -> None:
    where = founded()
    join(where, "south")
    join(where, "west")
    ok("members", "admit", "north/config.toml", said="y\ny\n")
    ok("members", "remove", "north/config.toml", "south", "--stolen")
    assert known("west").by_name.keys() == {"north", "west"}
    refused("'soth' is no member", "members", "remove", "north/config.toml", "soth")
    refused("were stolen once: new keys are needed", "members", "admit", "north/config.toml", "south")
    shutil.rmtree("south")
    join(where, "south")
    ok("members", "admit", "north/config.toml", "south")
    assert known("west").by_name.keys() == {"north", "west", "south"}


def test_an_exchange_that_withholds_or_replaces_members_files_puts_nobody_back() -> None:
    where = founded()
    join(where, "south")
    ok("members", "admit", "north/config.toml")
    ok("members", "remove", "north/config.toml", "south")
    assert known("north").version == 3
    files = Path("exchange/north/members")
    assert known("south").version == 3
    (files / "4.json").write_bytes((files / "2.json").read_bytes())  # an older one under the next one's name
    shown = call("members", "show", "south/config.toml")
    assert "4.json: version 2 of the members' file is not the next one after 3" in " ".join(shown.stderr.split())
    (files / "4.json").unlink()
    (files / "3.json").unlink()
    assert known("south").version == 3  # what was seen is kept
    join(where, "south")  # done again, it is, too
    assert known("south").version == 3
    assert known("south").by_name.keys() == {"north"}
    other = founded("elsewhere", "east")
    refused("'north/store' is of another consortium", "join", other, "north", "--no-start")
    assert known("north").version == 3


@pytest.mark.parametrize("command", [("members", "show"), ("serve", "--once")])
def test_a_coordinator_puts_back_what_others_delete_or_change_in_its_place(command: tuple[str, ...]) -> None:
    where = founded()
    join(where, "south")
    ok("members", "admit", "north/config.toml")
    ok("members", "remove", "north/config.toml", "south")
    files = Path("exchange/north/members")
    genuine = {path.name: path.read_bytes() for path in files.iterdir()}
    assert len(genuine) == 3
    (files / "1.json").write_bytes(genuine["2.json"])
    (files / "2.json").write_bytes(b"rubbish")
    (files / "3.json").unlink()
    shown = call(*command, "north/config.toml").output
    assert {path.name: path.read_bytes() for path in files.iterdir()} == genuine
    named = [f"north/members/{number}.json was changed, and is put back" in shown for number in (1, 2, 3)]
    assert named == [True, True, False]


def test_rubbish_in_place_of_the_next_file_is_named_and_stops_no_command() -> None:
    where = founded()
    join(where, "south")
    rubbish = Path("exchange/north/members/2.json")
    for data in (b"rubbish", b"", b"x" * (2**25 + 1), Path("exchange/north/members/1.json").read_bytes()):
        rubbish.write_bytes(data)
        shown = call("members", "show", "north/config.toml")
        assert (shown.exit_code, "north/members/2.json" in shown.stderr) == (0, True)
    rubbish.unlink()
    rubbish.mkdir()
    assert call("members", "show", "north/config.toml").exit_code == 0
    rubbish.rmdir()
    rubbish.write_bytes(b"rubbish")
    assert ok("members", "admit", "north/config.toml")["signed"]
    assert known("south").by_name.keys() == {"north", "south"}


def two_coordinators() -> None:
    """North and south, each of whom may change who is in alone; west and east wait."""
    where = founded()
    for name in ("south", "west", "east"):
        join(where, name)
    ok("members", "admit", "north/config.toml", "south")
    ok("members", "renew", "north/config.toml", "--coordinator", "north", "--coordinator", "south")
    assert known("south").coordinators == ("north", "south")


def test_two_coordinators_who_change_the_file_at_the_same_moment_are_both_seen_and_a_next_version_settles_it() -> None:
    two_coordinators()
    before = Path("before")
    shutil.copytree("exchange", before)
    ok("members", "admit", "north/config.toml", "west")
    Path("exchange").rename("north's")
    before.rename("exchange")  # as south sees it, who is a moment late
    ok("members", "admit", "south/config.toml", "east")
    shutil.copytree("north's", "exchange", dirs_exist_ok=True)
    for name, file in (("north", "south/members/4"), ("south", "north/members/4")):
        shown = " ".join(call("members", "show", f"{name}/config.toml").stderr.split())
        assert f"{file}.json: several coordinators have signed a version 4 of the members' file" in shown
        assert known(name).version == 4
    shown = " ".join(call("members", "show", "west/config.toml").stderr.split())
    assert "north/members/4.json and south/members/4.json: several coordinators" in shown
    assert known("west").version == 3  # neither is taken
    assert ok("members", "admit", "north/config.toml", "east")["version"] == 5
    for name in ("north", "south", "west", "east"):
        assert call("members", "show", f"{name}/config.toml").stderr == ""
        assert (known(name).version, len(known(name).by_name)) == (5, 4)


def test_who_comes_second_takes_its_own_back_and_is_told_to_do_it_again(tmp_path: Path) -> None:
    two_coordinators()
    kept, late = known("south"), tmp_path / "late"
    shutil.copytree("exchange", late)
    ok("members", "admit", "north/config.toml", "west")
    data = Path("exchange/north/members/4.json").read_bytes()

    class Late(Folder):
        """Shows north's change once south has written."""

        def put(self, name: str, data_of_south: bytes) -> None:
            super().put(name, data_of_south)
            super().put("north/members/4.json", data)

    with Vault(Path("south/store"), Path("south/passphrase")).open() as store:
        keys = own_identity(store).keys
    own = countersign(kept.next_version(Change(remove=["north"], coordinators=["south"]), days=9, at=NOW), keys)
    for exchange in (Late(late), Folder(late)):  # at that moment, and afterwards
        with pytest.raises(KeysError, match=r"north/members/4.json: another coordinator .* run the command again"):
            Published(exchange).publish(kept, own, "south")
        assert not (late / "south/members/4.json").exists()


def test_a_coordinator_renews_a_file_that_has_ended_and_nobody_else_changes_it(folder: Clock) -> None:
    where = founded()
    folder.at += (known("north").ends - NOW) * 1.001
    renewed = ok("members", "renew", "north/config.toml", "--days", "30")
    assert (renewed["version"], renewed["signed"]) == (2, True)
    assert known("north").ends > folder.at
    refused("invalid value for '--days'", "members", "renew", "north/config.toml", "--days", "399")
    join(where, "south")
    ok("members", "admit", "north/config.toml")
    for change in (("renew",), ("remove", "north")):
        command, *more = change
        refused("'south' is no coordinator: north may|cannot sign", "members", command, "south/config.toml", *more)
    assert not Path("exchange/south/members").exists()
    assert not Path("exchange/north/members/4.json").exists()
    assert ok("members", "renew", "north/config.toml")["signed"]


def test_without_systemd_a_role_serves_where_it_was_made() -> None:
    path = {**os.environ, "PATH": "/nowhere"}
    program = [sys.executable, "-c", "from fhe_auc.cli import main; main()", "members", "new", "exchange", "north"]
    with subprocess.Popen(program, env=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(Path("north/state/status.json").exists, 60.0)
        finally:
            process.send_signal(signal.SIGTERM)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "this command serves" in " ".join(shown.split())
