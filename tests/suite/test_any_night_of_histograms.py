"""Any night of blinded AUCs and histograms: stories of these seeds break nothing."""

import pytest

from tests.suite.consortium import CASES
from tests.suite.nights import drawn, play, shrunk

_CASES = CASES[4:8]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 6))])
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_any_night(case, seed):
    broken = play(drawn(case, seed))
    assert broken is None, shrunk(broken)
