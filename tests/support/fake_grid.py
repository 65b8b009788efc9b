"""As much of Flower's grid as a ServerApp uses, with nodes that are calls; and sessions over it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import Message

from fhe_auc.machines.flower import client_app
from fhe_auc.machines.flower.server_app import evaluate
from fhe_auc.session.aggregator import SessionRecord
from tests.support.machines import MachineSession

Answer = Callable[[Message], "Message | None"]


@dataclass
class Node:
    """A site behind the grid: what it answers, and when it comes."""

    answer: Answer
    joins_at: float = 0.0  # seconds from the start


@dataclass
class FakeGrid:
    """As much of Flower's `Grid` as the ServerApp uses; replies come at the first question after they were made."""

    nodes: dict[int, Node]
    started: float = field(default_factory=time.monotonic)
    pushed: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)

    def get_node_ids(self) -> list[int]:
        return [node for node, site in self.nodes.items() if time.monotonic() - self.started >= site.joins_at]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.pushed)}"
            self.pushed.append(message)
            ids.append(message.metadata.message_id)
            reply = self.nodes[message.metadata.dst_node_id].answer(message)
            if reply is not None:
                self.replies.append(reply)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found, self.replies = self.replies, []
        return found


class GridSession(MachineSession):
    """A session whose sites, and helper if any, are nodes of such a grid."""

    def node(self, name: str, joins_at: float = 0.0, **changes: Any) -> Node:
        context: Any = SimpleNamespace(node_config={**self.roles[name], **changes})
        return Node(lambda message: client_app.answer(message, context), joins_at)

    def grid(self, **instead: Node) -> Any:
        """Nodes from 1 on, in the order of the roles."""
        names = enumerate(self.roles, 1)
        return FakeGrid({number: instead.get(name.replace("-", "_")) or self.node(name) for number, name in names})

    def sent(self, number: int) -> Path:
        """The message of a round, in the aggregator's journal."""
        return self.folder / "journal" / f"round-{number}.message"

    def run(self, grid: Any = None, **changes: Any) -> SessionRecord:
        changes = {name.replace("_", "-"): value for name, value in changes.items()}
        return evaluate(self.grid() if grid is None else grid, {**self.aggregator, "round-timeout": 20.0, **changes})
