"""Tasks in this process, or in several processes, which Ray runs on this machine and starts anew where they die.

A task is a function of a module. Only what it returns is kept: one that dies half way and is done again counts once.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import psutil

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.extras import require

if sys.platform != "win32":
    import resource

R = TypeVar("R")

_RETRIES = 3
_STORE_BYTES = 2**29  # of what tasks are given and return, in shared memory
_AHEAD = 2  # tasks a worker that are under way at a time
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its name aside, this is what keeps Ray on 127.0.0.1
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AUTH_MODE": "token",  # else any user of this machine could have its workers run code
    "GRPC_ENABLE_FORK_SUPPORT": "0",  # see fhe_auc.machines.processes
}


class Workers(AbstractContextManager["Workers"]):
    """So many workers: one is this process, more are Ray's; a context manager. `InputError` where Ray is missing."""

    def __init__(self, number: int = 1) -> None:
        if number < 1:
            raise InputError(f"there must be at least one worker, got {number}")
        if number > 1:
            require("ray")
        self.number = number
        self.seconds = 0.0
        """CPU time of tasks in other processes than this one."""
        self.peak = 0
        """Most resident memory of any process, in bytes."""
        self._ends = ExitStack()

    def __enter__(self) -> Workers:
        if self.number > 1:
            with ExitStack() as ends:
                folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="fhe-ray-", dir=_short())))
                _start(folder, self.number, ends)
                self._ends = ends.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def map(self, function: Callable[..., R], parts: Iterable[tuple[Any, ...]], *shared: Any) -> Iterator[R]:
        """Yield `function(*part, *shared)` of each part, in order; `EvaluationError` where processes die repeatedly."""
        if self.number == 1:
            for part in parts:
                yield function(*part, *shared)
                self.peak = max(self.peak, _peak())
            return
        import ray

        task = ray.remote(max_retries=_RETRIES, num_cpus=1)(_measured)
        given = [ray.put(each) if getattr(each, "nbytes", 0) else each for each in shared]
        pending: deque[Any] = deque()
        try:
            for part in parts:
                pending.append(task.remote(function, *part, *given))
                if len(pending) >= _AHEAD * self.number:
                    yield self._done(pending.popleft())
            while pending:
                yield self._done(pending.popleft())
        finally:
            for each in pending:
                ray.cancel(each, force=True)

    def _done(self, reference: Any) -> Any:
        import ray

        try:
            found, seconds, peak = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EvaluationError(
                f"a worker's process has died {_RETRIES + 1} times at one task ({type(error).__name__}): is there "
                "enough memory?"
            ) from None
        self.seconds += seconds
        self.peak = max(self.peak, peak, _peak())
        return found


def _measured(function: Callable[..., R], *arguments: Any) -> tuple[R, float, int]:
    started = time.process_time()
    found = function(*arguments)
    return found, time.process_time() - started, _peak()


def _peak() -> int:
    """Return this process's largest resident memory so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # What getrusage tells here counts the process that forked this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024


def _short() -> Path | None:
    """Return where Ray's folder goes: its sockets have at most 107 bytes of path, on macOS 103."""
    if sys.platform == "darwin":
        return Path("/tmp")  # noqa: S108 - likewise; TMPDIR is always set there, and too long
    memory = Path("/dev/shm")  # noqa: S108 - what is made there is private, and gone with the power
    return memory if "TMPDIR" not in os.environ and os.access(memory, os.W_OK | os.X_OK) else None


def _start(folder: Path, number: int, ends: ExitStack) -> None:
    """Start Ray in a folder that only this user can enter; `ends` stops it, and puts the environment back."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    before = dict(os.environ)
    os.environ.update(_SETTINGS, RAY_AUTH_TOKEN_PATH=str(token))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import ray
    from ray._private import ray_constants

    def read_settings() -> None:
        """Let Ray read the environment, which it may have done before, when it was imported."""
        raylet: Any = import_module("ray._raylet")
        raylet.AuthenticationTokenLoader.instance().reset_cache()
        raylet.Config.initialize("")

    def put_back() -> None:
        os.environ.clear()
        os.environ.update(before)
        read_settings()

    ends.callback(put_back)
    if ray_constants.ENABLE_RAY_CLUSTER:
        raise EvaluationError(
            "Ray was imported in this process before, for something else: its ports would be open to the network. "
            "Run this in a process of its own"
        )
    read_settings()
    ray.init(
        address="local",
        num_cpus=number,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=str(folder / "r"),  # which Ray opens to all users
        _system_config={"automatic_object_spilling_enabled": False},  # secrets among them stay off disks
    )
    ends.callback(ray.shutdown)
