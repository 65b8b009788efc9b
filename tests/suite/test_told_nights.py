"""Nights that are told step by step: what people see of what happens."""

import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import FORMAT_VERSION, KeptFormat
from fhe_auc.machines.serve import METRICS
from fhe_auc_keys.site import making, policy
from fhe_auc_keys.store import budget
from tests.suite.consortium import ADDER, CASES, EPSILON, SITES, World


@pytest.fixture
def world():
    with World(CASES[-1], 0) as world:
        world.make_night()
        yield world


def look(world, *names, times=1):
    for _ in range(times):
        world.physics.passed += 7
        for name in names or world.roles:
            world.look(name)
            world.check(name)


@pytest.mark.parametrize("how", ["lose", "cut", "flip", "version"])
def test_a_site_puts_back_what_it_has_said(world, how):
    name = world.nights[0].file("south", "round-1.submission")
    while name not in world.exchange.files:
        look(world, ADDER, "south")
    said = world.exchange.read(name)
    assert world.tamper(how, sorted(world.exchange.files).index(name), 60) == name
    look(world, ADDER, times=3)  # which has read that now
    look(world, "south", times=3)
    assert world.exchange.read(name) == said
    look(world, times=8)
    assert world.all_have_results
    assert world.counted(world.nights[0]) == SITES
    name = max(file for file in world.exchange.files if file.startswith("south/"))
    said = world.exchange.read(name)
    world.exchange.put(name, b"junk")  # once it is over: red for one look, and counted once
    world.physics.passed += 300
    for health in ("it was replaced by another, and is put back", "ok", "ok"):
        look(world, "south")
        assert world.status("south")["health"].endswith(health)
    assert (world.exchange.read(name), world.status("south")["replaced"]) == (said, 2)


def test_a_site_with_more_rows_than_its_cap_says_so_and_sends_nothing():
    with World(CASES[2], 0) as world:
        world.make_night()
        np.savez(world.folder / "south.npz", y_true=[0, 1] * 7, y_score=[0.5] * 14)
        look(world, ADDER, "south", times=3)
        assert "14 rows, more than its cap" in world.step("south", world.nights[0])
        assert world.nights[0].file("south", "round-1.submission") not in world.exchange.files


def test_a_message_of_another_session_is_named_and_this_one_goes_on(world):
    look(world, times=6)
    world.physics.passed += 86_400
    world.make_night()
    look(world, ADDER, times=2)
    world.exchange.put(
        world.nights[1].file(ADDER, "round-2.message"),
        world.exchange.read(world.nights[0].file(ADDER, "round-2.message")),
    )
    look(world, "south", times=2)
    assert "round-2.message: it is of session " + world.nights[0].session in world.step("south", world.nights[1])
    assert world.nights[1].file("south", "round-1.submission") in world.exchange.files


def test_an_aggregator_refuses_a_session_that_is_not_for_what_it_is_configured_for(world, monkeypatch):
    config = world.config(ADDER)
    monkeypatch.setattr(world, "config", lambda name: {**config, "min-parties": 3})
    look(world, ADDER, times=2)
    assert "goes on from 2 parties on, not from 3" in world.step(ADDER, world.nights[0])
    assert world.nights[0].file(ADDER, "round-1.message") not in world.exchange.files


def test_an_aggregator_that_has_lost_its_journal_says_nothing_anew(world):
    look(world, ADDER, times=3)
    said = world.exchange.read(world.nights[0].file(ADDER, "round-1.message"))
    world.back_up(ADDER)  # which buries it
    shutil.rmtree(world.journal(world.nights[0]))
    look(world, ADDER, times=3)
    assert "was not sent from the journal" in world.step(ADDER, world.nights[0])
    assert world.exchange.read(world.nights[0].file(ADDER, "round-1.message")) == said


def test_the_next_version_is_refused_with_a_cause_and_nothing_is_lost(world):
    look(world, ADDER, times=3)
    name = world.nights[0].file(ADDER, "round-1.message")
    genuine = world.exchange.read(name)
    world.exchange.put(name, genuine[:7] + bytes([FORMAT_VERSION + 1]) + genuine[8:])
    look(world, *SITES, times=2)
    for site in SITES:
        assert f"format version {FORMAT_VERSION + 1}" in world.step(site, world.nights[0])
    world.exchange.put(name, genuine)
    look(world, times=6)
    assert world.all_have_results


def test_a_submission_that_stays_half_is_told_by_the_aggregator(world):
    look(world, ADDER, "south", times=3)
    name = world.nights[0].file("south", "round-1.submission")
    whole = world.exchange.read(name)
    world.exchange.put(world.nights[0].file("north", "round-1.submission"), whole[:-1])
    look(world, ADDER)
    assert world.status(ADDER)["health"] == "ok"
    look(world, ADDER)
    assert "round-1.submission: it is not whole" in world.status(ADDER)["health"]
    look(world, times=6)
    assert world.all_have_results
    assert {world.status(role)["health"] for role in world.roles} == {"ok"}


def test_a_role_removes_its_files_once_a_session_is_over(world):
    look(world, times=6)
    assert world.exchange.files
    world.physics.passed += 6 * 86_400
    look(world, times=2)
    assert world.exchange.files
    world.physics.passed += 2 * 86_400
    look(world, times=2)
    assert not world.exchange.files


def test_a_maker_that_cannot_reach_the_exchange_says_so_and_goes_on(monkeypatch):
    """It would end at each start, for as long as that lasts, and answer nobody's session."""
    with World(CASES[-1], 0) as world:
        with world.store("north") as store:
            making.begin(store, world.case.study)
        look(world, "north")
        for error in (OSError(5, "away"), InputError("there are more than 10,000 files")):

            def fails(*_, error=error):
                raise error

            for name in ("list", "put"):
                with monkeypatch.context() as patch:
                    patch.setattr(world.exchange, name, fails)
                    world.exchange.files.clear()
                    look(world, "north")
                    found = {problem["rule"] for problem in world.status("north")["problems"]}
                    assert "repeat" in found
                    series = (world.folder / "north" / "state" / METRICS).read_text().splitlines()
                    names = [line.rpartition(" ")[0] for line in series if not line.startswith("#")]
                    assert len(names) == len(set(names))  # Prometheus would refuse all
            look(world, "north")
            assert world.status("north")["health"] == "ok"


def test_what_a_store_has_of_an_old_session_may_be_damaged_and_the_role_goes_on(world):
    look(world, times=6)
    world._bury("south")
    with sqlite3.connect(world.folder / "south" / "store" / "store.sqlite") as database:
        database.execute("update entry set data = ? where kind = 'bundle'", (bytes(60),))
    database.close()
    world.physics.passed += 86_400
    world.make_night()
    look(world, times=8)
    assert world.result("south", world.nights[1]) is not None


@pytest.mark.parametrize("name", ["report-for-the-board.json", f"20310501T120000Z-{'0' * 32}.json"])
def test_a_file_of_a_person_or_of_a_clock_that_was_ahead_is_no_last_result(world, monkeypatch, name):
    config = {**world.config("south"), "result-hours": 30}
    monkeypatch.setattr(world, "config", lambda role: config if role == "south" else World.config(world, role))
    look(world, times=6)
    (world.folder / "south" / "results" / name).write_text("{}")
    world._bury("south")
    for hours, health in ((29, "ok"), (2, "the last result is older than 30 hours")):
        world.physics.passed += hours * 3600
        world.look("south")
        assert world.status("south")["health"] == health
        assert world.status("south")["result"].startswith("2030-05-01")


# --- A store that is put back to what it was ------------------------------------------------------------------------


SHARED, SPENT = CASES[0], CASES[3]
QUICK = (SHARED, "store", 0), (SPENT, "", 2)
EVERY = [(case, what, before) for case in (SHARED, SPENT) for what in ("", "store") for before in (0, 2)]


@pytest.mark.parametrize(
    ("case", "what", "before"), [pytest.param(*each, marks=() if each in QUICK else pytest.mark.slow) for each in EVERY]
)
def test_a_restored_store_answers_nothing_twice_says_so_and_goes_on_with_new_sessions(case, what, before):
    """Else it would pad other rows with the same pad, and spend a budget that is spent.

    A machine is put back, or a store and its answers are hidden, to `before` it has opened the bundle or has answered.
    """
    with World(case, 0) as world:
        world.make_night()
        look(world, "south", times=before)
        world.back_up("south")
        said = world.nights[0].file("south", "round-1.submission")
        while said not in world.exchange.files:
            look(world, ADDER, "south")
        look(world, *set(world.roles) - {"south"}, times=3 * case.spends)  # the next round begins
        if what:
            world.exchange.remove(said)
        world.restore("south", what)
        world.new_rows("south")
        look(world, "south", times=2)
        assert "was put back to an older" in world.status("south")["health"], world.status("south")
        look(world, times=6)
        assert world.result("south", world.nights[0]) is None
        assert [each["rule"] for each in world.status("south")["problems"]] == ["restored"]
        world.physics.passed += 86_400
        world.make_night()
        world._bury("south")  # started again it sees its old answer again, and that tells nothing new
        look(world, times=12)
        if case.spends:  # somebody has to say what was spent
            assert "--reconcile" in world.step("south", world.nights[1])
            with world.store("south") as store:
                budget.set_limit(store, "rows", EPSILON)
                budget.reconcile(store, "Ada Osei")
            look(world, times=12)
        assert world.result("south", world.nights[1]) is not None
        assert world.status("south")["health"] == "ok"


@pytest.mark.parametrize("looks", [0, 1], ids=["made before it is noticed", "made afterwards"])
@pytest.mark.parametrize("what", ["", "store"], ids=["a machine", "a store"])
def test_a_restored_site_answers_no_second_session_of_a_turn(what, looks):
    """Two results of one turn would tell what has changed in between."""
    with World(CASES[-1], 0) as world:
        look(world)
        world.back_up("south")
        first = world.make_night()
        look(world, times=4)
        assert "south" in first.said
        world.restore("south", what)
        look(world, "south", times=looks)
        world.physics.passed += 36_000
        second = world.make_night()
        look(world, times=4)
        assert "south" not in second.said
        assert "was put back to an older one" in world.step("south", second)


# --- A made-up next version of what a store keeps -------------------------------------------------------------------


OLD = policy._BOOK.form
NEW = KeptFormat(
    OLD.magic, OLD.shape, OLD.what, version=OLD.version + 1, older={OLD.version: (OLD.shape, lambda value: value)}
)
REFUSED = f"record of agreed studies of format version {NEW.version}, from a newer fhe-auc than this"


def test_a_site_of_the_next_version_plays_with_others_and_its_store_is_refused_by_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World(CASES[-1], 0) as world:

        def night(*others: str, upgraded: bool) -> None:
            """Others are of this version, and south of the next one, or of this one again."""
            for _ in range(6):
                look(world, *others)
                with monkeypatch.context() as patch:
                    if upgraded:
                        patch.setattr(policy, "_BOOK", replace(policy._BOOK, form=NEW))
                    look(world, "south")

        others = [name for name in world.roles if name != "south"]
        first = world.make_night()
        night(*others, upgraded=True)
        assert world.all_have_results
        assert world.counted(first) == world.sites
        world.physics.passed += 86_400
        second = world.make_night()
        night("north", "adder", upgraded=False)
        assert REFUSED in world.status("south")["health"]
        assert "install the newer one here" in world.status("south")["health"]
        assert "south" not in second.said
        night(*others, upgraded=True)
        assert world.status("south")["health"] == "ok"
        assert world.counted(second) == world.sites
        assert world.all_have_results
