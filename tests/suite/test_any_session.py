"""Any session of every protocol, in memory: `tests.suite.any_session`. Slow: more of them."""

from functools import partial

import pytest

from tests.suite.any_session import play
from tests.suite.sessions import Case

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
    Case("boundaries-distributed-dp", "helper", 2),
    Case("boundaries-local-dp", least=3),
    Case("dpauc-laplace", least=3),
    Case("dpauc-gaussian", least=2),
    Case("dpauc-rr", least=2),
    Case("ustat-hierarchy", least=2),
    Case("ustat-krr", least=3),
]


@pytest.mark.parametrize("examples", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_session_yields_what_the_rows_say_or_nothing(case: Case, examples: int) -> None:
    play(case, examples)
