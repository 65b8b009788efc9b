"""What the suites share: sessions that are made once, and how their phases are timed.

    make bench                                                       # all suites
    make bench ARGS='-k "trace or product" --benchmark-autosave'     # some, saved
    make bench ARGS='--benchmark-compare --benchmark-compare-fail=median:20%'

Times are CPU seconds of the process (the Makefile says --benchmark-timer): other work on the machine shows less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from fhe_auc import ckks
from fhe_auc_benchmarks.runtime.contender import Contender, OurProtocol
from fhe_auc_benchmarks.runtime.problem import Problem


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Keep what names the machine out of saved runs."""
    output_json.get("machine_info", {}).pop("node", None)


@pytest.fixture(params=ckks.available_backends(), scope="session")
def backend(request: pytest.FixtureRequest) -> ckks.BackendName:
    return request.param


@lru_cache(maxsize=4)
def protocol_session(
    problem: Problem, protocol: str, backend: str, resend: bool, options: tuple[tuple[str, Any], ...]
) -> OurProtocol:
    # Submissions that are sent again have no masks that vanish in the sum over all parties.
    return OurProtocol(problem, protocol, backend, resend=resend, min_parties=2 if resend else None, **dict(options))


@pytest.fixture
def made() -> Callable[..., OurProtocol]:
    """Return a function that makes a session's keys and submissions, or finds those of an earlier benchmark."""

    def make(
        protocol: str, backend: str, parties: int, thresholds: int, *, resend: bool = True, **options: Any
    ) -> OurProtocol:
        return protocol_session(Problem(parties, thresholds), protocol, backend, resend, tuple(sorted(options.items())))

    return make


@pytest.fixture
def timed(benchmark: Any) -> Callable[..., None]:
    """Return a function that times one phase of a contender, after the phases before it."""
    steps = ("submit", "ingest", "circuit", "echo", "others", "relay", "recover")

    def time_phase(contender: Contender, phase: str, rounds: int = 3) -> None:
        def setup() -> None:
            contender.begin()
            for earlier in steps[: steps.index(phase)]:
                getattr(contender, earlier)()

        benchmark.pedantic(
            getattr(contender, phase), setup=setup, rounds=rounds, warmup_rounds=0 if contender.once else 1
        )
        benchmark.extra_info["upload_bytes_per_party"] = contender.upload_bytes

    return time_phase
