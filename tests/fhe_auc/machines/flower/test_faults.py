"""Real faults in a real deployment: processes are killed, stopped, started late, and made to say nonsense."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc.base.errors import EvaluationError, TooFewPartiesError
from fhe_auc.base.names import HELPER
from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Flower
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import is_running
from tests.support.machines import MachineSession
from tests.support.processes import kill, marked, running_first, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(900)]

_PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1")
LIBRARY = next((str(found) for place in _PLACES for found in Path("/").glob(place[1:])), "")
needs_faketime = pytest.mark.skipif(not LIBRARY, reason="needs libfaketime (Debian: apt-get install libfaketime)")

Deploy = Callable[..., "Deployment"]

SLEEPS_AS_EVER = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)  # which faketime 0.9.10 breaks on Python 3.11 and later
"""
WAITS_IN_ROUND = """
import sys
if any('flwr-clientapp' in each for each in sys.orig_argv):
    import pathlib, time
    from fhe_auc.machines import site_role
    from fhe_auc.session.messages import Message
    answer = site_role.answer
    def later(config, message, *rest, **named):
        while Message.from_bytes(message, limit=len(message)).round == {} and not pathlib.Path({!r}).exists():
            time.sleep(0.1)
        return answer(config, message, *rest, **named)
    site_role.answer = later
"""
SLEEPS = "import sys, time\nif any('flwr-clientapp' in each for each in sys.orig_argv): time.sleep({})"
PATIENCE = 30.0
"""Seconds for a round: what an honest site takes on a busy machine, and more."""

LONG = 300.0
"""Where nobody is to be left out."""


class Deployment:
    """A SuperLink and a SuperNode for each site, and the helper if any, with a session that they have all joined."""

    def __init__(self, runtime: Flower, sites: list[PartyData], *, protocol: str = "semi-honest", **asked: Any) -> None:
        self.runtime, self.sites = runtime, sites
        self.session = MachineSession(sites, runtime.folder / "session", protocol, **asked)
        self.names, self.configs = [data.name for data in sites], self.session.roles
        runtime.start_superlink()
        self.keys, nodes = {}, []
        for number, name in enumerate(self.configs):
            self.keys[name], public = node_keys(self.session.folder, f"node-{number}")
            nodes.append(f"{name}:{runtime.register(public)}")
        self.config = {**self.session.aggregator, "nodes": ", ".join(nodes), "round-timeout": PATIENCE}

    def start(self, name: str, variables: dict[str, str] | None = None, **changes: str) -> None:
        self.runtime.start_supernode(name, self.keys[name], {**self.configs[name], **changes}, **(variables or {}))

    def start_all(self, *names: str) -> None:
        """Start nodes as they are configured."""
        for name in names:
            self.start(name)

    def run(self, **changes: Any) -> dict[str, Any]:
        return self.runtime.run_app({**self.config, **changes})

    def run_during(self, action: Callable[[], None], **changes: Any) -> dict[str, Any]:
        """Run the session, and do something meanwhile."""
        failures: list[BaseException] = []

        def act() -> None:
            try:
                action()
            except BaseException as error:  # shown where the test looks
                failures.append(error)

        acting = threading.Thread(target=act)
        acting.start()
        try:
            return self.run(**changes)
        finally:
            acting.join()
            assert not failures, failures

    def log_of_run(self) -> str:
        """What the SuperLink has kept of the only run's own log."""
        (run,) = json.loads(self.runtime.processes.call(["flwr", "list", "--format", "json"]))["runs"]
        return self.runtime.processes.call(["flwr", "log", str(run["run-id"]), "--show"])

    def log_of(self, name: str) -> Path:
        """The log of a node, or of the SuperLink."""
        return self.runtime.folder / f"{name}.log"

    def sent(self, number: int) -> Path:
        """The message of a round, in the aggregator's journal."""
        return self.runtime.folder / "journal" / f"round-{number}.message"

    def has_result(self, name: str) -> bool:
        return bool(self.session.results(name))

    def children_of(self, name: str, program: str) -> list[int]:
        """Ids of the processes with which a site answers."""
        return marked(f"FHE_AUC_SITE={name}", f"FLWR_HOME={self.runtime.folder}/flwr", words=[program])

    def wait_until_it_answers(self, name: str, seconds: float = 60.0) -> None:
        wait_for(lambda: bool(self.children_of(name, "flwr-clientapp")), seconds)

    def kill(self, name: str, program: str = "") -> list[int]:
        """Kill a site's processes of a program, or all; return the ids of those that were still there."""
        return kill(self.children_of(name, program))

    def kill_superlink(self) -> None:
        self.runtime._superlink.kill()
        self.runtime._superlink.wait()


def patched(deployment: Deployment, code: str, name: str = "east") -> dict[str, str]:
    """Variables with which a node's Python runs some code of the test's first."""
    return {**running_first(deployment.runtime.folder / f"patch-{name}", code), "FHE_AUC_SITE": name}


@pytest.fixture
def deploy(site_rows: list[PartyData]) -> Iterator[Deploy]:
    """Deploys a session of three sites, some of which are there from the start."""
    with Flower(deployed=True) as runtime:

        def deployed(min_parties: int, *names: str, **asked: Any) -> Deployment:
            made = Deployment(runtime, site_rows, min_parties=min_parties, **asked)
            made.start_all(*names)
            return made

        yield deployed


def assert_all_have_it(deployment: Deployment, record: dict[str, Any]) -> None:
    assert record["counted"] == record["delivered"] == deployment.names
    deployment.session.check()


class Clock:
    """The time of day at a site, as all its processes see it; it can be changed while they run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)
        self.variables = {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # nobody sets that one
        }

    def set(self, seconds_ahead: int) -> None:
        fresh = self._file.with_suffix(".fresh")
        fresh.write_text(f"{seconds_ahead:+d}s\n")
        fresh.replace(self._file)


def test_a_site_that_raises_is_left_out_and_its_words_stay_with_it(deploy: Deploy) -> None:
    deployment = deploy(2, "north", "south")
    deployment.start("east", data="/nowhere/patient-4711.csv")
    assert deployment.run()["counted"] == ["north", "south"]
    deployment.session.check("north", "south")
    log = deployment.log_of_run()
    assert "InputError" in log
    assert "4711" not in log
    assert "4711" not in deployment.log_of("superlink").read_text()
    assert "4711" in deployment.log_of("east").read_text()


def test_a_site_whose_process_is_killed_in_mid_round_is_asked_again(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    deployment.start("east", patched(deployment, SLEEPS.format(5)))
    killed: list[int] = []

    def act() -> None:
        deployment.wait_until_it_answers("east")
        killed.extend(deployment.kill("east", "flwr-clientapp"))

    record = deployment.run_during(act, **{"round-timeout": LONG})
    assert killed
    assert_all_have_it(deployment, record)


def test_a_run_whose_server_is_killed_goes_on_when_it_is_run_again(deploy: Deploy) -> None:
    """Once all but one have submitted; these are not asked again for what has arrived."""
    deployment = deploy(3, "north", "south")
    log = deployment.sent(1).with_suffix(".submissions")

    def two_have_submitted() -> bool:
        return log.exists() and sum(name in log.read_bytes() for name in (b"north", b"south")) == 2

    def act() -> None:
        wait_for(two_have_submitted)
        kill(marked(f"FLWR_HOME={deployment.runtime.folder}/flwr", words=["flwr-serverapp"]))

    with pytest.raises(EvaluationError, match="Flower has ended the run"):
        deployment.run_during(act, **{"round-timeout": LONG})
    deployment.start("east")
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))


def test_a_site_runs_no_other_bundle_than_the_one_it_was_started_for(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    deployment.runtime.bundle_sha256, right = "0" * 64, deployment.runtime.bundle_sha256
    deployment.start("east")
    deployment.runtime.bundle_sha256 = right
    with pytest.raises(TooFewPartiesError, match=r"missing: 'east'.*could not answer"):  # and nobody waits for it
        deployment.run()
    log = deployment.log_of("east").read_text()
    assert "FAB verification failed" in log
    assert "Start `flwr-clientapp` process" not in log
    assert "Start `flwr-clientapp` process" in deployment.log_of("north").read_text()


def test_a_node_that_is_killed_while_it_answers_leaves_no_process_with_keys_and_is_named(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    stubborn = "import signal\nfor each in (1, 2, 15): signal.signal(each, signal.SIG_IGN)\n" + SLEEPS.format(999)
    deployment.start("east", patched(deployment, stubborn))
    found: list[int] = []

    def act() -> None:
        deployment.wait_until_it_answers("east")
        found.extend(deployment.children_of("east", "flwr-clientapp"))
        deployment.kill("east", "supernode")

    started = time.monotonic()
    with pytest.raises(TooFewPartiesError, match="missing: 'east'"):
        deployment.run_during(act)
    assert time.monotonic() - started < 3 * PATIENCE
    assert found
    assert not any(deployment.has_result(name) for name in deployment.names)
    wait_for(lambda: not deployment.children_of("east", ""))


@needs_faketime
@pytest.mark.parametrize("ahead", [3, -200])
def test_a_site_whose_clock_is_off_by_what_is_allowed_has_the_result(ahead: int, deploy: Deploy) -> None:
    deployment = deploy(3)
    clock = Clock(deployment.runtime.folder)
    clock.set(ahead)
    deployment.start_all("north", "south")
    deployment.start("east", {**patched(deployment, SLEEPS_AS_EVER), **clock.variables})
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))
    assert "this machine's clock is" in deployment.log_of("east").read_text()


@needs_faketime
@pytest.mark.parametrize(("ahead", "which"), [(10, "ahead of"), (-400, "behind")])
@pytest.mark.parametrize("while_it_answers", [False, True])
def test_a_site_whose_clock_is_wrong_says_so_and_has_the_result_once_it_is_set_right(
    while_it_answers: bool, ahead: int, which: str, deploy: Deploy
) -> None:
    deployment = deploy(3)
    clock = Clock(deployment.runtime.folder)
    deployment.start_all("north", "south")
    if not while_it_answers:
        clock.set(ahead)
    log = deployment.log_of("east")
    variables = {**patched(deployment, SLEEPS_AS_EVER + SLEEPS.format(5)), **clock.variables}
    deployment.start("east", variables)
    told: list[str] = []

    def repair() -> None:
        if while_it_answers:
            deployment.wait_until_it_answers("east")
            clock.set(ahead)
        wait_for(lambda: not deployment.children_of("east", ""), LONG)
        told.extend(log.read_text().splitlines())
        clock.set(0)
        deployment.start("east", variables)

    record = deployment.run_during(repair, **{"round-timeout": LONG})
    # Under faketime what the node has started may outlive it for a moment, and have a last word of its own.
    (why,) = (line for line in told if line.startswith("error: this machine's clock is "))
    assert which in why
    assert "set the clock (NTP), and start again" in why
    assert_all_have_it(deployment, record)


# --- With a helper ----------------------------------------------------------------------------------------------------

HELPED: dict[str, Any] = {"protocol": "exact", "keys": "helper", "max_rows": 20_000}


@pytest.mark.parametrize(("who", "number"), [("superlink", 2), ("superlink", 3), (HELPER, 3)])
def test_a_kill_while_the_helper_is_awaited_costs_the_same_bytes_again(who: str, number: int, deploy: Deploy) -> None:
    """A helper decrypts when it is back: what it has opened, and the key for that, are in its key store."""
    deployment = deploy(3, "north", "south", "east", **HELPED)
    go = deployment.runtime.folder / "go"
    deployment.start(HELPER, patched(deployment, WAITS_IN_ROUND.format(number, str(go)), HELPER))
    question: list[bytes] = []

    def act() -> None:
        wait_for(deployment.sent(number).exists, LONG)
        deployment.wait_until_it_answers(HELPER, LONG)
        question.append(deployment.sent(number).read_bytes())
        if who == HELPER:
            deployment.kill(HELPER)
            deployment.start(HELPER)
        else:
            deployment.kill_superlink()

    if who == HELPER:
        record = deployment.run_during(act, **{"round-timeout": 2 * LONG})
    else:
        with pytest.raises(EvaluationError):
            deployment.run_during(act, **{"round-timeout": LONG})
        wait_for(lambda: not is_running(deployment.sent(1).parent), LONG)
        go.touch()
        deployment.runtime.start_superlink()
        record = deployment.run(**{"round-timeout": LONG})
    assert deployment.sent(number).read_bytes() == question[0]
    assert_all_have_it(deployment, record)
