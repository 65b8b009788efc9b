"""Sessions over NVIDIA FLARE: the fraction of `evaluate`, whatever fails meanwhile."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", minversion="2.9", reason="the extra fhe-auc[flare] is not installed")

from click.testing import CliRunner
from nvflare.apis.client import Client
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContextManager
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.widgets.component_path_authorizer import ClassListEnforcementMode, ComponentPathAuthorizer

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.logs import LOGGER
from fhe_auc.cli import main
from fhe_auc.machines.flare import MESSAGE, REFUSED
from fhe_auc.machines.flare.controller import SessionController, evaluate
from fhe_auc.machines.flare.executor import SessionExecutor
from fhe_auc.machines.flare.job import CLASSES, write_job
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import journal
from fhe_auc.session.journal import is_finished
from fhe_auc.session.messages import Message
from tests.support.machines import MachineSession, toml
from tests.support.processes import kill, marked, wait_for
from tests.support.programs import check_training_example

pytestmark = [pytest.mark.xdist_group("flare"), pytest.mark.usefixtures("nothing_installed")]

EXAMPLES = Path(__file__).parents[4] / "examples" / "three_sites"
BIN = Path(sys.executable).parent
PATIENCE = 300.0  # seconds, for a step that takes a few; only a broken test waits for them
GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "flare.md"
RESOURCES, AUTHORIZATION = re.findall(r"^```json\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
"""What the guide has sites and server put into their workspaces."""


class Session(MachineSession):
    """A session of three sites; `run` is the server's configuration, and each site has its own in `local`."""

    @property
    def run(self) -> dict[str, Any]:
        return {**self.aggregator, "round-timeout": PATIENCE}

    def configure(self, local: Callable[[str], Path]) -> Session:
        """Write each site's file into ``fhe-auc`` of the folder `local` of its workspace."""
        for name in self.roles:
            (local(name) / "fhe-auc").mkdir(exist_ok=True)
            (local(name) / "fhe-auc" / f"{name}.toml").write_text(toml(self.roles[name]))
        return self


# FLARE's own server of tasks in this process, without its network: what controller and executor make of failures.


class Server:
    """Gives tasks to clients, which are threads; `spoil` takes a client's name and its answer, and returns what comes.

    A client for which it returns None answers no more. `sent` has what each was sent, in order.
    """

    def __init__(self, folder: Path, spoil: Callable[[str, Shareable], Shareable | None]) -> None:
        self._folder, self._spoil = folder, spoil
        self._in_job = {name: Client(name, name) for name in ("north", "south", "east")}
        self._contexts = FLContextManager(engine=self, identity_name="server", job_id="trial")
        self._over = threading.Event()
        self.tasks, self.controller = WFCommServer(), SessionController({})
        self.controller.set_communicator(self.tasks)
        self.controller._engine = self
        self.sent: list[tuple[str, bytes]] = []

    # What FLARE's server asks of its engine.
    def get_clients(self) -> list[Client]:
        return list(self._in_job.values())

    def new_context(self) -> Any:
        return self._contexts.new_context()

    def fire_event(self, *event: object) -> None:
        pass

    def play(self, session: Session, aborted: Any = None, **config: Any) -> Any:
        with self.new_context() as context:
            self.tasks.initialize_run(context)
            clients = [threading.Thread(target=self._answer, args=(each,)) for each in self._in_job.values()]
            for each in clients:
                each.start()
            try:
                return evaluate(self.controller, context, aborted or Signal(), {**session.run, **config})
            finally:
                self._over.set()
                for each in clients:
                    each.join()
                self.tasks.finalize_run(context)

    def _answer(self, client: Client) -> None:
        workspace = SimpleNamespace(get_site_config_dir=lambda: str(self._folder))
        engine = SimpleNamespace(get_workspace=lambda: workspace)
        there = SimpleNamespace(get_engine=lambda: engine, get_identity_name=lambda: client.name)
        while not self._over.wait(0.05):
            with self.new_context() as context:
                task, number, message = self.tasks.process_task_request(client, context)
            if not task:
                continue
            self.sent.append((client.name, message[MESSAGE]))
            answer = self._spoil(client.name, SessionExecutor().execute(task, message, there, None))
            if answer is None:
                return
            with self.new_context() as context:
                self.tasks.process_submission(client, task, number, answer, context)

    def rounds(self) -> dict[tuple[str, int], int]:
        """How often each client was sent each round."""
        return Counter((name, Message.from_bytes(message, limit=2**30).round) for name, message in self.sent)


def untouched(client: str, answer: Shareable) -> Shareable:
    return answer


@pytest.fixture(autouse=True)
def restored_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What executors do to the logger ends with a test."""
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "handlers", list(LOGGER.handlers))


@pytest.fixture(scope="module")
def made_session(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session(site_rows, tmp_path_factory.mktemp("made") / "session", min_parties=2)


@pytest.fixture
def session(made_session: Session, tmp_path: Path) -> Session:
    """It goes on with the sites that have answered, from two on."""
    return made_session.copied(tmp_path / "session").configure(lambda _: tmp_path)


@pytest.fixture
def exact_session(site_rows: list[PartyData], tmp_path: Path) -> Session:
    return Session(site_rows, tmp_path / "session", "exact").configure(lambda _: tmp_path)


def test_all_sites_get_the_exact_result_and_an_ended_session_asks_none(exact_session: Session, tmp_path: Path) -> None:
    server = Server(tmp_path, untouched)
    assert server.play(exact_session).delivered == ("north", "south", "east")
    exact_session.check("north", "south", "east")
    again = Server(tmp_path, untouched)
    assert again.play(exact_session).delivered == ("north", "south", "east")
    assert not again.sent


def awaits_east_alone(session: Session) -> bool:
    told = journal.read_status(Path(session.run["journal"]))
    return told is not None and list(told["awaited"]) == ["east"]


def test_of_a_sites_error_its_kind_alone_leaves_the_site(
    session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The text is in the site's own log on stderr, and in none of FLARE's, which it streams to the server."""
    (session.folder / "north.npz").write_bytes(b"not rows")
    seen: list[Shareable] = []

    def watch(client: str, answer: Shareable) -> Shareable:
        seen.extend([answer] if client == "north" else [])
        return answer

    Server(tmp_path, watch).play(session, **{"ask-again": False})
    assert dict(seen[0]).keys() - {"__headers__"} == {REFUSED}
    assert seen[0][REFUSED].endswith("Error")
    assert seen[0].get_return_code() == ReturnCode.EXECUTION_RESULT_ERROR
    session.check("south", "east")
    assert "north.npz" in capfd.readouterr().err
    assert "north.npz" not in caplog.text


LEAKS = {
    "kind": Shareable({REFUSED: "score 0.123 of patient 7"}),
    "code": make_reply("OK\nscore 0.123 of patient 7"),
    "text in place of a submission": Shareable({MESSAGE: "patient 7"}),
    "headers": Shareable({"__headers__": "patient 7"}),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_what_a_client_says_in_place_of_a_submission_is_in_no_log_journal_or_error(
    session: Session, tmp_path: Path, leak: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(client: str, answer: Shareable) -> Shareable:
        return LEAKS[leak] if client != "north" else answer

    with pytest.raises(EvaluationError) as failed:
        Server(tmp_path, told).play(session, **{"ask-again": False})
    written = b"".join(file.read_bytes() for file in (session.folder / "journal").iterdir() if file.is_file())
    assert b"client 'east' was asked" in written
    for text in (written.decode("utf-8", "replace"), str(failed.value), capfd.readouterr().err):
        assert "patient" not in text


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"clients": {"west": "site-1"}}, "{'west': 'site-1'} is no table of clients by party"),
        ({"clients": {"east": "north"}}, "two parties have the same client"),
        ({"journal": "journal"}, "journal must be an absolute path"),
    ],
)
def test_a_wrong_configuration_is_refused(session: Session, tmp_path: Path, config: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        Server(tmp_path, untouched).play(session, **config)


def test_a_job_that_is_aborted_goes_on_when_it_is_submitted_again(session: Session, tmp_path: Path) -> None:
    """North has answered before; it is not asked for another submission, and the error names who is awaited alone."""
    server = Server(tmp_path, lambda client, answer: None if client == "east" else answer)

    class Aborted:
        @property
        def triggered(self) -> bool:
            return awaits_east_alone(session)

    with pytest.raises(EvaluationError, match=r"submit it again to go on \[east: client 'east' was asked\]"):
        server.play(session, Aborted())
    again = Server(tmp_path, untouched)
    again.play(session)
    session.check("north", "south", "east")
    assert server.rounds()["north", 1] == 1
    assert ("north", 1) not in again.rounds()


def test_a_job_names_the_two_classes_that_sites_allow_and_nothing_else(tmp_path: Path) -> None:
    """Of our modules, too, FLARE would call anything that it can import, with a job's own arguments."""
    write_job(tmp_path / "job", {"session": "/nowhere/s.session"}, min_clients=1)
    configs = [file.read_text(encoding="utf-8") for file in (tmp_path / "job").rglob("config_fed_*.json")]
    assert set(re.findall(r'"path": "(fhe_auc[\w.]+)"', "".join(configs))) == set(CLASSES)
    assert not list((tmp_path / "job").rglob("*.py")), "a job brings no code"
    authorizer = ComponentPathAuthorizer()
    authorizer._get_policy = lambda **_: (CLASSES, ClassListEnforcementMode.ENFORCE, "")
    authorizer._job_has_byoc = lambda _: False
    for name in CLASSES:
        authorizer.authorize_component_config({"path": name})
    for name in ("cli.flare.flare", "machines.flare.controller.run", "machines.flare.executor.read_config"):
        with pytest.raises(UnsafeComponentError):
            authorizer.authorize_component_config({"path": f"fhe_auc.{name}"})


# FLARE itself.


def test_the_simulator_finds_the_fraction_of_evaluate() -> None:
    files = [str(EXAMPLES / f"{name}.csv") for name in ("north", "south", "west")]
    found = []
    for command in (["flare", "simulate"], ["evaluate"]):
        done = CliRunner().invoke(main, [*command, *files, "--protocol", "exact", "--json"])
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert found[0]["fraction"] == found[1]["fraction"] == "83/108"


@pytest.mark.slow
def test_the_training_example_prints_how_far_the_average_is_off() -> None:
    check_training_example("run_flare.py", {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"})


class Poc:
    """FLARE's POC mode: a server and three clients, each a process of its own with certificates, on ports of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
        self.mark = f"NVFLARE_POC_WORKSPACE={folder / 'poc'}"
        self.environment["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        admin = {"name": "admin@nvidia.com", "org": "nvidia", "type": "admin", "role": "project_admin"}
        server = {"name": "server", "org": "nvidia", "type": "server"}
        server |= {"fed_learn_port": port, "default_host": "localhost"}
        clients = [{"name": name, "org": "nvidia", "type": "client"} for name in ("north", "south", "east")]
        arguments = {
            "workspace.WorkspaceBuilder": {"template_file": "master_template.yml"},
            "static_file.StaticFileBuilder": {"config_folder": "config"},
            "cert.CertBuilder": {},
            "signature.SignatureBuilder": {},
        }
        builders = [{"path": f"nvflare.lighter.impl.{name}", "args": each} for name, each in arguments.items()]
        project = {"api_version": 3, "name": "trial", "description": "trial", "builders": builders}
        (folder / "project.yml").write_text(json.dumps({**project, "participants": [server, admin, *clients]}))
        self.call("poc", "prepare", "-i", str(folder / "project.yml"))
        self.kits = folder / "poc" / "trial" / "prod_00"
        for role in ("server", "north", "south", "east"):
            local = self.kits / role / "local"
            found = (local / "resources.json.default").read_text()
            resources = json.loads(found.replace("/tmp/nvflare", str(folder / "kept")))  # noqa: S108 - FLARE keeps jobs
            (local / "resources.json").write_text(json.dumps(resources | json.loads(RESOURCES)))
            (local / "authorization.json").write_text(AUTHORIZATION)

    def local(self, client: str) -> Path:
        return self.kits / client / "local"

    def call(self, *arguments: str) -> str:
        """What FLARE's command says once it succeeds: until the server is up, nobody can ask it."""

        def said() -> str:
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
            return "" if done.returncode else done.stdout or "\n"

        return until(said, self)

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

    def ask(self, *arguments: str) -> str:
        return self.call(*arguments, "--startup-kit", str(self.kits / "admin@nvidia.com"))

    def submit(self, job: Path) -> None:
        self.ask("job", "submit", "-j", str(job))

    def kill_job(self, client: str) -> None:
        """Kill the process that runs a job at a client, as a machine short of memory does; the client goes on."""
        assert len(kill(marked(self.mark, words=["\0-n\0", f"\0uid={client}\0"]))) == 1

    def close(self) -> None:
        for process in self._started.values():
            process.kill()
        kill(marked(self.mark))


@pytest.fixture
def poc(tmp_path: Path) -> Iterator[Poc]:
    made = Poc(tmp_path)
    yield made
    made.close()


def until(there: Callable[[], Any], poc: Poc) -> Any:
    told = lambda: {log.stem: log.read_text(errors="replace")[-3000:] for log in poc.folder.glob("*.log")}  # noqa: E731
    return wait_for(there, PATIENCE, told=told, pause=0.5)


@pytest.mark.slow
def test_a_killed_site_costs_a_job_and_no_job_brings_code(poc: Poc, site_rows: list[PartyData], tmp_path: Path) -> None:
    """East is killed while it is awaited: its rows are a pipe, which it refuses, and is asked again for."""
    session = Session(site_rows, tmp_path / "session", "exact").configure(poc.local)
    job = tmp_path / "job"
    (tmp_path / "run.toml").write_text(toml(session.run))
    made = CliRunner().invoke(main, ["flare", "job", str(job), str(tmp_path / "run.toml"), "--min-clients", "3"])
    assert made.exit_code == 0, made.output
    own = poc.local("east") / "fhe-auc" / "east.toml"
    right, pipe = own.read_text(), tmp_path / "rows.npz"
    os.mkfifo(pipe)
    own.write_text(right.replace(str(session.folder / "east.npz"), str(pipe)))
    poc.start("server", "north", "south", "east")
    until(lambda: all(name in poc.ask("system", "status") for name in session.sites), poc)
    poc.submit(job)
    until(lambda: awaits_east_alone(session), poc)
    poc.kill_job("east")
    failed = until(session.record, poc)
    assert re.search(r"submit it again to go on \[east: .*client 'east' was asked", failed["error"]["message"])
    own.write_text(right)
    poc.submit(job)
    until(lambda: is_finished(session.record()), poc)
    session.check("north", "south", "east")
    spy = tmp_path / "spied"
    config = next(job.rglob("config_fed_client.json"))
    told = json.loads(config.read_text())
    told["components"].append({"id": "spy", "path": "spy.Spy", "args": {}})
    config.write_text(json.dumps(told))
    (config.parent.parent / "custom").mkdir()
    (config.parent.parent / "custom" / "spy.py").write_text(f"open({str(spy)!r}, 'w')\nclass Spy: ...\n")
    poc.submit(job)
    until(lambda: "FAILED_TO_RUN" in poc.ask("job", "list"), poc)
    assert not spy.exists()
