"""A consortium whose roles are passes of this process, over an exchange in memory, by a clock that the test sets."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from fhe_auc.base.clock import Clock
from fhe_auc.base.files import read_config
from fhe_auc.machines.serve import Server, read
from tests.suite.memory_exchange import Memory
from tests.support.keys_folder import ADDER
from tests.support.served import HELPER, SITES, check_results, convene, make_session, results

ROLES = (ADDER, *SITES, HELPER)


class Set(Clock):
    """Stands still between looks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def put(exchange: Memory, folder: str) -> None:
    for file in sorted(Path("inbox", folder).iterdir()):
        exchange.put(f"{folder}/{file.name}", file.read_bytes())


@pytest.mark.parametrize(("make", "away"), [(make_session, ()), (convene, ("west",))], ids=["sealed", "helper"])
def test_a_night_needs_no_process_no_folder_and_no_waiting(
    make: object, away: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, clock = Memory(), Set()
    make("night-1")  # type: ignore[operator]
    put(exchange, "night-1")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"a pass sleeps for {seconds} s"))
    names = [name for name in ROLES if name not in away]
    counted = tuple(name for name in SITES if name not in away)
    with ExitStack() as stack:
        roles = []
        for name in names:
            config = read_config(Path(f"{name}.toml"), None)
            role = Server(
                {**config, "close-at": 2} if name == ADDER and away else config,
                clock=clock,
                inboxes=[exchange],
                apart=False,
            )
            roles.append(stack.enter_context(role))
        for _ in range(12):
            for role in roles:
                role.look()
            clock.seconds += 10.0
        told = {name: read(role.config, clock) for name, role in zip(names, roles, strict=True)}
    assert all(len(results(name)) == 1 for name in counted)
    check_results(*counted, counted=counted)
    assert {wrong for _, wrong in told.values()} == {""}
    assert told[ADDER][0]["sessions"][0]["step"].startswith("ended: all have their results")
