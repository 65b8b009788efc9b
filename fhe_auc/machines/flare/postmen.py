"""The controller and the executor: postmen between FLARE's tasks and a folder (`fhe_auc.machines.postman`).

What they need they read where they run, in ``local/fhe-auc`` of the FLARE workspace, and never in a job.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_config
from fhe_auc.base.logs import LOGGER, write_to_stderr
from fhe_auc.exchange.exchange import Folder
from fhe_auc.machines.postman import Hub, answer

TASK, LETTER, REFUSED = "fhe_auc", "fhe-auc.letter", "fhe-auc.refused"
"""The name of the task that clients execute; entries of what is sent: the letter, and the kind of error."""

_SERVER, _SITE = ("exchange", "clients", "every", "hours"), ("exchange", "name")
_POLL = 0.2  # seconds
_EVERY, _WAIT = 60.0, 15.0  # seconds between letters, and for a role to answer
_PATIENCE = 600  # seconds for an answer


class Carrier(Controller):  # type: ignore[misc] # FLARE has no types
    """Carries letters for as long as ``server.toml`` says, and ends the job."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing; at the end, too."""

    stop_controller = start_controller

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Carry letters; where the configuration cannot be, the job fails and says why."""
        _log()
        try:
            carry(self, fl_ctx, abort_signal, _config(fl_ctx, "server", _SERVER))
        except Exception as error:
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)


def carry(controller: Controller, fl_ctx: FLContext, abort_signal: Signal, config: Mapping[str, Any]) -> None:
    """Carry letters between the folder ``exchange`` and the job's clients, in a controller of one's own, too.

    ``clients`` is a table of FLARE's names of clients by site; without it a client is the site that it first says.
    ``every``: seconds between letters where there is nothing to carry; ``hours``: how long, for ever without. Raises
    `InputError` for a configuration that cannot be; what a client answers ends nothing.
    """
    clients = config.get("clients") or {}
    if not isinstance(clients, Mapping) or len(set(clients.values())) < len(clients):
        raise InputError(f"clients: {clients!r} is no table of clients by site")
    if not config.get("exchange"):
        raise InputError("exchange is not configured")
    names = {str(client): str(site) for site, client in clients.items()}
    hub = Hub(Folder(Path(str(config["exchange"]))), names, float(config.get("every") or _EVERY))
    end = time.monotonic() + (3600 * float(config.get("hours") or 0) or math.inf)
    ended: SimpleQueue[tuple[str, Task, bytes | str]] = SimpleQueue()
    out: dict[str, Task] = {}  # by client
    while time.monotonic() < end and not abort_signal.triggered:
        for client, letter in hub.letters(each.name for each in fl_ctx.get_engine().get_clients()).items():
            out[client] = _task(client, letter, ended)
            controller.send(out[client], fl_ctx, targets=[client])
        time.sleep(_POLL)
        while not ended.empty():
            client, task, told = ended.get()
            if out.get(client) is not task:
                continue  # FLARE tells twice of a task that was answered
            del out[client]
            hub.failed(client, told) if isinstance(told, str) else hub.take(client, told)
    for task in out.values():
        controller.cancel_task(task)


def _task(client: str, letter: bytes, ended: "SimpleQueue[tuple[str, Task, bytes | str]]") -> Task:
    """Return the task for a client to answer a letter; its end is put into the queue, with the answer or why not."""

    def answered(client_task: Any, fl_ctx: FLContext) -> None:
        code, told = client_task.result.get_return_code(), client_task.result.get(LETTER)
        wrong = f"FLARE's {str(code)[:80]}: {str(client_task.result.get(REFUSED))[:80]}"
        ended.put((client, task, told if code == ReturnCode.OK and isinstance(told, bytes) else wrong))

    task = Task(TASK, Shareable({LETTER: letter}), timeout=_PATIENCE, result_received_cb=answered)
    task.task_done_cb = lambda task, fl_ctx: ended.put((client, task, f"no answer: {task.completion_status}"))
    return task


class Answerer(Executor):  # type: ignore[misc] # FLARE has no types
    """Answers letters as ``NAME.toml`` says, NAME being the client's: ``exchange``, ``name``."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Return a letter; or the kind of what went wrong, with the rest in the log of this process."""
        _log()
        try:
            config = _config(fl_ctx, fl_ctx.get_identity_name(), _SITE)
            exchange = Folder(Path(str(config["exchange"])))
            letter = answer(exchange, str(config["name"]), shareable[LETTER], wait=_WAIT)
            return Shareable({LETTER: letter})
        except Exception as error:
            LOGGER.exception("not answered")
            reply = make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
            reply[REFUSED] = type(error).__name__
            return reply


def _config(fl_ctx: FLContext, name: str, entries: tuple[str, ...]) -> Mapping[str, Any]:
    return read_config(
        Path(fl_ctx.get_engine().get_workspace().get_site_config_dir(), "fhe-auc", f"{name}.toml"), entries
    )


def _log() -> None:
    write_to_stderr()
    LOGGER.propagate = False  # into FLARE's own logs, which it streams to the server, and its administrators read
