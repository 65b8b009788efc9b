"""Sessions with helpers between machines: made, opened and played by the commands, over files."""

from __future__ import annotations

import json
import re
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

HELPERS = "ethics", "office", "registry"
CREDENTIALS = [f"{name}/{name}.credential" for name in SITES]


@pytest.fixture
def helped(
    consortium: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[str, ...]:
    """A session with so many helpers, which everybody has opened; they are given in another order than their names'."""
    helpers = HELPERS[-request.param :]
    monkeypatch.setattr(key_store_sites, "_now", clock)
    for name in helpers:
        make_site(name)
    keys = [part for name in helpers[::-1] for part in ("--helper", f"{name}/{name}.credential")]
    ok("session", *CREDENTIALS, "--store", "north/store", "--out", "helped", "--keys", "helper", *keys, *SMALL)
    for name in (*SITES, *helpers):
        at = ("--holder", "north", "--store", f"{name}/store", "--study", "study.toml")
        assert call("open", "helped/session.helper", *at).exit_code == 0
    return helpers


def config(name: str) -> dict[str, Any]:
    """The configuration of a role, as its TOML file has it."""
    told = {"store": f"{name}/store", "holder": "north"}
    if name in SITES:
        np.savez(f"{name}.npz", y_true=[0, 1, 1, 0], y_score=[0.1, 0.9, 0.4, 0.5])
        told |= {"data": f"{name}.npz", "results": f"results of {name}"}
    Path(f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return read_config(Path(f"{name}.toml"), None)


@pytest.mark.parametrize(
    ("helped", "last"), [(1, 4), (2, 6), pytest.param(3, 6, marks=pytest.mark.slow)], indirect=["helped"]
)
def test_a_session_with_helpers_runs_over_files(helped: tuple[str, ...], last: int) -> None:
    exchange = Path("exchange")
    certified = dict(zip(("helper-1", "helper-2", "helper-3"), helped, strict=False))

    class Attended(file_transport.FileTransport):
        """All who are asked answer as soon as the message is there."""

        def tell(self, awaited: Any, deadline: float) -> None:
            super().tell(awaited, deadline)
            number = self._aggregator.round
            helping = self._aggregator.asked == tuple(certified)
            for name in helped if helping else SITES:
                folder = exchange / "helpers" if helping else exchange
                file, _ = file_transport.answer(folder, config(name), number, RoleLog())
                assert certified.get(file.stem, file.stem) == name

    settings = {**config(ADDER), "session": "helped/session.helper", "round-timeout": 60.0}
    record = run(settings, lambda aggregator, journal, timeout: Attended(exchange, aggregator, journal, timeout))
    assert record.counted == record.delivered == SITES
    assert sorted(each.name for each in exchange.glob("*.message")) == ["round-1.message", f"round-{last}.message"]
    theirs = sorted(each.name for each in exchange.glob("helpers/*.message"))
    assert theirs == [f"round-{number}.message" for number in range(2, last)]
    for name in SITES:
        found = outcomes.read(outcomes.file_of(Path(f"results of {name}"), record.session.hex()) or Path())
        assert found.auc == pytest.approx(0.75, abs=1e-12)  # type: ignore[union-attr]
    for name in helped:
        with pytest.raises(MessageError, match="has ended"):
            file_transport.answer(exchange / "helpers", config(name), 2, RoleLog())
    arguments = [
        "helper",
        "answer",
        "exchange/helpers",
        f"{helped[0]}.toml",
        "--wait",
        "24",
        "--json",
    ]  # it waits no more
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    told = {"round": last - 1, "file": f"exchange/helpers/round-{last - 1}/helper-1.submission", "ended": True}
    assert json.loads(done.stdout) == told


@pytest.mark.parametrize("helped", [2], indirect=True)
def test_everybody_sees_who_helps_and_can_check_what_is_kept(helped: tuple[str, ...]) -> None:
    for reader in ("north", *helped):
        shown = call("check", "--store", f"{reader}/store")
        assert shown.exit_code == 0, shown.output
    shown = ok("show", "helped/session.helper", "--store", "north/store").stdout
    assert [re.search(rf"{role} +(\w+)", shown)[1] for role in ("helper-1", "helper-2")] == list(helped)  # type: ignore[index]
