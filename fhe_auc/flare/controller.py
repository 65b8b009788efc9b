"""The server's part: a controller that plays the aggregator of one session, and the tasks that carry its messages.

A client that fails is asked again until the round's time is over: the same message, which it answers with the same
bytes. FLARE itself sends a task again to a client that was cut off before it answered.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fhe_auc.aggregator_role import DEFAULTS as COMMON
from fhe_auc.aggregator_role import Transport, require_absolute_paths, run
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.flare import MESSAGE, REFUSED, TASK
from fhe_auc.journal import Journal
from fhe_auc.rounds import Aggregator, SessionRecord

DEFAULTS: Mapping[str, Any] = {**COMMON, "clients": {}, "ask-again": True}
"""What `evaluate` reads of a configuration, with what is meant where nothing is said."""

_PAUSE = 5.0  # seconds until a client that failed is asked again


class SessionController(Controller):  # type: ignore[misc] # FLARE has no types
    """Runs one session and ends the job; `config` is as `evaluate` takes it."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing; at the end, too: the session's journal is whole at any time."""

    stop_controller = start_controller

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the session; where it fails, the job does, and tells why."""
        try:
            evaluate(self, fl_ctx, abort_signal, self.config)
        except Exception as error:  # the journal has it, too; what a site may not tell did not come here
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)


def evaluate(
    controller: Controller, fl_ctx: FLContext, abort_signal: Signal, config: Mapping[str, Any]
) -> SessionRecord:
    """Play the aggregator of one session, in a controller of one's own too; return who took part.

    `config` and errors are as of `fhe_auc.aggregator_role.run`; ``clients`` has the names of FLARE's clients by party,
    where they are not the parties' own. Where ``ask-again`` is false, a client that fails is asked once a round.
    """
    require_absolute_paths(config)
    return run(config, partial(Tasks, controller, fl_ctx, abort_signal, config))


class Tasks(Transport):
    """Carries rounds as tasks for FLARE's clients; raises `InputError` where ``clients`` does not fit the session."""

    def __init__(
        self,
        controller: Controller,
        fl_ctx: FLContext,
        abort_signal: Signal,
        config: Mapping[str, Any],
        aggregator: Aggregator,
        journal: Journal,
        timeout: float,
    ) -> None:
        super().__init__(aggregator, journal, timeout)
        self._controller, self._fl_ctx, self._abort_signal = controller, fl_ctx, abort_signal
        self._again = bool(config.get("ask-again", DEFAULTS["ask-again"]))
        roles, given = (*aggregator.manifest.parties, *aggregator.manifest.helpers), config.get("clients") or {}
        if unknown := set(given).difference(roles):
            raise InputError(f"clients: {min(unknown)!r} is not a party of the session")
        self._client_of = {role: str(given.get(role, role)) for role in roles}
        if len(set(self._client_of.values())) < len(roles):
            raise InputError("clients: two parties have the same client")

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Send a message to all parties; yield (party, submission) until all have answered, or the time is over."""
        deadline = time.monotonic() + self._timeout
        answers: SimpleQueue[tuple[str, Shareable]] = SimpleQueue()  # of this round alone: what is late is dropped
        due = dict.fromkeys(self._aggregator.asked, 0.0)  # monotonic time from which on a party is asked
        standing: dict[str, Task] = {}
        self.failures = {}
        try:
            while awaited := self.awaited():
                over = time.monotonic() > deadline
                connected = {client.name for client in self._controller._engine.get_clients()}
                standing = {party: task for party, task in standing.items() if task.completion_status is None}
                for party in () if over else awaited:  # also whom FLARE has given up as dead
                    if party not in standing and due[party] <= time.monotonic() and self._client_of[party] in connected:
                        standing[party] = self._send(party, message, deadline, answers)
                with contextlib.suppress(Empty):
                    party, answer = answers.get(timeout=0.2)
                    standing.pop(party, None)
                    failure = _failure(answer)
                    if not failure:
                        yield party, answer[MESSAGE]
                        failure = "" if self._aggregator.has_accepted(party) else "what has come does not count"
                    due[party] = time.monotonic() + _PAUSE if self._again else math.inf
                    if failure and self.failures.get(party) != failure:  # said once, however often it is asked again
                        self.log.warning(failure, extra={"party": party})
                    self.failures[party] = failure
                self.tell({party: self._reason(party, connected) for party in self.awaited()}, deadline)
                if over or (not standing and all(due[party] == math.inf for party in self.awaited())):
                    self.failures = {party: self._reason(party, connected) for party in self.awaited()}
                    return
                if self._abort_signal.triggered:
                    raise EvaluationError("FLARE has ended the job; submit it again to go on")
        finally:
            for task in standing.values():
                self._controller.cancel_task(task)

    def _send(self, party: str, message: bytes, deadline: float, answers: SimpleQueue[tuple[str, Shareable]]) -> Task:
        left = max(math.ceil(deadline - time.monotonic()), 1)
        received = lambda client_task, fl_ctx: answers.put((party, client_task.result))  # noqa: E731 - FLARE's names
        task = Task(TASK, Shareable({MESSAGE: message}), timeout=left, result_received_cb=received)
        self._controller.send(task, self._fl_ctx, targets=[self._client_of[party]])
        return task

    def _reason(self, party: str, connected: set[str]) -> str:
        """Return why a party is still awaited."""
        client = self._client_of[party]
        lost = client not in connected or self._controller.get_client_disconnect_time(client)
        told = f"client {client!r} {'is not connected' if lost else 'was asked'}"
        return "; ".join(filter(None, (self._aggregator.refusals.get(party), self.failures.get(party), told)))


def _failure(answer: Shareable) -> str:
    """Return why an answer is no submission; "" if it is. Of a site's error its kind alone is for our logs."""
    code = answer.get_return_code()
    if code == ReturnCode.OK and isinstance(answer.get(MESSAGE), bytes):
        return ""
    kind = str(answer.get(REFUSED))
    return f"it could not answer (FLARE: {code}): {kind if kind.isidentifier() else 'see its log'}"
