"""The controller and the executor: what a client does wrong ends nothing, and tells nothing.

What letters may do is `test_postman.py`; over FLARE itself: `tests/documents/test_carrier_guides.py`.
"""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", minversion="2.9", reason="the extra fhe-auc[flare] is not installed")

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContextManager
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fhe_auc.base.errors import InputError
from fhe_auc.machines.flare import JOB, postmen
from fhe_auc.machines.flare.postmen import LETTER, REFUSED, Answerer, Carrier, carry
from tests.support.exchanges import have
from tests.support.machines import toml

NAMES = ("north", "south")
GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "flare.md"
Spoil = Callable[[str, Shareable], Shareable]


@pytest.fixture(autouse=True)
def configured(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sites are, and there are no pauses."""
    (world / "local" / "fhe-auc").mkdir(parents=True)
    for name in NAMES:
        config = {"exchange": str(world / name), "name": name}
        (world / "local" / "fhe-auc" / f"site-{name}.toml").write_text(toml(config))
    monkeypatch.setattr(postmen, "_POLL", 0.01)
    monkeypatch.setattr(postmen, "_WAIT", 0.0)


class Server:
    """FLARE's own server of tasks in this process, whose clients are threads.

    `spoil` takes a client's name and its answer, and returns what comes.
    """

    def __init__(self, folder: Path, spoil: Spoil) -> None:
        self._folder, self._spoil = folder, spoil
        self._clients = [Client(f"site-{name}", name) for name in NAMES]
        self._contexts = FLContextManager(engine=self, identity_name="server", job_id="trial")
        self._aborted = Signal()
        self.tasks, self.controller = WFCommServer(), Carrier()
        self.controller.set_communicator(self.tasks)

    # What is asked of FLARE's engine.
    def get_clients(self) -> list[Client]:
        return self._clients

    def new_context(self) -> Any:
        return self._contexts.new_context()

    def fire_event(self, *event: object) -> None:
        pass

    def play(self, until: Callable[[], bool], **changes: Any) -> None:
        """Carry until that is so; a test that waits for it in vain times out."""
        config = {"exchange": str(self._folder / "server"), "clients": {n: f"site-{n}" for n in NAMES}, "every": 0.01}
        with self.new_context() as context:
            self.tasks.initialize_run(context)
            clients = [threading.Thread(target=self._answer, args=(each,)) for each in self._clients]
            watching = threading.Thread(target=self._watch, args=(until,))
            for each in (*clients, watching):
                each.start()
            try:
                carry(self.controller, context, self._aborted, {**config, **changes})
            finally:
                self._aborted.trigger("over")
                for each in (*clients, watching):
                    each.join()
                self.tasks.finalize_run(context)

    def _watch(self, until: Callable[[], bool]) -> None:
        pause = threading.Event()
        while not until() and not self._aborted.triggered:
            pause.wait(0.02)
        self._aborted.trigger("over")

    def _answer(self, client: Client) -> None:
        workspace = SimpleNamespace(get_site_config_dir=lambda: str(self._folder / "local"))
        engine = SimpleNamespace(get_workspace=lambda: workspace)
        there = SimpleNamespace(get_engine=lambda: engine, get_identity_name=lambda: client.name)
        pause = threading.Event()
        while not self._aborted.triggered:
            with self.new_context() as context:
                task, number, message = self.tasks.process_task_request(client, context)
            if not task:
                pause.wait(0.02)
                continue
            answer = self._spoil(client.name, Answerer().execute(task, message, there, None))
            with self.new_context() as context:
                self.tasks.process_submission(client, task, number, answer, context)


@pytest.mark.parametrize("clients", [{name: f"site-{name}" for name in NAMES}, {}])
def test_all_exchanges_get_what_all_others_bring(world: Path, clients: dict[str, str]) -> None:
    Server(world, lambda client, answer: answer).play(lambda: have(world), clients=clients)
    assert have(world)


WRONG = {
    "an error": make_reply("OK\nscore 0.123 of patient 7"),
    "text": Shareable({LETTER: "score 0.123"}),
    "junk": Shareable({LETTER: b"junk"}),
    "nothing": Shareable({}),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_client_that_answers_wrongly_holds_up_nobody_and_is_written_to_again(world: Path, wrong: str) -> None:
    times = iter(range(2))

    def spoil(client: str, answer: Shareable) -> Shareable:
        return WRONG[wrong] if client == "site-south" and next(times, None) is not None else answer

    Server(world, spoil).play(lambda: have(world))
    assert have(world)


def test_of_what_fails_at_a_site_its_kind_alone_leaves_it(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The text is in the site's own log on stderr, and in none of FLARE's, which it streams to the server."""
    (world / "north" / "secret-name").write_text("x")
    config = {"exchange": str(world / "north" / "secret-name"), "name": "north"}
    (world / "local" / "fhe-auc" / "site-north.toml").write_text(toml(config))
    seen: list[Shareable] = []

    def watch(client: str, answer: Shareable) -> Shareable:
        seen.extend([answer] if client == "site-north" else [])
        return answer

    Server(world, watch).play(lambda: bool(seen))
    assert dict(seen[0]).keys() - {"__headers__"} == {REFUSED}
    assert (seen[0][REFUSED], seen[0].get_return_code()) == ("InputError", ReturnCode.EXECUTION_RESULT_ERROR)
    assert "secret-name" in capfd.readouterr().err


def test_a_configuration_that_cannot_be_is_refused(world: Path) -> None:
    for changes in ({"exchange": ""}, {"clients": ["north"]}, {"clients": {"a": "x", "b": "x"}}):
        with pytest.raises(InputError):
            Server(world, lambda client, answer: answer).play(lambda: False, **changes)


def test_the_job_names_our_two_classes_and_no_others_and_the_guide_has_all_allow_these() -> None:
    job = [
        json.loads((JOB / "app" / "config" / f"config_fed_{side}.json").read_text()) for side in ("server", "client")
    ]
    (workflow,), (executor,) = job[0]["workflows"], job[1]["executors"]
    allowed = re.findall(r'"(fhe_auc\.[\w.]+)"', GUIDE.read_text("utf-8"))
    ours = [f"{each.__module__}.{each.__qualname__}" for each in (Carrier, Answerer)]
    assert [workflow["path"], executor["executor"]["path"]] == allowed == ours
    assert not job[0]["components"] + job[1]["components"]
