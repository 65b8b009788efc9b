"""Any session whose messages are signed and sealed, and sites that live in key stores: `tests.suite.any_session`."""

import pytest

from tests.suite.any_session import play
from tests.suite.sessions import Case

CASES = [
    Case("exact", "sealed", way="signed"),
    Case("exact", "helper", 2, "proofs", way="signed"),
    Case("verified", "sealed", way="signed"),
    Case("verified", "helper", 3, way="signed"),
    Case("semi-honest", "sealed", 2, way="signed"),
    Case("histogram-federated", "helper", 2, way="signed"),
    Case("dpauc-rr", least=2, way="signed"),
]
CARRIED = [
    Case("verified", "helper", 2, "proofs", way="folder"),
    Case("semi-honest", "sealed", 2, way="folder"),
    pytest.param(Case("verified", "sealed", way="folder"), marks=pytest.mark.slow),
    pytest.param(Case("dpauc-rr", least=2, way="folder"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_session_of_signed_messages_yields_what_the_rows_say_or_nothing(case: Case) -> None:
    play(case, 4)


@pytest.mark.parametrize("case", CARRIED, ids=lambda case: case.name)
def test_any_session_of_sites_in_stores_yields_what_the_rows_say_or_nothing(case: Case) -> None:
    play(case, 2)
