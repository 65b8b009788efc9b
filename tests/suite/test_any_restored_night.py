"""Any night in which machines are put back to what they were, and nothing is hidden: nobody says two things."""

from itertools import count, islice

import pytest

from tests.suite.consortium import CASES, SITES, Case
from tests.suite.nights import Story, drawn, play, shrunk

FAULTS = ("restore", "rows", "killed before", "killed after", "full", "stale", "mend")
MANY = 3  # restores of a site in a story, at least


def restored(story: Story) -> bool:
    """Whether sites are put back to an earlier time, often."""
    backed_up, times = set[str](), 0
    for step in story.steps:
        backed_up |= {step.who} if step.what == "back up" else set()
        times += step.what == "restore" and step.who in backed_up & set(SITES)
    return times >= MANY


@pytest.mark.parametrize("number", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 10))])
@pytest.mark.parametrize(
    "case",
    [
        # `semi-honest` takes long, and `malicious` has its rounds and one more.
        pytest.param(case, marks=[pytest.mark.slow] if case.protocol == "semi-honest" else [], id=case.name)
        for case in CASES
    ],
)
def test_any_night_of_machines_that_are_put_back(case: Case, number: int) -> None:
    stories = (story for seed in count() if restored(story := drawn(case, seed, FAULTS)))
    broken = play(next(islice(stories, number, None)))
    assert broken is None, shrunk(broken)
