"""Any night, and any night in which machines are put back: stories of these seeds break nothing. Slow: more of them."""

from itertools import count, islice

import pytest

from tests.suite.consortium import CASES, SITES, Case
from tests.suite.nights import Story, drawn, play, shrunk

QUICK = {"dpauc-laplace": 1, "ustat-krr": 1, "nothing": 3}  # stories; of others 1
STORIES = [(case, seed) for case in CASES for seed in range(12 if case.protocol in QUICK else 6)]
RESTORING = ("restore", "rows", "killed before", "killed after", "full", "stale", "mend")
MANY = 3  # restores of a site in a story, at least
RESTORED = ("exact", "nothing")  # of which one is quick


def slow_unless(quick: bool, case: Case, number: int) -> object:
    return pytest.param(case, number, marks=() if quick else pytest.mark.slow, id=f"{case.name}-{number}")


def restored(story: Story) -> bool:
    """Whether sites are put back to an earlier time, often."""
    backed_up, times = set[str](), 0
    for step in story.steps:
        backed_up |= {step.who} if step.what == "back up" else set()
        times += step.what == "restore" and step.who in backed_up & set(SITES)
    return times >= MANY


@pytest.mark.parametrize(
    ("case", "seed"), [slow_unless(seed < QUICK.get(case.protocol, 1), case, seed) for case, seed in STORIES]
)
def test_any_night(case: Case, seed: int) -> None:
    broken = play(drawn(case, seed))
    assert broken is None, shrunk(broken)


@pytest.mark.parametrize(
    ("case", "number"),
    [slow_unless(case.protocol in RESTORED and not number, case, number) for case in CASES for number in range(10)],
)
def test_nobody_says_two_things_in_any_night_of_machines_that_are_put_back(case: Case, number: int) -> None:
    """Nothing is hidden in these."""
    stories = (story for seed in count() if restored(story := drawn(case, seed, RESTORING)))
    broken = play(next(islice(stories, number, None)))
    assert broken is None, shrunk(broken)
