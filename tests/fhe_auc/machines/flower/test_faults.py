"""Real faults in a real deployment: processes are killed, stopped, started late, and made to say nonsense."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc import federated_auc
from fhe_auc.base.errors import EvaluationError, TooFewPartiesError
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.rows.party_data import PartyData
from tests.support.deployment import LONG, PATIENCE, SLEEPS, Deployment, patched, wait_for
from tests.support.machines import GRID

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(600)]

Deploy = Callable[..., Deployment]

SLEEPS_AS_EVER = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)  # which faketime 0.9.10 breaks on Python 3.11 and later
"""


@pytest.fixture
def deploy(site_rows: list[PartyData]) -> Iterator[Deploy]:
    """Deploys a session of three sites, some of which are there from the start."""
    with Runtime(secured=True) as runtime:

        def deployed(min_parties: int, *names: str) -> Deployment:
            made = Deployment(runtime, site_rows, min_parties=min_parties)
            made.start_all(*names)
            return made

        yield deployed


def assert_two_have_it(deployment: Deployment, record: dict[str, Any]) -> None:
    assert record["counted"] == ["north", "south"]
    expected = federated_auc(deployment.sites[:2], thresholds=GRID)
    for name in ("north", "south"):
        found = deployment.auc(name)
        assert found.auc == pytest.approx(expected.auc, abs=1e-6)
        assert found.parties == 2
        assert any("1 of 3 parties are not in the result" in warning for warning in found.warnings)
    assert not deployment.has_result("east")


def assert_all_have_it(deployment: Deployment, record: dict[str, Any]) -> None:
    assert record["counted"] == record["delivered"] == ["north", "south", "east"]
    expected = federated_auc(deployment.sites, thresholds=GRID)
    assert [deployment.auc(name).auc for name in deployment.names] == pytest.approx([expected.auc] * 3, abs=1e-6)


class Cable:
    """A connection to an address that can be cut: all that is on its way is lost, and nothing new gets through."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._whole, self._ends = True, set[socket.socket]()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
        self._listening.close()

    def cut(self) -> None:
        self._whole = False
        for end in list(self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._whole = True

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._ends |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Clock:
    """The time of day at a site, as all its processes see it; it can be changed while they run."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("faketime")
        if program is None:
            pytest.skip("faketime is not installed (a package of Debian)")
        self._file = folder / "clock"
        self.set(0)
        asked = [program, "-m", "-f", "+0s", "printenv", "LD_PRELOAD"]
        library = subprocess.run(asked, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        self.variables = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # nobody sets that one
        }

    def set(self, seconds_ahead: int) -> None:
        fresh = self._file.with_suffix(".fresh")
        fresh.write_text(f"{seconds_ahead:+d}s\n")
        fresh.replace(self._file)


def test_a_site_that_never_answers_is_left_out(deploy: Deploy) -> None:
    deployment = deploy(2, "north", "south")
    deployment.start("east", patched(deployment, SLEEPS.format(999)))
    started = time.monotonic()
    assert_two_have_it(deployment, deployment.run())
    assert time.monotonic() - started < 3 * PATIENCE


def test_a_site_that_raises_is_left_out_and_its_words_stay_with_it(deploy: Deploy) -> None:
    deployment = deploy(2, "north", "south")
    deployment.start("east", data="/nowhere/patient-4711.csv")
    assert_two_have_it(deployment, deployment.run())
    log = deployment.log_of_run()
    assert "InputError" in log
    assert "4711" not in log
    assert "4711" not in deployment.log_of("superlink").read_text()
    assert "4711" in deployment.log_of("east").read_text()


def test_a_site_that_says_nonsense_is_left_out(deploy: Deploy) -> None:
    deployment = deploy(2, "north", "south")
    nonsense = """
import sys
if any('flwr-clientapp' in each for each in sys.orig_argv):
    import fhe_auc.machines.site_state
    fhe_auc.machines.site_state.answer = lambda *given: bytes(range(256)) * 100
"""
    deployment.start("east", patched(deployment, nonsense))
    assert_two_have_it(deployment, deployment.run())


def test_a_site_whose_process_is_killed_in_mid_round_is_asked_again(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    deployment.start("east", patched(deployment, SLEEPS.format(5)))
    killed: list[int] = []

    def kill() -> None:
        deployment.wait_until_it_answers("east")
        killed.extend(deployment.kill("east", "flwr-clientapp"))

    record = deployment.run_during(kill, **{"round-timeout": LONG})
    assert killed
    assert_all_have_it(deployment, record)


def test_a_run_whose_server_is_killed_goes_on_when_it_is_run_again(deploy: Deploy) -> None:
    """Once all but one have submitted; these are not asked again for what has arrived."""
    deployment = deploy(3, "north", "south")
    journal = deployment.runtime.folder / "journal"

    def two_have_submitted() -> bool:
        log = journal / "round-1.submissions"
        return log.exists() and sum(name in log.read_bytes() for name in (b"north", b"south")) == 2

    def kill() -> None:
        wait_for(two_have_submitted)
        deployment.kill_server_app()

    with pytest.raises(EvaluationError, match="Flower has ended the run"):
        deployment.run_during(kill, **{"round-timeout": LONG})
    deployment.start("east")
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))


def test_a_site_whose_network_is_cut_takes_part_once_it_is_back(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    with Cable(deployment.runtime.superlink) as cable:
        deployment.runtime.superlink, direct = cable.address, deployment.runtime.superlink
        deployment.start("east", patched(deployment, SLEEPS.format(5)))
        deployment.runtime.superlink = direct

        def cut() -> None:
            deployment.wait_until_it_answers("east")  # it is about to answer
            cable.cut()
            time.sleep(15)
            cable.mend()

        record = deployment.run_during(cut, **{"round-timeout": LONG})
    assert_all_have_it(deployment, record)


def test_a_node_that_is_killed_ends_a_session_of_all_with_an_error_that_names_it(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    deployment.start("east", patched(deployment, SLEEPS.format(20)))

    def kill() -> None:
        deployment.wait_until_it_answers("east")
        deployment.kill("east")

    started = time.monotonic()
    with pytest.raises(TooFewPartiesError, match="missing: 'east'"):
        deployment.run_during(kill)
    assert time.monotonic() - started < 3 * PATIENCE
    assert not any(deployment.has_result(name) for name in deployment.names)


def test_a_site_that_joins_late_is_waited_for(deploy: Deploy) -> None:
    deployment = deploy(3, "north", "south")
    late = threading.Timer(12.0, deployment.start, ["east"])
    late.start()
    assert_all_have_it(deployment, deployment.run())
    late.join()


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


def test_a_superlink_that_is_killed_and_started_again_has_its_nodes(deploy: Deploy) -> None:
    """Nobody does anything at the sites, nor registers a key again."""
    deployment = deploy(3, "north", "south", "east")
    log = deployment.log_of("superlink")
    wait_for(lambda: log.read_text().count("Activated node_id") == 3)
    deployment.kill_superlink()
    deployment.runtime.start_superlink()
    assert_all_have_it(deployment, deployment.run())


def test_a_node_that_is_killed_while_it_answers_leaves_no_process_with_keys(deploy: Deploy) -> None:
    deployment = deploy(3)
    stubborn = "import signal\nfor each in (1, 2, 15): signal.signal(each, signal.SIG_IGN)\n" + SLEEPS.format(999)
    deployment.start("east", patched(deployment, stubborn))
    found: list[int] = []

    def kill() -> None:
        deployment.wait_until_it_answers("east")
        found.extend(deployment.children_of("east", "flwr-clientapp"))
        deployment.kill("east", "supernode")

    with pytest.raises(TooFewPartiesError):
        deployment.run_during(kill)
    assert found
    wait_for(lambda: not deployment.children_of("east", ""))


@pytest.mark.parametrize("ahead", [3, -200])
def test_a_site_whose_clock_is_off_by_what_is_allowed_has_the_result(ahead: int, deploy: Deploy) -> None:
    deployment = deploy(3)
    clock = Clock(deployment.runtime.folder)
    clock.set(ahead)
    deployment.start_all("north", "south")
    deployment.start("east", {**patched(deployment, SLEEPS_AS_EVER), **clock.variables})
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))
    assert "this machine's clock is" in deployment.log_of("east").read_text()


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
