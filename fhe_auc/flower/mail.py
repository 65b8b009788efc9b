"""The aggregator's mail over a Flower grid: a message to every site, and the answers as they come.

Flower addresses nodes; sessions have parties. Which node is which party is configured, or else a node is the party as
which it has signed, once the aggregator has accepted that. Any other node is a stranger: nothing it says counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from fhe_auc.errors import EvaluationError, MessageError
from fhe_auc.flower.limited_replies import limited_replies
from fhe_auc.flower.payload import MESSAGE_TYPE, packed, unpacked
from fhe_auc.messages import Message as Envelope
from fhe_auc.rounds import Aggregator

_POLL = 0.2  # seconds; Flower's own `send_and_receive` takes 3
_SPARE = 30.0  # seconds by which a message outlives its round, so that the round's end is ours to tell
_MAX_MESSAGE = 2**31


class Mail:
    """Carries rounds; its `exchange` is for `fhe_auc.rounds.conduct`, which hands each answer to the `aggregator`.

    A round may take `timeout` seconds. `nodes` is each party by its node id; where it is empty, every node that is
    connected is asked. `report` is told in one line what went wrong with a site. Raise `EvaluationError` where messages
    are not signed.
    """

    def __init__(
        self,
        grid: Grid,
        aggregator: Aggregator,
        *,
        nodes: Mapping[int, str],
        timeout: float,
        report: Callable[[str], None],
    ) -> None:
        if aggregator.signatures is None:
            raise EvaluationError("between machines messages are signed, and the aggregator has no key to sign with")
        self._grid = grid
        self._aggregator = aggregator
        self._party_of = dict(nodes)
        self._claimed = not nodes
        self._timeout = timeout
        self._report = report
        self.failures: dict[str, str] = {}
        """By party, or by node where it is not known which party that is: why there was no answer in the last round."""

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Send a message to all parties; yield (party, submission) until all have answered, or the time is over."""
        deadline = time.monotonic() + self._timeout
        self.failures = {}
        content = packed(message)
        asked: set[int] = set()
        waiting: dict[str, int] = {}
        answered: set[str] = set()
        strangers: set[int] = set()
        while True:
            over = time.monotonic() > deadline
            for node in () if over else self._to_ask(asked):
                asked.add(node)
                ttl = max(deadline - time.monotonic(), 0.0) + _SPARE
                sent = list(filter(None, self._grid.push_messages([Message(content, node, MESSAGE_TYPE, ttl=ttl)])))
                waiting.update(dict.fromkeys(sent, node))
                if not sent:
                    self._failed(node, "Flower does not take a message for it")
            with limited_replies(deadline):
                replies = list(self._grid.pull_messages(list(waiting))) if waiting else []
            for reply in replies:
                if (asked_by := reply.metadata.reply_to_message_id) not in waiting:
                    continue  # not an answer to what was asked
                node = waiting.pop(asked_by)
                found = self._submission(node, reply)
                if found is not None:
                    yield found
                    party, _ = found
                    if self._aggregator.has_accepted(party):
                        answered.add(party)
                        if self._claimed and party not in self._party_of.values():
                            self._party_of[node] = party
                    if self._claimed and node not in self._party_of:
                        strangers.add(node)  # it takes nobody's place
            counted = set(self._aggregator.counted)
            all_that_can_be = not waiting and len(asked - strangers) >= len(counted)  # have answered, or failed to
            if answered >= counted or all_that_can_be:
                return
            if over:  # said before the last look at what has come
                for node in waiting.values():
                    self._failed(node, f"no answer within {self._timeout:g} s")
                return
            time.sleep(_POLL)

    def _to_ask(self, asked: set[int]) -> list[int]:
        """Return connected nodes that are still to be asked in this round."""
        wanted = {node for node, party in self._party_of.items() if party in self._aggregator.counted}
        if not wanted <= asked or self._open_to_all:
            connected = set(self._grid.get_node_ids()) - asked
            return sorted(connected if self._open_to_all else connected & wanted)
        return []

    @property
    def _open_to_all(self) -> bool:
        """Whether parties still have to be found: in the first round, without a configured list."""
        return self._claimed and not set(self._aggregator.counted) <= set(self._party_of.values())

    def _submission(self, node: int, reply: Message) -> tuple[str, bytes] | None:
        """Return who has submitted what; None where it is nothing, and is noted as a failure."""
        if reply.has_error():
            self._failed(node, f"it could not answer (Flower code {reply.error.code}): {_kind(reply)}")
            return None
        try:
            submission = unpacked(reply)
            claimed = Envelope.from_bytes(submission, limit=_MAX_MESSAGE).sender
        except MessageError as error:
            self._failed(node, str(error))
            return None
        return self._party_of.get(node, claimed), submission

    def _failed(self, node: int, reason: str) -> None:
        party = self._party_of.get(node)
        who = f"node {node}" if party is None else f"party {party!r} (node {node})"
        self.failures[party or f"node {node}"] = reason
        self._report(f"{who}: {reason}")


def _kind(reply: Message) -> str:
    """Return the kind of error a site reports: one word, since what it says besides is not for this side's logs."""
    word = (reply.error.reason or "unknown").split(":")[0].removeprefix("<class ").strip("'<> ")
    return word[:60] if word.replace(".", "").replace("_", "").isalnum() else "see the site's log"
