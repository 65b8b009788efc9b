"""Any session of `exact` and `verified`: `tests.suite.any_session`."""

import pytest

from tests.suite.any_session import play
from tests.suite.sessions import Case

CASES = [
    Case("exact", "sealed"),
    Case("exact", "helper", 2),
    Case("exact", "helper", 2, "proofs"),
    Case("exact", "helper", 2, "earlier"),
    Case("exact", "sealed", 4, "groups"),
    Case("exact", "sealed", 6, "sites"),
    Case("verified", "sealed"),
    Case("verified", "helper", 3),
    Case("verified", "helper", 2, "proofs"),
    Case("verified", "helper", 3, "epsilon"),
    Case("verified", "helper", 2, "models"),
    Case("verified", "helper", 2, "clusters"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_session_yields_what_the_rows_say_or_nothing(case: Case) -> None:
    play(case, 6)
