"""Whoever can see what is wrong says so by its second look, and by the first look after it is mended that all is well.

Each cause does something, and yields who can see it and by which rule of `fhe_auc.machines.health`; then it is mended.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from inspect import isgeneratorfunction

import pytest
from msgspec.structs import replace

from fhe_auc_keys.site import making
from fhe_auc_keys.trust.published import file_of
from tests.suite.consortium import ADDER, CASES, HELPER, ROWS, SITES, TIMEOUT, Night, World, certified
from tests.suite.nights import DAY
from tests.suite.test_told_nights import look

Cause = Callable[[World], Iterator[tuple[tuple[str, ...], str]]]


def ended(world: World, *agreeing: str) -> Night:
    """Another night, to which some have to agree first, until sites have its result."""
    world.physics.passed += DAY
    night = world.make_night()
    look(world, times=bool(agreeing))
    world.agree(night, *agreeing)
    for _ in range(12):
        if world.result("south", night) is not None:
            return night
        look(world)
    raise AssertionError([world.status(name) for name in world.roles])


def refused_at_the_key_holder(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    night = world.make_night(cohort="others")
    yield (HELPER,), "refused"
    world.agree(night, HELPER)


def not_counted(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    world.make_night()
    look(world, ADDER, "north", "south", times=3)
    world.physics.passed += TIMEOUT
    look(world, ADDER, "north", "south", times=2)  # until it has ended
    yield (ADDER,), "not counted"
    assert {problem["who"] for problem in world.status(ADDER)["problems"]} == {"west"}
    ended(world)


def replaced(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    before = ended(world)
    world.physics.passed += DAY
    night = world.make_night()
    look(world, ADDER)
    name = night.file(ADDER, "round-1.message")
    genuine = world.exchange.read(name)
    world.exchange.put(name, world.exchange.read(before.file(ADDER, "round-1.message")))
    yield (ADDER,), "replaced"
    assert world.exchange.read(name) == genuine


def message_that_cannot_be_put_back(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    name = world.make_night().file(ADDER, "round-1.message")
    look(world, ADDER)
    world.exchange.remove(name)
    put, world.exchange.put = world.exchange.put, raising  # type: ignore[method-assign]
    yield (ADDER,), "failed"
    world.exchange.put = put  # type: ignore[method-assign]
    look(world, ADDER)  # which finds it removed


def raising(name: str, data: bytes) -> None:
    raise OSError(5, "away")


def half(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    name = world.make_night().file(ADDER, "round-1.message")
    look(world, ADDER)
    whole = world.exchange.read(name)
    world.exchange.put(name, whole[:-1])
    yield SITES, "skipped"
    world.exchange.put(name, whole)


def site_a_day_ahead(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    world.make_night()
    world.physics.ahead["south"] = DAY
    look(world, ADDER, "south")
    yield (ADDER,), "clock"
    world.physics.ahead.clear()
    look(world, "north", "west", ADDER, *SITES)  # all say something again


def aggregator_a_day_ahead(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    world.make_night()
    world.physics.ahead[ADDER] = DAY
    look(world, ADDER)
    yield SITES, "clock"
    world.physics.ahead.clear()
    look(world, ADDER)  # which says something again


def aggregator_a_day_behind(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    world.make_night()
    world.physics.ahead[ADDER] = -DAY
    yield (ADDER,), "skipped"
    world.physics.ahead.clear()


def site_a_day_behind(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    world.make_night()
    world.physics.ahead["south"] = -DAY
    yield ("south",), "failed"
    world.physics.ahead.clear()


def repeat_that_failed(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    """The study needs a site that is no member yet."""
    study = world.case.study
    with world.store("north") as store:
        making.begin(store, replace(study, sites=(*SITES, "east"), min_parties=4))
    yield ("north",), "repeat"
    with world.store("north") as store:
        making.begin(store, study)


def row_caps_that_miss_sites(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    """They come with a study that names no sites, to which people have said yes."""
    night = world.make_night(sites=(), row_caps={"north": ROWS}, max_rows=0)
    look(world)
    world.agree(night, *SITES)
    yield SITES, "row caps"
    ended(world, *SITES)


def members_file_that_is_none(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    file = file_of("office", certified(SITES).members.version + 1)
    world.exchange.put(file, b"{}")
    look(world, times=9)  # until they ask who is a member
    yield (*SITES, ADDER), "members"
    assert "this is no members' file" in world.status("south")["health"]
    world.exchange.remove(file)


def members_file_that_ends_soon(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in world.roles:
        world.physics.ahead[name] = 336 * DAY
    look(world, times=9)
    yield (*SITES, ADDER), "members"
    assert "`fhe-auc members renew`" in world.status(ADDER)["health"]
    world.physics.ahead.clear()
    look(world, times=9)


def nothing_for_30_hours(world: World) -> Iterator[tuple[tuple[str, ...], str]]:
    """Whatever it is that is silent: nobody can see it before."""
    ended(world)
    look(world)
    world.physics.passed += timedelta(hours=29).total_seconds()
    look(world)
    assert {world.status(role)["health"] for role in world.roles} == {"ok"}
    world.physics.passed += timedelta(hours=1).total_seconds()
    yield world.roles, "old"
    ended(world)


CAUSES = [each for each in [*globals().values()] if isgeneratorfunction(each)]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_told_by_the_second_look_and_no_more_by_the_first_one_without_it(
    cause: Cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[2] if cause is refused_at_the_key_holder else CASES[-1]
    config = World.config
    monkeypatch.setattr(World, "config", lambda world, name: {**config(world, name), "result-hours": 30.0})
    with World(case, 0) as world:
        look(world)
        played = cause(world)
        roles, rule = next(played)

        def seen(name: str) -> bool:
            return rule in [problem["rule"] for problem in world.status(name)["problems"]]

        for name in roles:
            looks = 0
            while not seen(name):
                looks += 1
                assert looks <= 2, (name, world.status(name))
                world.look(name)
        next(played, None)
        for name in roles:
            world.look(name)
            assert world.status(name)["health"] == "ok"
        if cause not in (refused_at_the_key_holder, repeat_that_failed):  # in which people, and north, go on
            look(world, times=8)
            assert world.all_have_results
            assert {world.status(role)["health"] for role in world.roles} == {"ok"}
