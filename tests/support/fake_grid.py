"""As much of Flower's grid as a ServerApp uses, with nodes that are calls."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flwr.app import Message

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
