"""What the suites share: backends, and what may be saved of the machine.

    make bench                                                       # all suites
    make bench ARGS='-k "trace or product" --benchmark-autosave'     # some, saved
    make bench ARGS='--benchmark-compare --benchmark-compare-fail=median:20%'

Times are CPU seconds of the process (the Makefile says --benchmark-timer): other work on the machine shows less.
"""

from __future__ import annotations

from typing import Any

import pytest

from fhe_auc import ckks


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Keep what names the machine out of saved runs."""
    output_json.get("machine_info", {}).pop("node", None)


@pytest.fixture(params=ckks.available_backends(), scope="session")
def backend(request: pytest.FixtureRequest) -> ckks.BackendName:
    return request.param
