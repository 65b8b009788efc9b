"""Sessions with a helper between machines: made, opened and played by the commands, over files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fhe_auc import file_transport, outcomes
from fhe_auc.aggregator_role import run
from fhe_auc.cli import main
from fhe_auc.cli.session import read_config
from fhe_auc.errors import MessageError
from fhe_auc.logs import RoleLog
from fhe_auc_keys import key_store_sites
from tests.support.keys_commands import ADDER, SITES, SMALL, Clock, call, make_site, ok

HELPER = "registry"


@pytest.fixture
def helped(consortium: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with a helper, which everybody has opened."""
    monkeypatch.setattr(key_store_sites, "_now", clock)
    make_site(HELPER)
    ok("session", *CREDENTIALS, "--store", "north/store", "--out", "helped", *KEYS, *SMALL)
    for name in (*SITES, HELPER):
        at = ("--holder", "north", "--store", f"{name}/store", "--study", "study.toml")
        assert call("open", "helped/session.helper", *at).exit_code == 0
    return consortium


CREDENTIALS = [f"{name}/{name}.credential" for name in SITES]
KEYS = ("--keys", "helper", "--helper", f"{HELPER}/{HELPER}.credential")


def config(name: str) -> dict[str, Any]:
    """The configuration of a role, as its TOML file has it."""
    told = {"store": f"{name}/store", "holder": "north"}
    if name in SITES:
        np.savez(f"{name}.npz", y_true=[0, 1, 1, 0], y_score=[0.1, 0.9, 0.4, 0.5])
        told |= {"data": f"{name}.npz", "results": f"results of {name}"}
    Path(f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return read_config(Path(f"{name}.toml"), None)


def test_a_session_with_a_helper_runs_over_files(helped: Path) -> None:
    exchange = Path("exchange")

    class Attended(file_transport.FileTransport):
        """All who are asked answer as soon as the message is there."""

        def tell(self, awaited: Any, deadline: float) -> None:
            super().tell(awaited, deadline)
            number = self._aggregator.round
            helping = self._aggregator.asked == ("helper",)
            for name in (HELPER,) if helping else SITES:
                file_transport.answer(exchange, config(name), number, RoleLog(), helper=helping)

    settings = {**config(ADDER), "session": "helped/session.helper", "round-timeout": 60.0}
    record = run(settings, lambda aggregator, journal, timeout: Attended(exchange, aggregator, journal, timeout))
    assert record.counted == record.delivered == SITES
    assert sorted(each.name for each in exchange.glob("*.message")) == [
        *("helper-2.message", "helper-3.message"),
        *("round-1.message", "round-4.message"),
    ]
    for name in SITES:
        found = outcomes.read(outcomes.file_of(Path(f"results of {name}"), record.session.hex()) or Path())
        assert found.auc == pytest.approx(0.75, abs=1e-12)  # type: ignore[union-attr]
    with pytest.raises(MessageError, match="has ended"):
        file_transport.answer(exchange, config(HELPER), 2, RoleLog(), helper=True)
    arguments = ["helper", "answer", "exchange", f"{HELPER}.toml", "--wait", "24", "--json"]  # it waits no more
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    told = {"round": 3, "file": "exchange/helper-3/helper.submission", "ended": True}
    assert json.loads(done.stdout) == told
