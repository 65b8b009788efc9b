"""The server's part: a controller that plays the aggregator of one session, and the tasks that carry its messages.

A client that fails is asked again until the round's time is over: the same message, which a site answers with the same
bytes. FLARE itself sends a task again to a client that was cut off before it answered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fhe_auc import aggregator_role
from fhe_auc.aggregator_role import Transport
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.flare import MESSAGE, REFUSED, TASK
from fhe_auc.journal import Journal
from fhe_auc.rounds import Aggregator, SessionRecord

DEFAULTS: Mapping[str, Any] = {**aggregator_role.DEFAULTS, "clients": {}, "ask-again": True}
"""What `evaluate` reads of a configuration, with what is meant where nothing is said."""

_POLL = 0.2  # seconds
_PAUSE = 5.0  # seconds until a client that failed is asked again


class SessionController(Controller):  # type: ignore[misc] # FLARE has no types
    """Runs one session and ends the job; `config` is as `evaluate` takes it."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: all is done in `control_flow`."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the session's journal is whole at any time."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the session; where it fails, the job does, and tells why."""
        try:
            evaluate(self, fl_ctx, abort_signal, self.config)
        except Exception as error:  # the journal has it, too; what a site may not tell did not come here
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Drop an answer that came after its round."""


def evaluate(
    controller: Controller, fl_ctx: FLContext, abort_signal: Signal, config: Mapping[str, Any]
) -> SessionRecord:
    """Play the aggregator of one session, in a controller of one's own too; return who took part.

    The configuration is as `fhe_auc.aggregator_role.run` takes it. ``clients`` has the names of FLARE's clients by
    party, where they are not the parties' own. Where ``ask-again`` is false, a client that fails is not asked again in
    that round. Errors are those of `fhe_auc.aggregator_role.run`.
    """
    for name in ("session", "journal"):
        if config.get(name) and not Path(str(config[name])).is_absolute():  # FLARE runs a job in a folder of its own
            raise InputError(f"{name} must be an absolute path, got {config[name]!r}")
    return aggregator_role.run(config, partial(Tasks, controller, fl_ctx, abort_signal, config))


class Tasks(Transport):
    """Carries rounds as tasks for FLARE's clients; the rest is as of `Transport`.

    Raises `EvaluationError` where messages are not signed, `InputError` where ``clients`` does not fit the session.
    """

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
        if aggregator.signatures is None:
            raise EvaluationError("between machines messages are signed, and the aggregator has no key to sign with")
        super().__init__(aggregator, journal, timeout)
        self._controller, self._fl_ctx, self._abort_signal = controller, fl_ctx, abort_signal
        self._again = bool(config.get("ask-again", DEFAULTS["ask-again"]))
        self._client_of = _clients(config.get("clients") or {}, aggregator)

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
                for party, answer in _taken(answers):
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
        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            answers.put((party, client_task.result))

        left = max(math.ceil(deadline - time.monotonic()), 1)
        task = Task(TASK, Shareable({MESSAGE: message}), timeout=left, result_received_cb=received)
        self._controller.send(task, self._fl_ctx, targets=[self._client_of[party]])
        return task

    def _reason(self, party: str, connected: set[str]) -> str:
        """Return why a party is still awaited."""
        client = self._client_of[party]
        lost = client not in connected or self._controller.get_client_disconnect_time(client)
        told = f"client {client!r} {'is not connected' if lost else 'was asked'}"
        return "; ".join(filter(None, (self._aggregator.refusals.get(party), self.failures.get(party), told)))


def _taken(answers: SimpleQueue[tuple[str, Shareable]]) -> Iterator[tuple[str, Shareable]]:
    """Yield what has come, after a moment if nothing has."""
    try:
        yield answers.get(timeout=_POLL)
        while True:
            yield answers.get_nowait()
    except Empty:
        return


def _failure(answer: Shareable) -> str:
    """Return why an answer is no submission; "" if it is. Of a site's error its kind alone is for our logs."""
    code = answer.get_return_code()
    if code == ReturnCode.OK and isinstance(answer.get(MESSAGE), bytes):
        return ""
    told = str(answer.get(REFUSED, ""))[:60]
    kind = told if told.isidentifier() else "see the site's log"
    return f"it could not answer (FLARE: {code}): {kind}"


def _clients(given: Mapping[str, Any], aggregator: Aggregator) -> dict[str, str]:
    """Return the client of each party and helper."""
    roles = (*aggregator.manifest.parties, *aggregator.manifest.helpers)
    for party in given:
        if party not in roles:
            raise InputError(f"clients: {party!r} is not a party of the session")
    found = {role: str(given.get(role, role)) for role in roles}
    for client in found.values():
        if list(found.values()).count(client) > 1:
            raise InputError(f"clients: {client!r} is there twice")
    return found
