"""``fhe-auc plan``: its parameters are those of the session that is made, and each has its reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError
from fhe_auc.question import thresholds
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.blinded_auc import blinded_plan
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan, Workload, error_bound
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from tests.support.command_line import assert_fails, call, told


@pytest.mark.backends("all")
def test_plan_shows_what_the_planner_picks_for_every_backend_and_why() -> None:
    answer = told("plan", "--protocol", "semi-honest", "--parties", "10", "--thresholds", "uniform:100")
    assert tuple(answer["plans"]) == ckks.available_backends()
    for backend, shown in answer["plans"].items():
        found = blinded_plan.smallest_plan(Workload(thresholds=100, parties=10), backend)
        assert (shown["ring_dimension"], shown["upload_bytes"], shown["log2_multiplier_range"][1]) == (
            *(found.parameters.ring_dimension, found.submission_bytes, BLINDING_BITS),
        )
        assert shown["total_modulus_bits"] <= shown["max_modulus_bits"]
        assert shown["security_bits"] == 128
    text = call("plan", "--protocol", "semi-honest").stdout
    numbers = ("ring dimension", "128-bit security", "scale", "positions", "blinding", "flooding", "capacity", "upload")
    assert not [word for word in (*numbers, *ckks.available_backends()) if word not in text]
    assert text == call("plan", "--protocol", "semi-honest").stdout


@pytest.mark.parametrize("protocol", ["exact", "verified"])
def test_plan_shows_the_exact_protocols(protocol: str) -> None:
    arguments = ("plan", "--parties", "10", "--protocol", protocol)
    answer = told(*arguments, "--round-scores", "3")
    assert (answer["thresholds"], answer["options"]) == (1001, {"round_scores": 3})
    asked: dict[str, Any] = {"thresholds": 1001, "parties": 10, "authenticated": protocol == "verified"}
    for backend, shown in answer["plans"].items():
        found = plan_exact(**asked, backend=backend, interval=True, runs=(0, 1001))
        assert shown["plain_moduli"] == list(found.parameters.plain_moduli)
        assert (shown["sketch_entries"], shown["upload_bytes"]) == (sum(found.sizes), found.submission_bytes)
        assert shown["flooding_bits"] == found.flooding_margin >= 40
    text = " ".join(call(*arguments).stdout.split())
    assert f"{protocol}, for 5,000 bin edges, 10 parties and up to 1,000,000 rows of all parties together:" in text
    assert ("twice as many with their authenticators" in text) == (protocol == "verified")


def test_plan_tells_the_parameters_of_the_session_made_and_nothing_without_encryption(folder: Path) -> None:
    options = ("--protocol", "malicious", "-o", "tolerance=1e-4", "--thresholds", "uniform:20", "--backend", "tenseal")
    (shown,) = told("plan", "--parties", "2", *options)["plans"].values()
    request = Request(
        parties=("a", "b"), thresholds=thresholds.uniform(20), backend="tenseal", options={"tolerance": 1e-4}
    )
    made = registry.load("malicious").prepare(request).manifest.decoded_plan(AucPlan)
    assert (shown["runs"], shown["precision"]) == (made.runs, error_bound(made))
    assert made.tolerance == 1e-4
    assert_fails(call("plan", "--protocol", "dpauc-laplace"), 2, "'dpauc-laplace' has no keys")


def test_plan_of_a_private_report_is_that_of_the_most_bins_and_of_the_session_before() -> None:
    answer = told("plan", "--protocol", "histogram-distributed-dp", "--epsilon", "2")
    (shown,) = answer["plans"].values()
    assert (answer["thresholds"], shown["sums"]) == (100, 200)
    assert shown["boundaries"]["sums"] == sum(4**level for level in range(1, 6)) + 1


@pytest.mark.openfhe
def test_plan_goes_on_without_a_backend_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = blinded_plan.smallest_plan

    def picky(workload: Workload, backend: ckks.BackendName, **options: Any) -> AucPlan:
        if backend == "openfhe":
            raise CapacityError("too large")
        return real(workload, backend, **options)

    monkeypatch.setattr(blinded_plan, "smallest_plan", picky)
    result = call("plan", "--protocol", "semi-honest", "--json")
    assert (result.exit_code, result.stderr) == (0, "warning: openfhe: too large\n")
    answer = json.loads(result.stdout)
    assert (list(answer["plans"]), answer["unfit"]) == (["tenseal"], {"openfhe": "too large"})
