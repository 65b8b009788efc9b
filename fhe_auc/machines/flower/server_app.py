"""The ServerApp: it plays the aggregator over a Flower grid, and learns who took part.

Flower addresses nodes; sessions have parties. Which node is which party is configured, or else a node is the party as
which it has signed, once the aggregator has accepted that. Any other node is a stranger: nothing it says counts.

A node that fails, or is silent for long, is asked again until the round's time is over: the same message, which a site
answers with the same bytes.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, inflate_object_from_contents, pull_objects
from flwr.superlink.grid import http_grid

from fhe_auc.base.errors import InputError, MessageError
from fhe_auc.base.logs import write_to_stderr
from fhe_auc.machines.aggregator_role import DEFAULTS as COMMON
from fhe_auc.machines.aggregator_role import Asked, Transport, kind_of_error, require_absolute_paths, run
from fhe_auc.machines.flower.client_app import MESSAGE_TYPE, packed, unpacked
from fhe_auc.session.aggregator import SessionRecord
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message as Envelope

DEFAULTS: Mapping[str, str | int | float] = {**COMMON, "nodes": "", "ask-again": True}
"""The entries of the run configuration that `evaluate` reads, with their defaults."""

_ENTRY = r"\s*(\S.*?):([0-9]+)\s*(?:,|$)"  # of `nodes`; a party's name may hold a comma, or a colon

_POLL = 0.2  # seconds; Flower's own `send_and_receive` takes 3
_SLOW_POLL = 2.0  # once nothing has come for a while
_QUIET = 60.0  # seconds: that while
_SPARE = 30.0  # seconds by which a message outlives its round, so that the round's end is ours to tell
_CONTENT = 300.0  # seconds for the content of a reply that a site has announced; all others wait behind it
_AFTER_SILENCE = 120.0, 900.0  # seconds, as of `Asked`; Flower does not tell of a node that lost a message
_MAX_MESSAGE = 2**31
_BATCH = 100  # messages in one request to Flower
_AT_LEAST_EVERY = 1.0  # seconds between two looks for content

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one session."""
    write_to_stderr()
    evaluate(grid, context.run_config)


def evaluate(grid: Grid, config: Mapping[str, Any]) -> SessionRecord:
    """Play the aggregator of one session over a Flower grid; return who took part. The result is the sites' own.

    Configuration and errors: as of `fhe_auc.machines.aggregator_role.run`, with ``nodes``: which node is which party,
    as in "north:123, south:456"; empty asks all that are connected, and a node is a party once it has signed as that
    party. Where ``ask-again`` is false, a site that fails to answer is not asked again in that round.
    """
    require_absolute_paths(config)
    return run(config, partial(Mail, grid, config))


def _nodes(text: str, manifest: Manifest) -> dict[int, str]:
    """Return party by node id from "north:123, south:456"."""
    roles = manifest.answering
    found: dict[int, str] = {}
    if text.strip() and not re.fullmatch(f"({_ENTRY})+", text):
        raise InputError(f"nodes: {text[:80]!r} are not parties with their node ids, as in 'north:123, south:456'")
    for party, node in re.findall(_ENTRY, text):
        if party not in roles:
            raise InputError(f"nodes: {party!r} is not a party of the session")
        if int(node) in found or party in found.values():
            raise InputError(f"nodes: '{party}:{node}' is there twice")
        found[int(node)] = party
    if found and len(found) != len(roles):
        raise InputError(f"nodes: {min(set(roles) - set(found.values()))!r} has no node")
    return found


class Mail(Transport):
    """Carries rounds over a grid, to the parties by node id, or to all that are connected where none are configured."""

    def __init__(self, grid: Grid, config: Mapping[str, Any], *session: Any) -> None:
        super().__init__(*session)
        self._grid = grid
        self._party_of = _nodes(str(config.get("nodes") or ""), self.aggregator.manifest)
        self._claimed = not self._party_of
        self._again = bool(config.get("ask-again", DEFAULTS["ask-again"]))
        self._seen: set[int] = set()  # nodes that have been connected
        named = ", ".join(f"{party!r} is node {node}" for node, party in self._party_of.items())
        self.log.info(named or "all connected nodes are asked")

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Send a message to all parties; yield (party, submission) until all have answered, or the time is over."""
        started = quiet_since = time.monotonic()
        deadline = started + self.timeout
        content = packed(message)
        asked: dict[int, Asked] = {}
        waiting: dict[str, int] = {}
        strangers: set[int] = set()
        while True:
            over = time.monotonic() > deadline
            connected = set(self._grid.get_node_ids())
            self._seen |= connected
            to_ask = [] if over else self._to_ask(connected, asked)
            for nodes in (to_ask[first : first + _BATCH] for first in range(0, len(to_ask), _BATCH)):
                ttl = max(deadline - time.monotonic(), 0.0) + _SPARE
                messages = [Message(content, node, MESSAGE_TYPE, ttl=ttl) for node in nodes]
                taken = set(self._grid.push_messages(messages))
                for node, pushed in zip(nodes, messages, strict=True):
                    asked.setdefault(node, Asked())
                    if pushed.metadata.message_id in taken:
                        waiting[pushed.metadata.message_id] = node
                        asked[node].postpone(_AFTER_SILENCE, again=self._again)
                    else:
                        self._failed(node, asked[node], "Flower does not take a message for it")
            with limited_replies(min(deadline, time.monotonic() + _CONTENT)):
                replies = list(self._grid.pull_messages(list(waiting))) if waiting else []
            for reply in replies:
                if (asked_by := reply.metadata.reply_to_message_id) not in waiting:
                    continue  # not an answer to what was asked
                node = waiting.pop(asked_by)
                quiet_since = time.monotonic()
                try:
                    party, submission = self._submission(node, reply)
                except MessageError as error:
                    self._failed(node, asked[node], str(error))
                    continue
                asked[node].due = math.inf
                if not self.aggregator.has_accepted(party, submission):  # else it is there from before a crash
                    yield party, submission
                known = party in self._party_of.values()
                if self._claimed and not known and self.aggregator.has_accepted(party, submission):
                    self._party_of[node] = party
                if self._claimed and node not in self._party_of:
                    strangers.add(node)  # it takes nobody's place
            awaited = self.awaited()
            node_of = {party: node for node, party in self._party_of.items()}
            self.tell({party: self._reason(node_of.get(party), asked, connected) for party in awaited}, deadline)
            still = set(waiting.values()) | {node for node, each in asked.items() if each.due < math.inf}
            accepted = set(self.aggregator.asked).difference(awaited)
            failed = {node for node in asked.keys() - strangers if self._party_of.get(node) not in accepted}
            all_that_can_be = not still and len(failed) >= self._most_failures(awaited)
            if not awaited or all_that_can_be:
                return
            if over:  # said before the last look at what has come
                for node in self._nodes_of(awaited, asked):
                    each = asked.get(node, Asked())
                    why = f"no answer within {self.timeout:g} s" if node in self._seen else "it never connected"
                    self._failed(node, each, each.failure or why)
                return
            time.sleep(_POLL if time.monotonic() - quiet_since < _QUIET else _SLOW_POLL)

    def _to_ask(self, connected: set[int], asked: Mapping[int, Asked]) -> list[int]:
        """Return connected nodes that are to be asked now."""
        now, awaited = time.monotonic(), set(self.awaited())
        open_to_all = self._claimed and not awaited <= set(self._party_of.values())  # parties still have to be found
        theirs = {node for node, party in self._party_of.items() if party in awaited}
        strangers = connected - self._party_of.keys() if open_to_all else set[int]()
        return sorted(node for node in connected & (theirs | strangers) if asked.get(node, Asked()).due <= now)

    def _most_failures(self, awaited: list[str]) -> int:
        """Return with how many nodes that failed nobody is left to answer.

        Where an awaited party's node is not known, one that failed may be that of a role that this round does not ask.
        """
        manifest = self.aggregator.manifest
        unknown = set(manifest.answering).difference(self._party_of.values())
        return len(unknown.union(awaited)) if unknown.intersection(awaited) else len(awaited)

    def _nodes_of(self, awaited: list[str], asked: Mapping[int, Asked]) -> list[int]:
        """Return the nodes of parties that are awaited; where a party's is not known, those that failed to answer."""
        known = {node for node, party in self._party_of.items() if party in awaited}
        failed = {node for node, each in asked.items() if node not in self._party_of and each.due < math.inf}
        return sorted(known | failed)

    def _submission(self, node: int, reply: Message) -> tuple[str, bytes]:
        """Return who has submitted what; raise `MessageError` where it is nothing."""
        if reply.has_error():
            kind = kind_of_error(reply.error.reason or "unknown")
            raise MessageError(f"it could not answer (Flower code {reply.error.code}): {kind}")
        submission = unpacked(reply)
        claimed = Envelope.from_bytes(submission, limit=_MAX_MESSAGE).sender
        return self._party_of.get(node, claimed), submission

    def _failed(self, node: int, asked: Asked, reason: str) -> None:
        party = self._party_of.get(node)
        self.failures[party or f"node {node}"] = reason
        self.tell_failure(asked, reason, party or "", f"node {node}")
        asked.postpone(again=self._again)

    def _reason(self, node: int | None, asked: Mapping[int, Asked], connected: set[int]) -> str:
        """Return why the party at this node is still awaited."""
        if node is None:
            return "no node has signed as this party yet"
        if node not in self._seen:
            return f"node {node} has never connected"
        each = asked.get(node, Asked())
        failed = f"; before: {each.failure}" if each.failure else ""
        if node not in connected:
            return f"node {node} is not connected now{failed}"
        return f"node {node} was asked {each.tries} times{failed}"


@contextmanager
def limited_replies(deadline: float) -> Iterator[None]:
    """Have Flower's grid wait for the content of replies until `deadline` (monotonic) only.

    A reply whose content is missing by then, or malformed, becomes an error of its site: else the grid waits up to two
    hours for it, all others behind it, or ends the run.
    """

    def pulled(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        whole = object_ids[-1]  # after all its parts
        try:
            left = max(deadline - time.monotonic(), 0.0)
            found = pull_objects(object_ids, pull_object_fn, max_time=left, backoff_cap=_AT_LEAST_EVERY)
            inflate_object_from_contents(whole, found, keep_object_contents=True)
        except httpx.HTTPError:
            raise  # the SuperLink itself
        except Exception:  # of whatever kind: it was made elsewhere
            raise ObjectPullError(whole, "unfinished, or malformed") from None
        return found

    vars(http_grid).update(pull_objects=pulled)
    try:
        yield
    finally:
        vars(http_grid).update(pull_objects=pull_objects)
