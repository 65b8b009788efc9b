"""Nights in which one store is put back to what it was, told step by step."""

import pytest

from fhe_auc_keys.store import budget
from tests.suite.consortium import ADDER, CASES, EPSILON, World
from tests.suite.test_told_nights import look

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
