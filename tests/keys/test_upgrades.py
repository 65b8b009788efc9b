"""An upgrade in the middle of a session: every role says who has to do what, and nothing is lost, nor sent twice."""

import re
from pathlib import Path

import pytest

from fhe_auc.base import serialise
from fhe_auc.base.errors import FheAucError, MessageError
from fhe_auc.machines import site_role
from fhe_auc.machines.aggregator_role import kind_of_error
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import Journal
from fhe_auc_keys.errors import VersionError
from tests.support.keys_commands import assert_fails, call, json_of, make_site, ok, open_as
from tests.support.keys_folder import NORTH, SESSION
from tests.support.stored_sites import Consortium

OLDER = "from an older fhe-auc than this, which reads 200 alone: whoever made it upgrades, .* again by its key holder"
NEWER = "from a newer fhe-auc than this, which reads 4 alone: upgrade fhe-auc on this machine"


def files(folder: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_site_or_an_aggregator_upgraded_in_mid_session_says_so_and_an_earlier_version_could_still_go_on(
    site_rows: list[PartyData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium = Consortium(site_rows, tmp_path / "c", "verified")
    first = next(iter(consortium.sites))
    with Journal(tmp_path / "journal") as journal:
        aggregator = consortium.aggregator()
        aggregator.journal = journal
        message = aggregator.start()
        sent = consortium.answer(first, message)
        aggregator.receive(first, sent)
    before = files(tmp_path)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(serialise, "FORMAT_VERSION", 200)
        for name in consortium.sites:  # whether it has answered or not
            with pytest.raises(MessageError, match=f"^fhe-auc message of format version 4, {OLDER}$"):
                consortium.answer(name, message)
        with pytest.raises(VersionError, match=f"/session: aggregator bundle of format version 4, {OLDER}$"):
            consortium.aggregator()
        shown = json_of("show", *consortium.options(first))["sessions"]
        assert [each["state"] for each in shown.values()] == ["of another version"]
    newer = message[:7] + b"\xc8" + message[8:]
    for name in consortium.sites:
        with pytest.raises(MessageError, match=NEWER):
            consortium.answer(name, newer)
    assert files(tmp_path) == before  # nothing is spent, so that all goes on from here
    with Journal(tmp_path / "journal") as journal:
        aggregator = consortium.aggregator()
        aggregator.journal = journal
        assert aggregator.start() == message
        assert consortium.answer(first, message) == sent


def test_another_version_is_the_one_kind_of_error_of_which_an_aggregator_is_told_what_to_do(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Consortium(site_rows, tmp_path / "c", "verified")
    first = next(iter(consortium.sites))
    message = consortium.aggregator().start()

    def answered(data: bytes) -> str:
        return site_role.attempt(lambda log: site_role.answer(consortium.made.sites[first], data, log=log))[1]

    assert answered(message[:-1]) == "MessageError"
    assert answered(message[:7] + b"\xc8" + message[8:]) == "VersionError"
    assert kind_of_error("VersionError: b'secret'").endswith("since the session was made: make a new session")
    assert site_storage().aggregator(consortium.made.aggregator).manifest.session == consortium.id


@pytest.mark.usefixtures("consortium")
def test_a_key_holder_upgraded_in_mid_session_says_so_keeps_what_it_holds_and_makes_a_new_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_site("east")
    asked = ("--protocol", "verified", "--thresholds", "uniform:8")
    session = json_of(*SESSION, "east/east.credential", *asked, "--out", "made")["session"]
    assert open_as("north", "made/north.bundle").exit_code == 0
    before = files(Path("north/store"))
    with monkeypatch.context() as upgraded:
        upgraded.setattr(serialise, "FORMAT_VERSION", 200)
        for command, what in (
            (
                (
                    "session",
                    "--from",
                    session,
                    "--without",
                    "east",
                    "--no-result-was-released",
                    *NORTH,
                    "--out",
                    "again",
                ),
                f"session {session} is not made again: session announcement",
            ),
            (("open", "week/north.bundle", "--holder", "north", *NORTH, "--study", "study.toml"), "party bundle"),
        ):
            assert_fails(call(*command), 1, f"{what} of format version 4, {OLDER}")
        assert files(Path("north/store")) == before
        shown = re.sub(r"\s+", " ", ok("show", *NORTH).stdout)
        assert "of another version of fhe-auc: it does not go on here" in shown
        assert "by another version of fhe-auc: `session` with its credentials makes a new one" in shown
        ok(*SESSION, "east/east.credential", *asked, "--out", "anew")
        ok("close", session, "--lose-result", *NORTH)
    with pytest.raises(FheAucError, match=NEWER):
        serialise.unmarked(b"fhebpar", Path("anew/north.bundle").read_bytes(), "party bundle")
