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
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tests.suite.consortium import ADDER, CASES, SITES, Case, World
from tests.support.nothing import installed

DAY = 86_400.0
AT_THE_MACHINE = ("killed before", "killed after", "full", "stale")
IN_THE_EXCHANGE = ("lose", "hide", "cut", "flip", "version", "double", "old")
OF_TIME = ("rows", "clock", "mend")
FOR_STORES = ("restore",)
FAULTS = (*AT_THE_MACHINE, *IN_THE_EXCHANGE, *OF_TIME)
HEALING = (*AT_THE_MACHINE, "lose", "hide", "mend")
"""Faults that leave no trace once they have ended; nor do those of submissions, which sites put back."""

_LOOKS = 40  # of all roles, in a night
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


def drawn(case: Case, seed: int, faults: Sequence[str] = FAULTS) -> Story:
    """Return the story of a seed: some of the faults, often or seldom, in two nights."""
    generator = random.Random(f"{case.name} {seed}")
    if generator.random() < 0.3:
        faults = [fault for fault in faults if fault in HEALING]
    some = [fault for fault in faults if generator.random() < 0.35]
    often = generator.choice((0.0, 0.05, 0.15, 0.3)) if some else 0.0
    steps = [Step("night", at=0)]
    for night in range(2):
        if night:
            steps.append(Step("night", at=generator.choice((int(DAY), int(DAY), 36_000))))
        for _ in range(generator.randrange(_LOOKS)):
            who = generator.choice(case.roles)
            fault = generator.choice(some) if generator.random() < often else ""
            which, at = generator.randrange(10_000), generator.randrange(10_000)
            if fault in AT_THE_MACHINE:
                steps.append(Step("looks", who, fault, at=1 + at % 12))
                continue
            if fault in IN_THE_EXCHANGE:
                steps.append(Step("tamper", fault=fault, which=which, at=at))
            elif fault == "restore":
                steps.append(Step(("back up", "restore")[at % 2], who))
            elif fault == "clock":
                steps.append(Step("clock", who, at=(-1, 1)[at % 2] * int(DAY)))
            elif fault == "rows":
                steps.append(Step("rows", SITES[at % 3]))
            elif fault == "mend":
                steps.append(Step("mend"))
            steps.append(Step("looks", who))
    return Story(case, seed, tuple(steps))


def play(story: Story) -> Broken | None:
    """Play a story to its end; return what it has broken, if anything."""
    lines: list[str] = []
    try:
        with World(story.case, story.seed) as world:
            for step in story.steps:
                lines.append(_done(world, step))
            world.mend()
            world.physics.ahead.clear()
            lines.append("all faults have ended")
            for number, pause in enumerate(_ENDING):
                if number == _QUICK:
                    world.forget_errors()
                if number >= _QUICK * (not world.all_have_results) and all(map(world.settled, world.nights)):
                    break
                world.physics.passed += pause
                for name in world.roles:
                    world.look(name)
                    world.check(name)
            world.look(ADDER)
            world.check_end(sure=not world.scarred)
    except Exception as error:
        return Broken(story, error, tuple(lines))
    return None


def _done(world: World, step: Step) -> str:
    """Do a step; return the line that tells it."""
    world.scarred |= step.what in ("clock", "rows", "restore")
    world.physics.passed += 7
    match step.what:
        case "looks":
            lived = world.look(step.who, step.fault, step.at)
            world.check(step.who)
            return f"{step}{'' if lived else ', and is dead'}"
        case "tamper":
            name = world.tamper(step.fault, step.which, step.at)
            world.scarred |= step.fault not in HEALING and not name.endswith(".submission")
            return f"{step.fault} {name or 'nothing'}"
        case "night":
            world.physics.passed += step.at
            world.make_night()
            return f"night {len(world.nights)}, {step.at / 3600:g} hours later"
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
            found = play(Story(broken.story.case, broken.story.seed, steps))
            if found is not None and type(found.error) is type(broken.error):
                broken = found
            else:
                at += size
        size //= 2
    return broken


def many(cases: Sequence[Case], seeds: Iterable[int], report: Callable[[Broken], object]) -> int:
    """Play stories of these seeds, protocols in turn; return how many."""
    played = 0
    for seed in seeds:
        played += 1
        broken = play(drawn(cases[seed % len(cases)], seed))
        if broken is not None:
            report(broken)
    return played


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--case", default="")
    parser.add_argument("--shrink", type=float, default=30.0)
    parser.add_argument("--hours", type=float, default=2.0, help="most that it takes")
    parser.add_argument("--first", action="store_true", help="stop at the first that breaks")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    cases = [case for case in CASES if given.case in ("", case.name)]
    began, failed = time.process_time(), list[int]()

    def report(broken: Broken) -> None:
        failed.append(broken.story.seed)
        print(shrunk(broken, given.shrink), flush=True)
        if given.first:
            sys.exit(1)

    with tempfile.TemporaryDirectory() as folder, installed(Path(folder)):
        until = time.monotonic() + given.hours * 3600
        number = many(cases, takewhile(lambda _: time.monotonic() < until, range(first, last)), report)
    spent = time.process_time() - began
    print(f"{number} stories of two nights in {spent:.0f} CPU s; broken: {failed or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
