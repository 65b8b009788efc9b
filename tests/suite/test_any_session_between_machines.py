"""Any session whose messages are signed and sealed, and sites that live in key stores: `tests.suite.any_session`."""

from functools import partial
from pathlib import Path

import pytest

from tests.suite.any_session import play
from tests.suite.sessions import EXCHANGES, Case
from tests.support.exchanges import url_of

slow = partial(pytest.param, marks=pytest.mark.slow)
CASES = [
    slow(Case("exact", "sealed", way="signed")),
    Case("exact", "helper", 2, "proofs", way="signed"),
    Case("verified", "sealed", way="signed"),
    slow(Case("verified", "helper", 3, way="signed")),
    slow(Case("semi-honest", "sealed", 2, way="signed")),
    slow(Case("histogram-federated", "helper", 2, way="signed")),
    Case("dpauc-rr", least=2, way="signed"),
]
CARRIED = [
    Case("verified", "helper", 2, "proofs", way="folder"),
    *(slow(Case(*asked, way="folder")) for asked in (("semi-honest", "sealed", 2), ("verified", "sealed"))),
    slow(Case("dpauc-rr", least=2, way="folder")),
    *(slow(Case("exact", "helper", 2, way=kind)) for kind in ("s3", "sftp", "webdav")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_session_of_signed_messages_yields_what_the_rows_say_or_nothing(case: Case) -> None:
    play(case, 3)


@pytest.mark.parametrize("case", CARRIED, ids=lambda case: case.name)
def test_any_session_of_sites_in_stores_yields_what_the_rows_say_or_nothing(case: Case, tmp_path: Path) -> None:
    with url_of(case.way, tmp_path) as EXCHANGES[case.way]:
        play(case, 2)
