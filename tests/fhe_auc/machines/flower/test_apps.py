"""Both Flower apps over a grid that only pretends to be one: the right result, and every fault named and survived."""

import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from flwr.app import Error, Message
from flwr.common.config import parse_config_args
from flwr.supernode import fleet_http_connection
from flwr.supernode import start_client_internal as internals

from fhe_auc import federated_auc
from fhe_auc.base.errors import EvaluationError, InputError, ResultCheckError, TooFewPartiesError
from fhe_auc.machines import outcomes
from fhe_auc.machines.flower import client_app, server_app, supernode
from fhe_auc.machines.flower.bundle import write_config
from fhe_auc.machines.flower.client_app import REFUSED, packed, unpacked
from fhe_auc.machines.flower.runtime import Flower
from fhe_auc.machines.local_sites import Stage
from fhe_auc.machines.site_state import site_storage
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.messages import Message as Envelope
from fhe_auc.session.protocol import Request
from fhe_auc_keys.roles.local_consortium import TRIAL
from tests.support.certified import STUDY
from tests.support.fake_grid import FakeGrid, GridSession, Node
from tests.support.machines import GRID

pytestmark = pytest.mark.usefixtures("in_a_run", "impatient", "nothing_installed")

NAMES = ("north", "south", "east")
NODES = "north:1, south:2, east:3"


def message_of(question: bytes) -> Message:
    """A question as it comes to a site, which can be answered."""
    message = Message(packed(question), 1, "query.fhe_auc")
    message.metadata.__dict__["_message_id"] = "m"
    return message


class Consortium(GridSession):
    """Three sites."""

    def asked(self, name: str, **changes: str) -> Message:
        """What a site, so configured, replies to the session's first message."""
        opening = site_storage().aggregator(self.aggregator).aggregator().start()
        reply = self.node(name, **changes).answer(message_of(opening))
        assert reply is not None
        return reply


@pytest.fixture(scope="module")
def made(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Consortium]:
    """A consortium for each policy."""
    return functools.cache(
        lambda least: Consortium(site_rows, tmp_path_factory.mktemp("consortium") / "session", min_parties=least)
    )


@pytest.fixture
def consortium(made: Callable[[int], Consortium], tmp_path: Path) -> Consortium:
    """One whose sessions go on with two sites of three."""
    return made(2).copied(tmp_path / "session")


@pytest.fixture
def whole_consortium(made: Callable[[int], Consortium], tmp_path: Path) -> Consortium:
    """One whose sessions need all three sites."""
    return made(3).copied(tmp_path / "whole")


def test_a_fraction_and_an_error_in_a_file_are_read_as_such(tmp_path: Path) -> None:
    def refused() -> Evaluation:
        raise ResultCheckError("refused", check="own rows")

    found = federated_auc(
        [PartyData.from_arrays("a", [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])],
        protocol=registry.load("verified").options(round_scores=1),
    )
    assert found.study is None  # nobody agrees on anything in one process
    found = replace(found, study=msgspec.structs.replace(STUDY, row_caps={"a": 4}))
    party = SimpleNamespace(name="a", manifest=SimpleNamespace(session=bytes(16), digest=bytes(32)))
    party.result = lambda: found
    written = outcomes.write(tmp_path, party, lambda told: told)  # type: ignore[arg-type]
    read = outcomes.read(written)
    assert isinstance(read, Evaluation)
    assert (read, read.study, read.fraction) == (found, found.study, Fraction(3, 4))
    told = json.loads(written.read_text(encoding="utf-8"))["evaluation"]
    assert told["study"] == {**STUDY.as_dict(), "row_caps": {"a": 4}}
    assert (read.verified, told["verified"]) == (True, {"aggregation": True, "parties": False})
    party.result = refused
    with pytest.raises(ResultCheckError, match=r"^refused$") as failed:
        outcomes.read(outcomes.write(tmp_path, party, lambda told: told))  # type: ignore[arg-type]
    assert failed.value.check == "own rows"


def test_a_site_reads_its_file_as_its_configuration_says(consortium: Consortium) -> None:
    data = consortium.sites["north"]
    pairs = zip(data.y_true.tolist(), data.y_score.tolist(), strict=True)
    rows = [f"{'krank' if label else 'gesund'};{score!r}".replace(".", ",") for label, score in pairs]
    file = consortium.folder / "north.csv"
    file.write_text("\n".join(["Ausgang;Wert für Risiko", *rows, ";0,5", ""]), "windows-1252")
    form = {"delimiter": ";", "decimal": ",", "encoding": "windows-1252"}
    columns = {"label-column": "Ausgang", "score-column": "Wert für Risiko", "positive-label": "krank"}
    north: Any = {"data": str(file), "drop-missing": True, **form, **columns}
    assert consortium.run(consortium.grid(north=consortium.node("north", **north))).counted == NAMES
    consortium.check()
    assert "party 'north': 1 rows with a missing entry were left out" in consortium.outcome("north").warnings


def test_each_site_writes_down_the_auc_and_the_server_learns_who_took_part(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fhe_auc")
    grid = consortium.grid()
    record = consortium.run(grid)
    assert record.counted == NAMES
    consortium.check()
    for name in consortium.sites:
        assert consortium.outcome(name).study == TRIAL
        assert consortium.results(name)[0].stat().st_mode & 0o777 == 0o600
    assert set(consortium.told()) == {"session", "counted", "missing", "delivered", "refused"}
    assert len(grid.pushed) == 6  # two rounds, nobody asked twice
    again = consortium.grid()
    assert consortium.run(again) == record  # a run that is over is not run again
    assert not again.pushed
    assert "finished: all 3 sites have its result" in caplog.text


def test_where_all_have_to_take_part_one_error_names_the_missing_site(whole_consortium: Consortium) -> None:
    secret = Node(lambda message: Message(Error(2, "<class 'ValueError'>:<'label 1 of row 7'>"), reply_to=message))
    with pytest.raises(TooFewPartiesError, match="missing: 'east'") as caught:
        whole_consortium.run(whole_consortium.grid(east=secret), nodes=NODES, **{"ask-again": False})
    assert "ValueError" in str(caught.value)
    assert "row 7" not in str(caught.value)
    assert not any(whole_consortium.results(name) for name in whole_consortium.sites)
    assert whole_consortium.told()["error"]["type"] == "TooFewPartiesError"


def test_a_stranger_node_cannot_be_a_party_though_it_is_the_first_to_say_so(
    whole_consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the announcement, and what another site has sent; without the party's key nothing it says counts."""
    grid = whole_consortium.grid()
    south, asked = whole_consortium.node("south").answer, []

    def pretending(message: Message) -> Message | None:
        asked.append(message)
        answer = south(message)
        assert answer is not None
        parsed = Envelope.from_bytes(unpacked(answer), limit=2**25)
        return Message(packed(msgspec.structs.replace(parsed, sender="north").to_bytes()), reply_to=message)

    late = whole_consortium.node("north", joins_at=0.5)
    grid.nodes = {1: Node(pretending), **{number: grid.nodes[number] for number in (2, 3)}, 4: late}
    record = whole_consortium.run(grid)
    assert record.counted == NAMES
    assert not record.refused  # of which north has sent nothing
    assert "no genuine signature of 'north'" in caplog.text
    assert len(set(asked)) == 1  # it is not sent the result
    whole_consortium.check()


def test_a_session_whose_messages_are_not_signed_does_not_leave_the_machine(consortium: Consortium) -> None:
    joined = site_storage().aggregator(consortium.aggregator)
    aggregator = registry.load(joined.manifest.protocol).aggregator(joined.manifest, joined.material)
    with pytest.raises(EvaluationError, match="between machines messages are sealed and signed"):
        server_app.Mail(FakeGrid({}), {}, aggregator, None, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("fails", [True, False])
def test_a_site_that_fails_or_whose_answer_is_lost_is_asked_again_until_it_answers(
    fails: bool,
    whole_consortium: Consortium,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Flower does not tell of a node that was killed with a message, and is back before its absence is noticed."""
    monkeypatch.setattr(server_app, "_AFTER_SILENCE", (0.01, 0.1))
    well, asked = whole_consortium.node("east").answer, []

    def answer(message: Message) -> Message | None:
        asked.append(unpacked(message))
        failing = Message(Error(REFUSED, "OSError"), reply_to=message) if fails else None
        return failing if len(asked) in (1, 2, 3, 5, 6) else well(message)

    record = whole_consortium.run(whole_consortium.grid(east=Node(answer)))
    assert record.delivered == NAMES
    assert len(asked) == 7  # four times in the first round, three times in the second
    assert len(set(asked)) == 2  # with the same bytes each time
    assert sum("OSError" in line for line in caplog.messages) == 2 * fails  # said once a round


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min-parties": 3}, "goes on from 2 parties on, not from 3"),
        ({"nodes": "north:1, south:2"}, "'east' has no node"),
        ({"nodes": "north:1, south:1, east:3"}, "there twice"),
        ({"round-timeout": -1.0}, "round-timeout must be"),
        ({"journal": "week-18"}, "journal must be an absolute path, got 'week-18'"),
        ({"protocol": "nothing", "thresholds": "uniform:16", "min-parties": 2}, None),  # it fits
    ],
)
def test_a_run_configuration_that_does_not_fit_the_session_is_refused(
    changes: dict[str, Any], message: str | None, consortium: Consortium
) -> None:
    grid = consortium.grid()
    if message is None:
        assert consortium.run(grid, **changes).counted == NAMES
        return
    with pytest.raises(InputError, match=message):
        consortium.run(grid, **changes)
    assert not grid.pushed
    assert "journal" in changes or message in consortium.told()["error"]["message"]


@pytest.mark.parametrize(
    ("changes", "kind", "logged"),
    [
        ({"data": "/nowhere/rows.csv"}, "InputError", "rows.csv"),
        ({"holder": "mallory"}, "KeysError", "not by 'mallory'"),
        ({"store": "/nowhere"}, "StoreError", "no key store"),
        ({"score-column": "age"}, "InputError", "'north', .*, row 0, column 'age': score is 40.*, .* run from 40 to "),
        ({"results": "/proc/nowhere"}, "InputError", "no file can be written in '/proc/nowhere'"),
    ],
)
def test_a_site_tells_the_kind_of_its_error_keeps_the_rest_to_itself_and_does_not_begin_the_session(
    changes: dict[str, str], kind: str, logged: str, consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    os.environ.pop("FHE_AUC_PASSPHRASE", None)  # which is put back after each test
    rows, data = consortium.folder / "north.npz", consortium.sites["north"]
    np.savez(rows, y_true=data.y_true, y_score=data.y_score, age=40 + np.arange(len(data.y_true)) % 60)
    reply = consortium.asked("north", **changes)
    assert (reply.error.code, reply.error.reason, reply.has_content()) == (REFUSED, kind, False)
    assert re.search(logged, caplog.text)
    assert not list(Path(consortium.roles["north"]["store"], "state").iterdir())


def test_where_all_sites_are_on_this_machine_their_user_is_told_why_scores_do_not_fit() -> None:
    ages = PartyData.from_arrays("odd", [0, 1], [44, 71], score_column="age")
    request = Request(parties=("odd",), thresholds=GRID, options={"epsilon": 1.0})
    stage = Stage(functools.partial(Flower, deployed=False), round_timeout=1.0, report=lambda _: None)
    with pytest.raises(InputError, match=r"^party 'odd', row 0, column 'age': score is 44\.0, but these thresholds"):
        stage.evaluate(registry.load("dpauc-laplace"), request, None, [ages])


def run_in_place_of_flower(
    flower: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *arguments: str, bundle_sha256: str = "0" * 64
) -> None:
    """Run a site's SuperNode up to where Flower's would begin; what it has changed there is put back after the test."""
    changed = [(internals, "_pull_and_store_message"), (internals, "_verify_fab")]
    for where, name in (*changed, (fleet_http_connection, "FleetHttpClient")):
        monkeypatch.setattr(where, name, getattr(where, name))
    monkeypatch.setattr("sys.argv", ["test"])

    def run_and_exit() -> None:
        flower()
        raise SystemExit(0)

    monkeypatch.setattr("flwr.supernode.cli.flower_supernode", run_and_exit)
    with pytest.raises(SystemExit):
        supernode.run(arguments, bundle_sha256=bundle_sha256)


@pytest.mark.parametrize(
    ("changes", "runs"),
    [
        ({}, True),
        ({"content": b"another"}, False),
        ({"hash_str": "0" * 64}, False),
        ({"fab_hash": "0" * 64}, False),
        ({"fab_id": "publisher/other"}, False),
        ({"fab_version": "../../other"}, False),
        ({"primary_task_type": "flwr-agentapp"}, False),
    ],
)
def test_a_site_runs_what_is_pinned_whatever_else_the_server_calls_it(
    changes: dict[str, Any], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"the bundle"
    pinned = hashlib.sha256(content).hexdigest()
    told = {"content": content, "hash_str": pinned, "fab_hash": pinned, "fab_id": "a/b", "fab_version": "1"}
    told |= {"primary_task_type": "flwr-serverapp"} | changes
    monkeypatch.setattr(supernode, "get_fab_config", lambda found: found)
    monkeypatch.setattr(supernode, "get_metadata_from_config", lambda found: ("a/b", "1"))
    run_in_place_of_flower(lambda: None, monkeypatch, bundle_sha256=pinned)
    asked = message_of(b"question")
    asked.metadata.__dict__["_run_id"] = 1
    names = ("fab_hash", "fab_id", "fab_version", "primary_task_type")
    run = SimpleNamespace(**{name: told[name] for name in names})
    fab = SimpleNamespace(content=told["content"], hash_str=told["hash_str"], verifications={})
    replies: list[Message] = []
    begun: list[str] = []

    def begin(*_: object) -> None:
        begun.append("runs")
        raise KeyboardInterrupt

    monkeypatch.setattr(internals, "_insert_message", lambda message, *_: replies.append(message))
    monkeypatch.setattr(internals, "get_fused_config_from_fab", begin)
    with contextlib.suppress(KeyboardInterrupt):
        internals._pull_and_store_message(
            state=SimpleNamespace(get_run=lambda _: None),
            object_store=None,
            node_config={},
            receive=lambda: (asked, None),
            get_run=lambda _: run,
            get_fab=lambda *_: fab,
            pull_object=None,
            confirm_message_received=None,
            trusted_entities=None,
        )
    assert (begun, len(replies)) == ((["runs"], 0) if runs else ([], 1))


@pytest.mark.parametrize(
    ("given", "inherits"),
    [
        (("--node-config", "store='s' passphrase-file='p' holder='north'"), False),
        (("--node-config=store='s' passphrase-file='p'",), False),
        (("--node-config", "node.toml"), False),
        (("--node-config", "store='s' holder='north'"), True),
        ((), True),
    ],
)
def test_what_a_supernode_starts_inherits_no_passphrase_that_is_in_a_file(
    given: tuple[str, ...], inherits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Told by a child that a SuperNode's process starts once it runs."""
    monkeypatch.chdir(tmp_path)
    write_config(Path("node.toml"), {"store": "s", "passphrase-file": "p"})
    monkeypatch.setenv("FHE_AUC_PASSPHRASE", "four words of a song")
    environments: list[bytes] = []

    def start_child() -> None:
        child = subprocess.run(["/usr/bin/env"], capture_output=True, check=True)
        environments.append(child.stdout)

    run_in_place_of_flower(start_child, monkeypatch, "--superlink", "127.0.0.1:1", *given)
    assert len(environments) == 1
    assert (b"four words" in environments[0]) is inherits


def test_a_nodes_configuration_survives_any_path_and_is_no_servers_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"store": '/home/O\'Neil "x" \U0001f600/ü', "holder": "north, south"}
    write_config(tmp_path / "node.toml", config)
    assert parse_config_args([str(tmp_path / "node.toml")]) == config
    context: Any = SimpleNamespace(node_config={"store": "own"}, run_config={"virtual-sites": str(tmp_path)})
    assert client_app.site_config(context) == {"store": "own"}
    (tmp_path / "3.json").write_text('{"store": "third"}')
    monkeypatch.setenv(client_app.VIRTUAL_SITES, str(tmp_path))
    assert client_app.site_config(SimpleNamespace(node_config={"partition-id": 3})) == {"store": "third"}  # type: ignore[arg-type]
