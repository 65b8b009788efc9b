"""Any session of every protocol, in memory and between machines: `tests.suite.any_session`. Slow: more of them."""

from functools import partial
from pathlib import Path

import pytest

from tests.suite.any_session import play
from tests.suite.sessions import EXCHANGES, Case
from tests.support.exchanges import url_of

slow = partial(pytest.param, marks=pytest.mark.slow)  # of which another case has all that is in it
CASES = [
    Case("exact", "sealed"),
    Case("exact", "helper", 2),
    slow(Case("exact", "helper", 2, "proofs")),
    Case("exact", "helper", 2, "earlier"),
    Case("exact", "sealed", 4, "groups"),
    Case("exact", "sealed", 6, "sites"),
    Case("verified", "sealed"),
    slow(Case("verified", "helper", 3)),
    Case("verified", "helper", 2, "proofs"),
    Case("verified", "helper", 3, "epsilon"),
    Case("verified", "helper", 2, "models"),
    Case("verified", "helper", 2, "clusters"),
    Case("verified", "sealed", 4, "weights"),
    Case("nothing", least=2),
    Case("semi-honest", "sealed", 2),
    Case("malicious", "sealed"),
    Case("histogram-federated", "sealed"),
    Case("histogram-federated", "helper", 2),
    slow(Case("histogram-distributed-dp", "sealed")),
    Case("histogram-distributed-dp", "helper", 2),
    Case("histogram-local-dp", least=2),
    slow(Case("boundaries-federated", "sealed")),
    Case("boundaries-federated", "helper", 3),
    Case("counts-federated", "sealed", part="groups"),
    Case("counts-federated", "helper", 2, "models"),
    Case("censoring-federated", "helper", 2, "times"),
    Case("replicates-federated", "helper", 2, "models"),
    slow(Case("replicates-federated", "sealed", part="clusters")),
    Case("boundaries-distributed-dp", "helper", 2),
    Case("boundaries-local-dp", least=3),
    Case("dpauc-laplace", least=3),
    Case("dpauc-gaussian", least=2),
    Case("dpauc-rr", least=2),
    Case("ustat-hierarchy", least=2),
    Case("ustat-krr", least=3),
    Case("ustat-pairs", least=3),
]


@pytest.mark.parametrize("examples", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_session_yields_what_the_rows_say_or_nothing(case: Case, examples: int) -> None:
    play(case, examples)


# --- Signed and sealed messages, and sites that live in key stores ----------------------------------------------------

SIGNED = [
    slow(Case("exact", "sealed", way="signed")),
    Case("exact", "helper", 2, "proofs", way="signed"),
    Case("verified", "sealed", way="signed"),
    slow(Case("verified", "helper", 3, way="signed")),
    slow(Case("semi-honest", "sealed", 2, way="signed")),
    slow(Case("histogram-federated", "helper", 2, way="signed")),
    Case("dpauc-rr", least=2, way="signed"),
    Case("ustat-pairs", least=3, way="signed"),
]
CARRIED = [
    Case("verified", "helper", 2, "proofs", way="folder"),
    *(slow(Case(*asked, way="folder")) for asked in (("semi-honest", "sealed", 2), ("verified", "sealed"))),
    slow(Case("dpauc-rr", least=2, way="folder")),
    *(slow(Case("exact", "helper", 2, way=kind)) for kind in ("s3", "sftp", "webdav")),
]


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: case.name)
def test_any_session_of_signed_messages_yields_what_the_rows_say_or_nothing(case: Case) -> None:
    play(case, 3)


@pytest.mark.parametrize("case", CARRIED, ids=lambda case: case.name)
def test_any_session_of_sites_in_stores_yields_what_the_rows_say_or_nothing(case: Case, tmp_path: Path) -> None:
    with url_of(case.way, tmp_path) as EXCHANGES[case.way]:
        play(case, 2)
