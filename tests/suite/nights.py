"""Stories of nights: drawn from a seed, played, and made as short as they can be where an invariant breaks.

    python -m tests.suite.nights --seeds 2000:4000 [--case verified-sealed]     many; prints those that break

A seed fixes who looks when, faults and rows, not keys: a story names files by role and round.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from tests.suite.consortium import ADDER, CASES, SITES, Case, World
from tests.support.nothing import installed

DAY = 86_400.0
AT_THE_MACHINE = ("killed before", "killed after", "full", "stale")
IN_THE_EXCHANGE = ("lose", "hide", "cut", "flip", "version", "double", "old")
OF_TIME = ("rows", "clock", "mend")
FAULTS = (*AT_THE_MACHINE, *IN_THE_EXCHANGE, *OF_TIME)
HEALING = (*AT_THE_MACHINE, "lose", "hide", "mend")
"""Faults that leave no trace once they have ended; nor do those of submissions, which sites put back."""

_LOOKS = 40  # of all roles, in a night of three sites
_SCARS = {"clock": 2 * DAY, "rows": 0.0, "restore": 2 * DAY}
"""Steps that may keep nights from their results, and for how long later ones; else other damage does, for a night."""

_QUICK = 6  # looks, once faults have ended, before anybody judges
_ENDING = (*[5.0] * _QUICK, *[300.0] * 60)  # seconds between looks, once faults have ended


@dataclass(frozen=True)
class Step:
    """Something that happens: a role looks, or a fault; numbers say which write, file or byte."""

    what: str
    who: str = ""
    fault: str = ""
    which: int = 0
    at: int = 0

    def __str__(self) -> str:
        number = f" {self.at}" if self.fault in AT_THE_MACHINE[:3] else ""
        return " ".join(filter(None, (self.who, self.what, self.fault))) + number


@dataclass(frozen=True)
class Story:
    case: Case
    seed: int
    steps: tuple[Step, ...]
    calm: bool = False  # whether nothing is done to anybody


@dataclass(frozen=True)
class Broken:
    """What has become of a story that breaks something."""

    story: Story
    error: BaseException
    lines: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {line}" for line in self.lines)
        where = "".join(traceback.format_exception(self.error)[-3:])
        return f"{self.story.case.name}, seed {self.story.seed}\n{steps}\n{where}"


def drawn(case: Case, seed: int, faults: Sequence[str] = FAULTS, nights: int = 2) -> Story:
    """Return the story of a seed: some of the faults, often or seldom, in so many nights.

    From three nights on, each has faults of its own, and mostly ends before the next one; sites are away for a night.
    """
    generator = random.Random(f"{case.name} {seed}")
    steps, calm, healing = list[Step](), not faults, generator.random() < 0.3
    for night in range(nights):
        if nights > 2 or not night:
            chosen = [fault for fault in faults if fault in HEALING or not healing]
            some = [fault for fault in chosen if generator.random() < 0.35]
            often = generator.choice((0.0, 0.05, 0.15, 0.3)) if some else 0.0
        pause = generator.choice((int(DAY), int(DAY), 36_000)) if night else 0
        if nights > 2:
            steps += [Step("day"), Step("day")] if night else []
            most = min(3, case.many - case.least) * (not calm)
            steps.append(Step("away", ", ".join(generator.sample(case.sites, generator.randint(0, most)))))
            healing = generator.random() < 0.5
        steps.append(Step("night", at=int(DAY) if calm and night else pause))
        for _ in range(generator.randrange(_LOOKS * case.many // len(SITES))):
            steps += _drawn(case, generator, some, often)
        if nights > 2 and (calm or generator.random() < 0.8):
            steps.append(Step("settle"))
    return Story(case, seed, tuple(steps), calm)


def _drawn(case: Case, generator: random.Random, some: Sequence[str], often: float) -> list[Step]:
    """A role looks, and before or meanwhile one of some faults may happen."""
    who = generator.choice(case.roles)
    fault = generator.choice(some) if generator.random() < often else ""
    which, at = generator.randrange(10_000), generator.randrange(10_000)
    if fault in AT_THE_MACHINE:
        return [Step("looks", who, fault, at=1 + at % 12)]
    steps = []
    if fault in IN_THE_EXCHANGE:
        steps = [Step("tamper", fault=fault, which=which, at=at)]
    elif fault == "restore":
        steps = [Step(("back up", "restore")[at % 2], who)]
    elif fault == "clock":
        steps = [Step("clock", who, at=(-1, 1)[at % 2] * int(DAY))]
    elif fault == "rows":
        steps = [Step("rows", case.sites[at % case.many])]
    elif fault == "mend":
        steps = [Step("mend")]
    return [*steps, Step("looks", who)]


def play(story: Story) -> Broken | None:
    """Play a story to its end; return what it has broken, if anything."""
    lines: list[str] = []
    try:
        with World(story.case, story.seed) as world:
            world.calm = story.calm
            for step in (*story.steps, Step("settle")):
                lines.append(str(step))
                lines[-1] = _done(world, step)
    except Exception as error:
        return Broken(story, error, tuple(lines))
    return None


def _settle(world: World) -> str:
    """Let faults end, and nights too."""
    world.mend()
    world.physics.ahead.clear()
    for number, pause in enumerate(_ENDING):
        if number == _QUICK:
            world.forget_errors()
        if number >= _QUICK * (not world.all_have_results) and all(map(world.settled, world.open)):
            break
        world.physics.passed += pause
        for name in world.roles:
            if name not in world.away:
                world.look(name)
                world.check(name)
    world.look(ADDER)
    world.judge()
    return "all faults have ended"


def _done(world: World, step: Step) -> str:
    """Do a step; return the line that tells it."""
    if step.what in _SCARS:
        world.scar(_SCARS[step.what])
    world.physics.passed += 7 * len(SITES) / world.case.many
    match step.what:
        case "looks" if step.who in world.away:
            return f"{step.who} is away"
        case "looks":
            lived = world.look(step.who, step.fault, step.at)
            world.check(step.who)
            return f"{step}{'' if lived else ', and is dead'}"
        case "tamper":
            name = world.tamper(step.fault, step.which, step.at)
            if step.fault not in HEALING and not name.endswith(".submission"):
                world.scar()
            return f"{step.fault} {name or 'nothing'}"
        case "night":
            world.physics.passed += step.at
            world.make_night()
            return f"night {len(world.nights)}, {step.at / 3600:g} hours later"
        case "away":
            world.away = {name for name in world.sites if name in step.who.split(", ")}
        case "day":
            for name in (name for name in world.roles if name not in world.away):
                world.physics.passed += DAY / 4 / len(world.roles)
                world.look(name)
                world.check(name)
        case "settle":
            return _settle(world)
        case "clock":
            world.physics.ahead[step.who] = world.physics.ahead.get(step.who, 0.0) + step.at
        case "rows":
            world.new_rows(step.who)
        case "mend":
            world.mend()
        case "back up":
            world.back_up(step.who)
        case "restore":
            world.restore(step.who)
    return str(step)


def shrunk(broken: Broken, seconds: float = 30.0) -> Broken:
    """Leave out steps for as long as the same kind of thing breaks."""
    deadline, size = time.monotonic() + seconds, len(broken.story.steps) // 2
    while size and time.monotonic() < deadline:
        at = 1  # the first night stays
        while at < len(broken.story.steps) and time.monotonic() < deadline:
            steps = broken.story.steps[:at] + broken.story.steps[at + size :]
            found = play(replace(broken.story, steps=steps))
            if found is not None and type(found.error) is type(broken.error):
                broken = found
            else:
                at += size
        size //= 2
    return broken


Report = Callable[[int, "Broken | None"], object]


def many(cases: Sequence[Case], seeds: Iterable[int], nights: int, faults: Sequence[str], report: Report) -> int:
    """Play stories of these seeds, protocols in turn; return how many."""
    played = 0
    for seed in seeds:
        played += 1
        report(seed, play(drawn(cases[seed % len(cases)], seed, faults, nights)))
    return played


def cases_of(sites: int, nights: int) -> list[Case]:
    """Return the cases for so many sites, of which some may be away, where a case may do without them."""
    if sites == len(SITES) and nights == 2:
        return list(CASES)
    lacking = sites // 4 or 1
    return [
        replace(case, many=sites, nights=nights, least=sites - lacking * (case.least == 2 or case.keys == "helper"))
        for case in CASES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--case", default="")
    parser.add_argument("--sites", type=int, default=len(SITES))
    parser.add_argument("--nights", type=int, default=2)
    parser.add_argument("--no-faults", action="store_true", help="nothing is done to anybody, and all are always well")
    parser.add_argument("--shrink", type=float, default=30.0)
    parser.add_argument("--hours", type=float, default=2.0, help="most that it takes")
    parser.add_argument("--first", action="store_true", help="stop at the first that breaks")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    cases = [case for case in cases_of(given.sites, given.nights) if given.case in ("", case.name)]
    faults = () if given.no_faults else FAULTS
    began, failed = time.process_time(), list[int]()

    def report(seed: int, broken: Broken | None) -> None:
        if given.nights > 2:
            spent = time.process_time() - began
            print(f"seed {seed}: {'whole' if broken is None else 'broken'}, {spent:.0f} CPU s", flush=True)
        if broken is None:
            return
        failed.append(seed)
        print(shrunk(broken, given.shrink), flush=True)
        if given.first:
            sys.exit(1)

    with tempfile.TemporaryDirectory() as folder, installed(Path(folder)):
        until = time.monotonic() + given.hours * 3600
        seeds = takewhile(lambda _: time.monotonic() < until, range(first, last))
        number = many(cases, seeds, given.nights, faults, report)
    spent = time.process_time() - began
    print(f"{number} stories of {given.nights} nights in {spent:.0f} CPU s; broken: {failed or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
