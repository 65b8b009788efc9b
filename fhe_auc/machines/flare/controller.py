"""The server's part: a controller that plays the aggregator of one session, and the tasks that carry its messages.

A client that fails is asked again, in the same bytes, until the round's time is over; one that was cut off is asked
again by FLARE itself. Who is in a job is settled when it starts: no round waits for others.
"""

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.logs import LOGGER, write_to_stderr
from fhe_auc.machines.aggregator_role import DEFAULTS as COMMON
from fhe_auc.machines.aggregator_role import Asked, Transport, kind_of_error, require_absolute_paths, run
from fhe_auc.machines.flare import MESSAGE, REFUSED, TASK
from fhe_auc.session.aggregator import SessionRecord

DEFAULTS: Mapping[str, Any] = {**COMMON, "clients": {}, "ask-again": True}
"""The entries that `evaluate` reads of a configuration, with their defaults."""

_POLL = 0.2  # seconds


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
        write_to_stderr()
        LOGGER.propagate = False  # FLARE's own log lines would not say which party
        try:
            evaluate(self, fl_ctx, abort_signal, self.config)
        except Exception as error:  # the journal has it, too; what a site may not tell did not come here
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)


def evaluate(
    controller: Controller, fl_ctx: FLContext, abort_signal: Signal, config: Mapping[str, Any]
) -> SessionRecord:
    """Play the aggregator of one session, in a controller of one's own too; return who took part.

    `config` and errors are as of `fhe_auc.machines.aggregator_role.run`; ``clients`` are FLARE's by party, where their
    names differ. Where ``ask-again`` is false, a client that fails is asked once a round.
    """
    require_absolute_paths(config)
    return run(config, partial(Tasks, controller, fl_ctx, abort_signal, config))


class Tasks(Transport):
    """Carries rounds as tasks for FLARE's clients; raises `InputError` where ``clients`` does not fit the session."""

    def __init__(
        self, controller: Controller, fl_ctx: FLContext, abort_signal: Signal, config: Mapping[str, Any], *session: Any
    ) -> None:
        super().__init__(*session)
        self._controller, self._fl_ctx, self._abort_signal = controller, fl_ctx, abort_signal
        self._again = bool(config.get("ask-again", DEFAULTS["ask-again"]))
        roles = self.aggregator.manifest.answering
        given = config.get("clients") or {}
        if not isinstance(given, Mapping) or not set(given) <= set(roles):
            raise InputError(f"clients: {given!r} is no table of clients by party, who are {', '.join(roles)}")
        self._client_of = {role: str(given.get(role, role)) for role in roles}
        if len(set(self._client_of.values())) < len(roles):
            raise InputError("clients: two parties have the same client")

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Send a message to all parties; yield (party, submission) until nobody can answer, or the time is over."""
        deadline = time.monotonic() + self.timeout
        asked = {party: Asked() for party in self.aggregator.asked}
        out: dict[str, Task] = {}  # what a party has been sent, and neither answered nor failed
        ended: SimpleQueue[tuple[str, Task, bytes | str]] = SimpleQueue()  # a round's own: what is late is dropped
        try:
            while awaited := self.awaited():
                over = time.monotonic() > deadline
                in_job = {client.name for client in self._controller._engine.get_clients()}
                able = [party for party in awaited if self._client_of[party] in in_job]
                for party in () if over else able:
                    if party not in out and asked[party].due <= time.monotonic():
                        out[party] = self._send(party, message, deadline, ended)
                time.sleep(0.0 if over else _POLL)
                while not ended.empty():
                    party, task, submission = ended.get()
                    if out.get(party) is not task:
                        continue  # FLARE tells twice of a task that was answered
                    del out[party]
                    asked[party].postpone(again=self._again and isinstance(submission, str))
                    if not isinstance(submission, str):
                        yield party, submission
                        submission = "" if self.aggregator.has_accepted(party) else "what has come does not count"
                    self.tell_failure(asked[party], submission, party)
                self.failures = {party: self._reason(party, asked[party], in_job) for party in self.awaited()}
                self.tell(self.failures, deadline)
                if self._abort_signal.triggered:
                    raise EvaluationError("FLARE has ended the job; submit it again to go on")
                if over or (not out and all(asked[party].due == math.inf for party in able)):
                    return
        finally:
            for task in out.values():
                self._controller.cancel_task(task)

    def _send(self, party: str, message: bytes, deadline: float, ended: SimpleQueue[Any]) -> Task:
        """Send a task to a party; its end is put into the queue, with a submission or why there is none."""
        task = Task(TASK, Shareable({MESSAGE: message}), timeout=max(math.ceil(deadline - time.monotonic()), 1))
        task.result_received_cb = lambda client_task, fl_ctx: ended.put((party, task, _submission(client_task.result)))
        task.task_done_cb = lambda task, fl_ctx: ended.put((party, task, f"no answer: {task.completion_status}"))
        self._controller.send(task, self._fl_ctx, targets=[self._client_of[party]])
        return task

    def _reason(self, party: str, asked: Asked, in_job: set[str]) -> str:
        client, refusal = self._client_of[party], self.aggregator.refusals.get(party)
        lost = self._controller.get_client_disconnect_time(client)
        state = "is not in this job" if client not in in_job else "is not connected" if lost else "was asked"
        return "; ".join(filter(None, (refusal, asked.failure, f"client {client!r} {state}")))


def _submission(answer: Shareable) -> bytes | str:
    """Return a submission, or why an answer is none: of a site's error its kind alone is for our logs."""
    code, submission = answer.get_return_code(), answer.get(MESSAGE)
    if code == ReturnCode.OK and isinstance(submission, bytes):
        return submission
    return f"it could not answer (FLARE: {kind_of_error(str(code))}): {kind_of_error(str(answer.get(REFUSED)))}"
