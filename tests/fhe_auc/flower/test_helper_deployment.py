"""A session with a helper in a real deployment: nodes that never come, vanish, come late or under another's name."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc.base.errors import EvaluationError, TooFewPartiesError
from fhe_auc.base.party_names import HELPER
from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.journal import is_running
from tests.support.deployment import GRID, LONG, PATIENCE, Deployment, patched, wait_for
from tests.support.exact_sessions import both_protocols, pairs_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(900)]

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


@pytest.fixture
def deploy(site_rows: list[PartyData]) -> Iterator[Callable[..., Deployment]]:
    def made(least: int = 2, protocol: str = "exact") -> Deployment:
        return Deployment(runtime, site_rows, min_parties=least, protocol=protocol, keys="helper", max_rows=20_000)

    with Runtime(secured=True) as runtime:
        yield made


def journal(deployment: Deployment) -> Path:
    return deployment.runtime.folder / "journal"


def sent(deployment: Deployment, number: int) -> Path:
    return journal(deployment) / f"round-{number}.message"


def has_submitted(deployment: Deployment, name: str) -> bool:
    log = journal(deployment) / "round-1.submissions"
    return log.exists() and name.encode() in log.read_bytes()


def during(deployment: Deployment, action: Callable[[], None], **changes: Any) -> dict[str, Any]:
    """Run a session, and do something meanwhile."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:  # shown where the test looks
            failures.append(error)

    acting = threading.Thread(target=act)
    acting.start()
    try:
        return deployment.run(**changes)
    finally:
        acting.join()
        assert not failures, failures


def assert_they_have_it(deployment: Deployment, sites: list[PartyData], counted: tuple[str, ...], *have: str) -> None:
    expected = pairs_of([data for data in sites if data.name in counted], GRID)[0]
    for name in deployment.names:
        assert deployment.has_result(name) == (name in have)
        if name in have:
            assert deployment.auc(name).fraction == expected


@both_protocols
def test_every_site_has_the_exact_fraction(
    protocol: str, deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    deployment = deploy(3, protocol)
    for name in (*deployment.names, HELPER):
        deployment.start(name)
    record = deployment.run(**{"round-timeout": LONG})
    assert record["counted"] == record["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


def test_a_site_that_never_comes_is_missing_by_name_and_the_same_session_goes_on_once_it_is_there(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    """All three are needed: nothing was opened without the third, and its coming takes no new keys."""
    deployment = deploy(3)
    for name in ("north", "south", HELPER):
        deployment.start(name)
    with pytest.raises(TooFewPartiesError, match=r"missing: 'east'.*east: it never connected"):
        deployment.run()
    before = sent(deployment, 1).read_bytes()
    assert not sent(deployment, 2).exists()
    deployment.start("east")
    assert deployment.run(**{"round-timeout": LONG})["delivered"] == deployment.names
    assert sent(deployment, 1).read_bytes() == before
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


def test_a_site_that_comes_after_submissions_have_closed_is_not_asked(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    deployment = deploy()
    for name in ("north", "south"):
        deployment.start(name)

    def come_late() -> None:
        wait_for(sent(deployment, 2).exists, LONG)
        deployment.start("east")
        wait_for(lambda: "supernode" in (deployment.runtime.folder / "east.log").read_text().lower(), LONG)
        deployment.start(HELPER)

    record = during(deployment, come_late, **{"round-timeout": LONG, "close-at": 2})
    assert (record["counted"], record["missing"]) == (["north", "south"], ["east"])
    assert_they_have_it(deployment, site_rows, ("north", "south"), "north", "south")


def test_a_site_that_vanishes_once_it_has_submitted_counts_and_gets_its_result_from_a_second_run(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    deployment = deploy()
    for name in ("north", "south"):
        deployment.start(name)
    deployment.start("east", {"FHE_AUC_SITE": "east"})

    def vanish() -> None:
        wait_for(sent(deployment, 2).exists, LONG)
        for pid in deployment.children_of("east", ""):
            os.kill(pid, signal.SIGKILL)
        deployment.start(HELPER)

    record = during(deployment, vanish, **{"round-timeout": 2 * PATIENCE})
    assert (record["counted"], record["delivered"]) == (["north", "south", "east"], ["north", "south"])
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), "north", "south")
    deployment.start("east")
    assert deployment.run(**{"round-timeout": LONG})["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


def test_a_site_with_two_nodes_counts_once(deploy: Callable[..., Deployment], site_rows: list[PartyData]) -> None:
    """Where the aggregator has not said which node is which party."""
    deployment = deploy(3)
    deployment.keys["twin"], public = node_keys(deployment.runtime.folder / "session", "node-twin")
    deployment.runtime.register(public)
    deployment.configs["twin"] = deployment.configs["north"]
    for name in (*deployment.names, "twin", HELPER):
        deployment.start(name)
    record = deployment.run(**{"round-timeout": LONG, "nodes": ""})
    assert record["counted"] == record["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


def test_a_node_that_answers_as_another_site_is_left_out_by_its_own_name(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    deployment = deploy()
    for name in ("north", "south", HELPER):
        deployment.start(name)
    deployment.start(
        "east",
        store=deployment.configs["south"]["store"],
        **{
            "passphrase-file": deployment.configs["south"]["passphrase-file"],
            "data": deployment.configs["south"]["data"],
            "results": deployment.configs["south"]["results"],
        },
    )
    record = deployment.run()
    assert (record["counted"], record["missing"]) == (["north", "south"], ["east"])
    (run,) = json.loads(deployment.runtime.processes.call(["flwr", "list", "--format", "json"]))["runs"]
    log = deployment.runtime.processes.call(["flwr", "log", str(run["run-id"]), "--show"])
    assert "submission of party 'east' refused" in log
    assert_they_have_it(deployment, site_rows, ("north", "south"), "north", "south")


def test_a_site_in_the_helpers_place_ends_the_session_with_the_helpers_name(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    """And once the helper is there, the same session goes on."""
    deployment = deploy()
    for name in deployment.names:
        deployment.start(name)
    deployment.configs[HELPER], right = deployment.configs["south"], deployment.configs[HELPER]
    deployment.start(HELPER, {"FHE_AUC_SITE": HELPER})
    with pytest.raises(TooFewPartiesError, match=r"missing: 'helper-1'.*helper-1: it could not answer .*MessageError"):
        deployment.run()
    for pid in deployment.children_of(HELPER, ""):
        os.kill(pid, signal.SIGKILL)
    deployment.configs[HELPER] = right
    deployment.start(HELPER)  # the SuperLink has it wait until it has noticed
    assert deployment.run(**{"round-timeout": LONG})["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


@pytest.mark.parametrize("number", [2, 3])
def test_a_superlink_that_is_killed_while_the_helper_is_awaited_costs_a_second_run_with_the_same_bytes(
    number: int, deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    deployment = deploy(3)
    go = deployment.runtime.folder / "go"
    for name in deployment.names:
        deployment.start(name)
    deployment.start(HELPER, patched(deployment, WAITS_IN_ROUND.format(number, str(go)), HELPER))
    question: list[bytes] = []

    def kill() -> None:
        wait_for(sent(deployment, number).exists, LONG)
        wait_for(lambda: bool(deployment.children_of(HELPER, "flwr-clientapp")), LONG)
        question.append(sent(deployment, number).read_bytes())
        deployment.runtime._superlink.kill()
        deployment.runtime._superlink.wait()

    with pytest.raises(EvaluationError):
        during(deployment, kill, **{"round-timeout": LONG})
    wait_for(lambda: not is_running(journal(deployment)), LONG)
    go.touch()
    deployment.runtime.start_superlink()
    record = deployment.run(**{"round-timeout": LONG})
    assert sent(deployment, number).read_bytes() == question[0]
    assert record["counted"] == record["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)


def test_a_helper_that_is_killed_between_opening_and_decrypting_decrypts_when_it_is_back(
    deploy: Callable[..., Deployment], site_rows: list[PartyData]
) -> None:
    """What it has opened, and the key with which it decrypts, are in its key store."""
    deployment = deploy(3)
    for name in deployment.names:
        deployment.start(name)
    never = str(deployment.runtime.folder / "never")
    deployment.start(HELPER, patched(deployment, WAITS_IN_ROUND.format(3, never), HELPER))
    question: list[bytes] = []

    def kill() -> None:
        wait_for(sent(deployment, 3).exists, LONG)
        wait_for(lambda: bool(deployment.children_of(HELPER, "flwr-clientapp")), LONG)
        question.append(sent(deployment, 3).read_bytes())
        for pid in deployment.children_of(HELPER, ""):
            os.kill(pid, signal.SIGKILL)
        deployment.start(HELPER)

    record = during(deployment, kill, **{"round-timeout": 2 * LONG})
    assert sent(deployment, 3).read_bytes() == question[0]
    assert record["counted"] == record["delivered"] == deployment.names
    assert_they_have_it(deployment, site_rows, tuple(deployment.names), *deployment.names)
