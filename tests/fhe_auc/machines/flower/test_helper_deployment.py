"""A session with a helper in a real deployment: nodes that never come, vanish, come late or under another's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc.base.errors import EvaluationError, TooFewPartiesError
from fhe_auc.base.party_names import HELPER
from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import is_running
from tests.support.deployment import LONG, PATIENCE, Deployment, patched, wait_for
from tests.support.exact_sessions import both_protocols, pairs_of
from tests.support.machines import GRID

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(900)]

Deploy = Callable[..., Deployment]

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
def deploy(site_rows: list[PartyData]) -> Iterator[Deploy]:
    def made(least: int = 2, protocol: str = "exact") -> Deployment:
        return Deployment(runtime, site_rows, min_parties=least, protocol=protocol, keys="helper", max_rows=20_000)

    with Runtime(secured=True) as runtime:
        yield made


def journal(deployment: Deployment) -> Path:
    return deployment.runtime.folder / "journal"


def sent(deployment: Deployment, number: int) -> Path:
    return journal(deployment) / f"round-{number}.message"


def assert_all_have_it(deployment: Deployment, record: dict[str, Any]) -> None:
    assert record["counted"] == record["delivered"] == deployment.names
    assert_they_have_it(deployment, tuple(deployment.names), *deployment.names)


def assert_they_have_it(deployment: Deployment, counted: tuple[str, ...], *have: str) -> None:
    expected = pairs_of([data for data in deployment.sites if data.name in counted], GRID)[0]
    for name in deployment.names:
        assert deployment.has_result(name) == (name in have)
        if name in have:
            assert deployment.auc(name).fraction == expected


@both_protocols
def test_every_site_has_the_exact_fraction(protocol: str, deploy: Deploy) -> None:
    deployment = deploy(3, protocol)
    deployment.start_all(*deployment.names, HELPER)
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))


def test_a_site_that_never_comes_is_missing_by_name_and_the_same_session_goes_on_once_it_is_there(
    deploy: Deploy,
) -> None:
    """All three are needed: nothing was opened without the third, and its coming takes no new keys."""
    deployment = deploy(3)
    deployment.start_all("north", "south", HELPER)
    with pytest.raises(TooFewPartiesError, match=r"missing: 'east'.*east: it never connected"):
        deployment.run()
    before = sent(deployment, 1).read_bytes()
    assert not sent(deployment, 2).exists()
    deployment.start("east")
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))
    assert sent(deployment, 1).read_bytes() == before


def test_a_site_that_comes_after_submissions_have_closed_is_not_asked(deploy: Deploy) -> None:
    deployment = deploy()
    deployment.start_all("north", "south")

    def come_late() -> None:
        wait_for(sent(deployment, 2).exists, LONG)
        deployment.start("east")
        wait_for(lambda: "supernode" in deployment.log_of("east").read_text().lower(), LONG)
        deployment.start(HELPER)

    record = deployment.run_during(come_late, **{"round-timeout": LONG, "close-at": 2})
    assert (record["counted"], record["missing"]) == (["north", "south"], ["east"])
    assert_they_have_it(deployment, ("north", "south"), "north", "south")


def test_a_site_that_vanishes_once_it_has_submitted_counts_and_gets_its_result_from_a_second_run(
    deploy: Deploy,
) -> None:
    deployment = deploy()
    deployment.start_all("north", "south")
    deployment.start("east", {"FHE_AUC_SITE": "east"})

    def vanish() -> None:
        wait_for(sent(deployment, 2).exists, LONG)
        deployment.kill("east")
        deployment.start(HELPER)

    record = deployment.run_during(vanish, **{"round-timeout": 2 * PATIENCE})
    assert (record["counted"], record["delivered"]) == (["north", "south", "east"], ["north", "south"])
    assert_they_have_it(deployment, tuple(deployment.names), "north", "south")
    deployment.start("east")
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))


def test_a_site_with_two_nodes_counts_once(deploy: Deploy) -> None:
    """Where the aggregator has not said which node is which party."""
    deployment = deploy(3)
    deployment.keys["twin"], public = node_keys(deployment.runtime.folder / "session", "node-twin")
    deployment.runtime.register(public)
    deployment.configs["twin"] = deployment.configs["north"]
    deployment.start_all(*deployment.names, "twin", HELPER)
    record = deployment.run(**{"round-timeout": LONG, "nodes": ""})
    assert_all_have_it(deployment, record)


def test_a_node_that_answers_as_another_site_is_left_out_by_its_own_name(deploy: Deploy) -> None:
    deployment = deploy()
    deployment.start_all("north", "south", HELPER)
    deployment.start(
        "east", **{name: deployment.configs["south"][name] for name in ("store", "passphrase-file", "data", "results")}
    )
    record = deployment.run()
    assert (record["counted"], record["missing"]) == (["north", "south"], ["east"])
    assert "submission of party 'east' refused" in deployment.log_of_run()
    assert_they_have_it(deployment, ("north", "south"), "north", "south")


def test_a_site_in_the_helpers_place_ends_the_session_with_the_helpers_name(deploy: Deploy) -> None:
    """And once the helper is there, the same session goes on."""
    deployment = deploy()
    deployment.start_all(*deployment.names)
    deployment.configs[HELPER], right = deployment.configs["south"], deployment.configs[HELPER]
    deployment.start(HELPER, {"FHE_AUC_SITE": HELPER})
    with pytest.raises(TooFewPartiesError, match=r"missing: 'helper-1'.*helper-1: it could not answer .*MessageError"):
        deployment.run()
    deployment.kill(HELPER)
    deployment.configs[HELPER] = right
    deployment.start(HELPER)  # the SuperLink has it wait until it has noticed
    assert_all_have_it(deployment, deployment.run(**{"round-timeout": LONG}))


@pytest.mark.parametrize("number", [2, 3])
def test_a_superlink_that_is_killed_while_the_helper_is_awaited_costs_a_second_run_with_the_same_bytes(
    number: int, deploy: Deploy
) -> None:
    deployment = deploy(3)
    go = deployment.runtime.folder / "go"
    deployment.start_all(*deployment.names)
    deployment.start(HELPER, patched(deployment, WAITS_IN_ROUND.format(number, str(go)), HELPER))
    question: list[bytes] = []

    def kill() -> None:
        wait_for(sent(deployment, number).exists, LONG)
        deployment.wait_until_it_answers(HELPER, LONG)
        question.append(sent(deployment, number).read_bytes())
        deployment.kill_superlink()

    with pytest.raises(EvaluationError):
        deployment.run_during(kill, **{"round-timeout": LONG})
    wait_for(lambda: not is_running(journal(deployment)), LONG)
    go.touch()
    deployment.runtime.start_superlink()
    record = deployment.run(**{"round-timeout": LONG})
    assert sent(deployment, number).read_bytes() == question[0]
    assert_all_have_it(deployment, record)


def test_a_helper_that_is_killed_between_opening_and_decrypting_decrypts_when_it_is_back(deploy: Deploy) -> None:
    """What it has opened, and the key with which it decrypts, are in its key store."""
    deployment = deploy(3)
    deployment.start_all(*deployment.names)
    never = str(deployment.runtime.folder / "never")
    deployment.start(HELPER, patched(deployment, WAITS_IN_ROUND.format(3, never), HELPER))
    question: list[bytes] = []

    def kill() -> None:
        wait_for(sent(deployment, 3).exists, LONG)
        deployment.wait_until_it_answers(HELPER, LONG)
        question.append(sent(deployment, 3).read_bytes())
        deployment.kill(HELPER)
        deployment.start(HELPER)

    record = deployment.run_during(kill, **{"round-timeout": 2 * LONG})
    assert sent(deployment, 3).read_bytes() == question[0]
    assert_all_have_it(deployment, record)
