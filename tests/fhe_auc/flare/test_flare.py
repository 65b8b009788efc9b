"""Sessions over NVIDIA FLARE: the fraction of `evaluate`, whatever fails meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare", minversion="2.9", reason="the extra fhe-auc[flare] is not installed")

from click.testing import CliRunner
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from fhe_auc import outcomes, registry
from fhe_auc.cli import main
from fhe_auc.counts import PartyData
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.flare import MESSAGE, REFUSED
from fhe_auc.flare.controller import evaluate
from fhe_auc.flare.executor import SessionExecutor
from fhe_auc.journal import is_finished, read_record
from fhe_auc.logs import LOGGER
from fhe_auc.messages import Message
from fhe_auc.protocol import Request
from fhe_auc.site_state import site_storage
from tests.support.exact_sessions import pairs_of

pytestmark = [pytest.mark.xdist_group("flare")]

GRID = np.linspace(0, 1, 16)
EXAMPLES = Path(__file__).parents[3] / "examples" / "three_sites"
BIN = Path(sys.executable).parent
PATIENCE = 300.0  # seconds, for a step that takes a few; only a broken test waits for them


def toml(config: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())


class Session:
    """A session of three sites: for each its file in ``local/fhe-auc`` of a workspace, and for the server `run`."""

    def __init__(self, sites: list[PartyData], folder: Path, local: Callable[[str], Path], **asked: Any) -> None:
        self.folder, self.sites = folder, {data.name: data for data in sites}
        (folder / "keys").mkdir(mode=0o700, parents=True)
        prepared = registry.load("exact").prepare(Request(parties=tuple(self.sites), thresholds=GRID, **asked))
        made = site_storage().local_sites(prepared, folder / "keys", {})
        self.meanwhile = made.meanwhile
        self.run: dict[str, Any] = {**made.aggregator, "journal": str(folder / "journal"), "round-timeout": PATIENCE}
        for data in sites:
            file = folder / f"{data.name}.npz"
            np.savez(file, y_true=data.y_true, y_score=data.y_score)
            own = {**made.sites[data.name], "data": str(file), "results": str(folder / f"results of {data.name}")}
            (local(data.name) / "fhe-auc").mkdir(exist_ok=True)
            (local(data.name) / "fhe-auc" / f"{data.name}.toml").write_text(toml(own))

    def check(self, *names: str) -> None:
        """These sites, and no others, have the exact result over their rows."""
        written = {name: list((self.folder / f"results of {name}").glob("*.json")) for name in self.sites}
        assert {name for name, files in written.items() if files} == set(names)
        expected = pairs_of([self.sites[name] for name in names], GRID)[0]
        assert {outcomes.read(file).fraction for files in written.values() for file in files} == {expected}


# One process, without FLARE's network: what the controller and the executor make of failures.


class FakeController:
    """Has clients answer at once; `spoil` takes a client's name and its answer, and returns what comes instead."""

    def __init__(self, folder: Path, spoil: Callable[[str, Shareable], Shareable | None]) -> None:
        self._folder, self._spoil = folder, spoil
        self.connected = ["north", "south", "east"]
        self._engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=name) for name in self.connected])
        self.sent: list[tuple[str, bytes]] = []

    def send(self, task: Any, fl_ctx: object, targets: list[str]) -> None:
        (client,) = targets
        self.sent.append((client, task.data[MESSAGE]))
        workspace = SimpleNamespace(get_site_config_dir=lambda: str(self._folder))
        context = SimpleNamespace(
            get_engine=lambda: SimpleNamespace(get_workspace=lambda: workspace), get_identity_name=lambda: client
        )
        answer = self._spoil(client, SessionExecutor().execute(task.name, task.data, context, None))
        if answer is not None:
            task.result_received_cb(client_task=SimpleNamespace(result=answer), fl_ctx=fl_ctx)

    def cancel_task(self, task: Any) -> None:
        pass

    def get_client_disconnect_time(self, client: str) -> None:
        return None


def play(session: Session, controller: FakeController, **config: Any) -> Any:
    return evaluate(controller, None, SimpleNamespace(triggered=False), {**session.run, **config})


def untouched(client: str, answer: Shareable) -> Shareable:
    return answer


@pytest.fixture(autouse=True)
def restored_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What executors do to the logger ends with a test."""
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "handlers", list(LOGGER.handlers))


@pytest.fixture
def session(site_rows: list[PartyData], tmp_path: Path) -> Iterator[Session]:
    """The key holder opens it for the sites that have answered, from two on."""
    made = Session(site_rows, tmp_path, lambda _: tmp_path, min_parties=2)
    with made.meanwhile:
        yield made


def test_all_sites_get_the_exact_result_and_a_finished_session_asks_nobody(session: Session, tmp_path: Path) -> None:
    controller = FakeController(tmp_path, untouched)
    assert play(session, controller).delivered == ("north", "south", "east")
    session.check("north", "south", "east")
    asked = len(controller.sent)
    assert play(session, controller).delivered == ("north", "south", "east")
    assert len(controller.sent) == asked


def test_a_site_that_fails_is_asked_again_with_the_same_bytes(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fhe_auc.flare.controller._PAUSE", 0.0)
    failed: list[str] = []

    def at_first(client: str, answer: Shareable) -> Shareable:
        if client == "east" and not failed:
            failed.append(client)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return answer

    controller = FakeController(tmp_path, at_first)
    play(session, controller)
    session.check("north", "south", "east")
    first = [message for client, message in controller.sent if client == "east"][:2]
    assert first[0] == first[1]


@pytest.mark.parametrize("connected", [True, False])
def test_a_site_that_is_lost_is_missing_and_the_others_have_their_result(
    session: Session, tmp_path: Path, connected: bool
) -> None:
    controller = FakeController(tmp_path, lambda client, answer: None if client == "east" else answer)
    if not connected:
        controller.connected.remove("east")
    assert play(session, controller, **{"round-timeout": 1.0}).missing == ("east",)
    session.check("north", "south")


def test_of_a_sites_error_its_kind_alone_leaves_the_site(
    session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The text is in the site's own log on stderr, and in none of FLARE's, which it streams to the server."""
    (tmp_path / "north.npz").write_bytes(b"not rows")
    seen: list[Shareable] = []

    def watch(client: str, answer: Shareable) -> Shareable:
        seen.extend([answer] if client == "north" else [])
        return answer

    play(session, FakeController(tmp_path, watch), **{"ask-again": False})
    assert dict(seen[0]).keys() - {"__headers__"} == {REFUSED}
    assert seen[0][REFUSED].endswith("Error")
    assert seen[0].get_return_code() == ReturnCode.EXECUTION_RESULT_ERROR
    session.check("south", "east")
    assert "north.npz" in capfd.readouterr().err
    assert "north.npz" not in caplog.text


def test_what_a_client_says_in_place_of_a_submission_does_not_reach_the_journal(
    session: Session, tmp_path: Path
) -> None:
    def leak(client: str, answer: Shareable) -> Shareable:
        return Shareable({REFUSED: "score 0.123 of patient 7"}) if client == "east" else answer

    play(session, FakeController(tmp_path, leak), **{"ask-again": False})
    told = b"".join(file.read_bytes() for file in (tmp_path / "journal").iterdir() if file.is_file())
    assert b"patient" not in told
    session.check("north", "south")


@pytest.mark.parametrize("attack", ["one byte changed", "another site's submission", "no bytes"])
def test_a_submission_that_is_not_the_sites_own_does_not_count(session: Session, tmp_path: Path, attack: str) -> None:
    kept: dict[str, bytes] = {}

    def spoil(client: str, answer: Shareable) -> Shareable:
        kept[client] = answer[MESSAGE]
        if client != "east":
            return answer
        changed = bytearray(kept["east"])
        changed[len(changed) // 2] ^= 1
        told = {"one byte changed": bytes(changed), "another site's submission": kept["south"], "no bytes": "text"}
        return Shareable({MESSAGE: told[attack]})

    record = play(session, FakeController(tmp_path, spoil), **{"ask-again": False})
    assert (record.counted, record.missing) == (("north", "south"), ("east",))


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"clients": {"west": "site-1"}}, "'west' is not a party of the session"),
        ({"clients": {"east": "north"}}, "two parties have the same client"),
        ({"journal": "journal"}, "journal must be an absolute path"),
    ],
)
def test_a_configuration_that_is_not_right_is_refused(
    session: Session, tmp_path: Path, config: dict[str, Any], error: str
) -> None:
    with pytest.raises(InputError, match=error):
        play(session, FakeController(tmp_path, untouched), **config)


def test_a_job_that_is_aborted_goes_on_when_it_is_submitted_again(session: Session, tmp_path: Path) -> None:
    """North has answered before; it is not asked for another submission."""
    controller = FakeController(tmp_path, untouched)
    controller.connected.remove("east")
    stopping = iter([False, False, False, True])
    signal_of_abort = type("Signal", (), {"triggered": property(lambda _: next(stopping))})()
    with pytest.raises(EvaluationError, match="submit it again"):
        evaluate(controller, None, signal_of_abort, session.run)
    before, controller.connected = list(controller.sent), ["north", "south", "east"]
    play(session, controller)
    session.check("north", "south", "east")
    asked = [(client, Message.from_bytes(message, limit=2**30).round) for client, message in controller.sent]
    assert asked.count(("north", 1)) == 1
    assert before


# FLARE itself.


@pytest.mark.parametrize("options", [(), ("--keys", "joint"), ("--keys", "helper"), ("--protocol", "exact")], ids=str)
def test_the_simulator_finds_the_fraction_of_evaluate(options: tuple[str, ...]) -> None:
    files = [str(EXAMPLES / f"{name}.csv") for name in ("north", "south", "west")]
    found = []
    for command in (["flare", "simulate"], ["evaluate"]):
        done = CliRunner().invoke(main, [*command, *files, *options, "--json"])
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert found[0]["fraction"] == found[1]["fraction"] == "83/108"


@pytest.mark.slow
def test_the_training_example_prints_how_far_the_average_is_off() -> None:
    """It has compared the AUC with scikit-learn's over all rows, and has ended."""
    example = EXAMPLES.parent / "training" / "run_flare.py"
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, str(example)], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^ +(\d+) +(0\.\d{3})\d{3} \(0\.\d+ to 0\.\d+\) +(0\.\d{3})\d{3}, off", done.stdout, re.MULTILINE
    )
    assert lines == [("10", "0.672", "0.737"), ("20", "0.719", "0.829"), ("30", "0.725", "0.842")]


@pytest.fixture
def poc(tmp_path: Path) -> Iterator[Poc]:
    made = Poc(tmp_path)
    yield made
    made.close()


class Poc:
    """FLARE's POC mode: a server and three clients, each a process of its own with certificates, on ports of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
        self.environment["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        admin = {"name": "admin@nvidia.com", "org": "nvidia", "type": "admin", "role": "project_admin"}
        server = {
            "name": "server",
            "org": "nvidia",
            "type": "server",
            "fed_learn_port": port,
            "default_host": "localhost",
        }
        clients = [{"name": name, "org": "nvidia", "type": "client"} for name in ("north", "south", "east")]
        builders = [
            {
                "path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
                "args": {"template_file": "master_template.yml"},
            },
            {"path": "nvflare.lighter.impl.static_file.StaticFileBuilder", "args": {"config_folder": "config"}},
            {"path": "nvflare.lighter.impl.cert.CertBuilder"},
            {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
        ]
        project = {"api_version": 3, "name": "trial", "description": "trial", "builders": builders}
        (folder / "project.yml").write_text(json.dumps({**project, "participants": [server, admin, *clients]}))
        self.call("poc", "prepare", "-i", str(folder / "project.yml"))
        self.kits = folder / "poc" / "trial" / "prod_00"
        for role in ("server", "north", "south", "east"):
            local = self.kits / role / "local"
            resources = json.loads((local / "resources.json.default").read_text())
            resources |= {"class_allow_list": ["fhe_auc.flare"], "allow_log_streaming": False}  # as the guide says
            (local / "resources.json").write_text(json.dumps(resources))

    def local(self, client: str) -> Path:
        return self.kits / client / "local"

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(BIN / "nvflare"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *roles: str) -> None:
        for role in roles:
            with (self.folder / f"{role}.log").open("ab") as log:
                self._started[role] = subprocess.Popen(
                    [str(self.kits / role / "startup" / "sub_start.sh")],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def submit(self, job: Path) -> None:
        kit = str(self.kits / "admin@nvidia.com")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.call("job", "submit", "-j", str(job), "--startup-kit", kit)
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def close(self) -> None:
        for process in self._started.values():
            process.kill()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if f"NVFLARE_POC_WORKSPACE={self.folder}".encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def until(there: Callable[[], Any], poc: Poc) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := there()):
        ends = {log.stem: log.read_text(errors="replace")[-3000:] for log in poc.folder.glob("*.log")}
        assert time.monotonic() < deadline, ends
        time.sleep(0.5)
    return found


def test_in_poc_mode_a_session_fails_without_a_site_and_ends_when_the_job_is_submitted_again(
    poc: Poc, site_rows: list[PartyData], tmp_path: Path
) -> None:
    session = Session(site_rows, tmp_path / "session", poc.local)
    (tmp_path / "run.toml").write_text(toml({**session.run, "round-timeout": 20.0}))
    made = CliRunner().invoke(
        main, ["flare", "job", str(tmp_path / "job"), str(tmp_path / "run.toml"), "--min-clients", "2"]
    )
    assert made.exit_code == 0, made.output
    assert not list((tmp_path / "job").rglob("*.py")), "a job brings no code"

    def record() -> dict[str, Any]:
        return read_record(Path(session.run["journal"])) or {}

    poc.start("server", "north", "south")
    poc.submit(tmp_path / "job")
    failed = until(record, poc)
    assert "east: client 'east' is not connected" in failed["error"]["message"]
    assert not list(session.folder.glob("results of */*.json"))

    poc.start("east")
    until(lambda: "east" in poc.call("system", "status", "--startup-kit", str(poc.kits / "admin@nvidia.com")), poc)
    poc.submit(tmp_path / "job")
    until(lambda: record() and is_finished(record()), poc)
    session.check("north", "south", "east")
