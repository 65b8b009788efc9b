"""The two apps over a grid in this process: what a node or a server does wrong ends nothing, and tells nothing.

What letters may do is `test_postman.py`; over Flower itself: `test_deployment.py`.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from fhe_auc.base.errors import InputError
from fhe_auc.machines.flower import apps
from fhe_auc.machines.flower.apps import REFUSED, TYPE, VIRTUAL_SITES, carry, packed, query
from tests.support.exchanges import have

Answer = Callable[[Message], "Message | None"]


@dataclass
class FakeGrid:
    """As much of Flower's `Grid` as the ServerApp uses; replies come at the first question after they were made.

    It ends the ServerApp by `Over` once `goes_on` is false, or it was asked `most` times who is there.
    """

    nodes: dict[int, Answer]
    goes_on: Callable[[], bool]
    most: int = 200
    pushed: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)

    def get_node_ids(self) -> list[int]:
        self.most -= 1
        if not self.most or not self.goes_on():
            raise Over
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.pushed)}"
            self.pushed.append(message)
            ids.append(message.metadata.message_id)
            reply = self.nodes[message.metadata.dst_node_id](message)
            if reply is not None:
                self.replies.append(reply)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found, self.replies = self.replies, []
        return found


class Over(Exception):
    """The end of a run."""


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower tells a process in which an app runs, and reads when a message is made; and looks without pauses."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    for name in ("_POLL", "_RARE", "_WAIT"):
        monkeypatch.setattr(apps, name, 0.0)


def node(folder: Path, name: str, **changes: Any) -> Answer:
    context: Any = SimpleNamespace(node_config={"exchange": str(folder / name), "name": name, **changes})
    return lambda message: query(message, context)


def run(folder: Path, there: dict[int, Answer], until: Callable[[], bool], **changes: Any) -> FakeGrid:
    grid = FakeGrid(there, lambda: not until())
    config = {"exchange": str(folder / "server"), "nodes": "north:1, south:2", "every": 0.001, **changes}
    with pytest.raises(Over):
        carry(cast("Any", grid), config)
    assert until()
    return grid


@pytest.mark.parametrize("nodes", ["north:1, south:2", ""])
def test_all_exchanges_get_what_all_others_bring(world: Path, nodes: str) -> None:
    there = {1: node(world, "north"), 2: node(world, "south")}
    grid = run(world, there, lambda: have(world), nodes=nodes)
    assert {message.metadata.message_type for message in grid.pushed} == {TYPE}


REPLIES: dict[str, Callable[[Message], Message]] = {
    "an error": lambda asked: Message(Error(8, "score 0.123 of patient 7\nand more" * 9), reply_to=asked),
    "no letter": lambda asked: Message(packed(b"junk"), reply_to=asked),
    "nothing": lambda asked: Message(RecordDict({}), reply_to=asked),
    "numbers": lambda asked: Message(RecordDict({"fhe-auc": MetricRecord({"letter": 1.0})}), reply_to=asked),
    "another array": lambda asked: Message(
        RecordDict({"fhe-auc": ArrayRecord({"letter": Array("uint8", (9,), "x", b"1")})}), reply_to=asked
    ),
}


@pytest.mark.parametrize("reply", list(REPLIES))
def test_a_node_that_answers_wrongly_holds_up_nobody_and_is_written_to_again(
    world: Path, reply: str, caplog: pytest.LogCaptureFixture
) -> None:
    right, wrongs = node(world, "south"), iter(range(3))

    def spoilt(message: Message) -> Message | None:
        return right(message) if next(wrongs, None) is None else REPLIES[reply](message)

    caplog.set_level("INFO")
    run(world, {1: node(world, "north"), 2: spoilt}, lambda: have(world))
    told = [record.getMessage() for record in caplog.records if "node 2" in record.getMessage()]
    assert len(told) == 2  # that it is wrong, once, and that it is right again
    assert all(len(line) < 200 and "\n" not in line for line in told)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.LOAD_CLIENT_APP_EXCEPTION, "it could not load the app: it needs this fhe-auc"),
        (ErrorCode.MESSAGE_UNAVAILABLE, "a letter or its answer was lost, and goes again"),
        (ErrorCode.NODE_UNAVAILABLE, "it is away"),
        (ErrorCode.INVALID_FAB, "it takes apps of its --trusted-entities alone"),
        (ErrorCode.CLIENT_APP_CRASHED, "its app ended before it answered"),
        (REFUSED, "it could not answer: its log says why"),
        (ErrorCode.UNKNOWN, "it could not answer"),
    ],
)
def test_flowers_error_codes_are_told_in_sentences(
    world: Path, code: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    right, wrongs = node(world, "south"), iter([Error(code, "why\nnot")])

    def spoilt(message: Message) -> Message | None:
        return right(message) if (wrong := next(wrongs, None)) is None else Message(wrong, reply_to=message)

    run(world, {1: node(world, "north"), 2: spoilt}, lambda: have(world))
    assert re.search(rf"node 2: {told}.* \(Flower's error {code}: why.+not\)$", caplog.text, re.MULTILINE)


def test_a_letter_that_nobody_answers_is_given_up_and_written_again(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "_PATIENCE", 0.001)
    right, lost = node(world, "south"), iter(range(3))
    there = {1: node(world, "north"), 2: lambda message: right(message) if next(lost, None) is None else None}
    run(world, there, lambda: have(world))


def test_a_node_that_is_nobody_s_is_not_written_to(world: Path) -> None:
    asked: list[Message] = []
    there = {1: node(world, "north"), 2: node(world, "south"), 3: lambda message: asked.append(message)}
    run(world, there, lambda: have(world))
    assert not asked


def test_of_what_fails_at_a_site_its_kind_alone_leaves_it(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (world / "north" / "secret-name").write_text("x")
    told: list[Message] = []
    failing = node(world, "north", exchange=str(world / "north" / "secret-name"))

    def watched(message: Message) -> Message | None:
        told.extend([reply] if (reply := failing(message)) else [])
        return reply

    run(
        world,
        {1: watched, 2: node(world, "south")},
        lambda: have(world, "server", "south", at=("server",)) and bool(told),
    )
    assert {(reply.error.code, reply.error.reason) for reply in told} == {(REFUSED, "InputError")}
    assert "secret-name" in capfd.readouterr().err


@pytest.mark.parametrize("simulated", [True, False])
def test_virtual_sites_of_one_process_answer_each_from_its_own_exchange_and_between_machines_there_are_none(
    world: Path, simulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [{"exchange": str(world / name), "name": name} for name in ("north", "south")]
    (file := world / "sites.json").write_text(json.dumps(told))
    contexts: Any = [SimpleNamespace(node_config={"partition-id": number}) for number in (0, 1)]
    if simulated:
        monkeypatch.setenv(VIRTUAL_SITES, str(file))
    before, replies = dict(vars(apps)), list[Message]()

    def virtual(message: Message) -> Message:
        replies.append(query(message, contexts[message.metadata.dst_node_id - 1]))
        return replies[-1]

    run(world, {1: virtual, 2: virtual}, lambda: have(world) if simulated else len(replies) > 3)
    assert {reply.error.reason for reply in replies if reply.has_error()} == (set() if simulated else {"KeyError"})
    assert vars(apps) == before  # nothing of one site is left for the next


@pytest.mark.parametrize(
    ("changes", "clause"),
    [
        ({"exchange": ""}, "exchange is not configured"),
        ({"nodes": "north"}, "are not sites with their node ids"),
        ({"nodes": "north:1, north:2"}, "are not sites with their node ids"),
        ({"nodes": "north:1, south:1"}, "are not sites with their node ids"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(world: Path, changes: dict[str, str], clause: str) -> None:
    grid: Any = FakeGrid({}, lambda: True)
    with pytest.raises(InputError, match=re.escape(clause)):
        carry(grid, {"exchange": str(world / "server"), "nodes": "north:1, south:2", **changes})


def test_a_run_ends_after_its_hours(world: Path) -> None:
    grid: Any = FakeGrid({1: node(world, "north")}, lambda: True, 10**6)
    carry(grid, {"exchange": str(world / "server"), "hours": 0.0001, "every": 0.01})
