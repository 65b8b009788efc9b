"""Tasks of a fleet: in this process, in processes of this machine, or on workers of Dask's (`dask_scheduler`).

A task is a function of a module. Engines keep arguments and results, write them to disk, and log those of tasks that
fail: so none is secret. A task has its role's private keys from a key store, by `OwnKeys`, and any other secret sealed
to these. It may be done several times, and two at once: it writes files as a whole, and the same ones each time.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TypeAlias, TypeVar

import fhe_auc
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.extras import require
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.store.vault import OWN, STORE_VARIABLE, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import PrivateKeys

R = TypeVar("R")
Part: TypeAlias = "tuple[object, ...]"
Done: TypeAlias = "tuple[R, float, int]"
"""What a task has returned, its CPU time in seconds, and the most memory that its process has had, in bytes."""

UNSEALS = "unseals"
"""The entry in a worker's key store: of its role, what unseals. Nobody plays a role with it, whose entry is `OWN`."""

MOST_DEATHS = 4  # of processes, with one task; Dask has a setting, and gives up at the fourth, too
_MOST_ON_WINDOWS = 61  # that it can wait for
_AHEAD = 2  # tasks a worker that are under way at a time
_THREADS = "OMP_NUM_THREADS"  # of a process that computes


@dataclass(frozen=True)
class OwnKeys:
    """Where a task finds its role's private keys: in this key store, or in its worker's own."""

    vault: Vault | None = None

    def identity(self) -> Identity:
        """Return the role's identity, which this process then keeps; the store must be closed; errors as `Vault.open`.

        That of a worker's own store signs for nobody.
        """
        if self.vault is not None:
            return _identity(self.vault, OWN)
        if not (directory := os.environ.get(STORE_VARIABLE)):
            raise StoreError(f"a worker has no {STORE_VARIABLE}, its key store: `fhe-auc fleet worker` makes one")
        file = _passphrase_file(Path(directory))
        return _identity(Vault(Path(directory), file if file.exists() else None), UNSEALS)


@lru_cache(maxsize=2)
def _identity(vault: Vault, entry: str) -> Identity:
    with vault.open() as store:
        return Identity.from_bytes(store.get("identity", entry))


def make_store(directory: Path, identity: Identity) -> Path:
    """Make a key store with which workers unseal for a role, but nobody plays it; return its passphrase's file.

    That lies beside it; errors as `create_with_random_passphrase`.
    """
    file, (_, unsealing) = _passphrase_file(directory), identity.keys.components
    signs_for_nobody, _ = PrivateKeys.generate().components
    kept = Identity(identity.name, PrivateKeys.from_components(signs_for_nobody, unsealing))
    directory.parent.mkdir(parents=True, exist_ok=True)
    with create_with_random_passphrase(directory, file) as store:
        store.put("identity", UNSEALS, kept.to_bytes())
    return file


def _passphrase_file(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.passphrase")


class Workers(AbstractContextManager["Workers"]):
    """So many workers: one is this process, more are processes; a context manager."""

    own_stores = False
    """Whether workers have key stores of their own for the role."""
    _death: type[Exception] = BrokenProcessPool
    """What results are where a worker dies."""
    _times_alone = MOST_DEATHS - 1

    def __init__(self, number: int = 1) -> None:
        if number < 1:
            raise InputError(f"there must be at least one worker, got {number}")
        if number > _MOST_ON_WINDOWS and sys.platform == "win32":
            raise InputError(f"on Windows there are at most {_MOST_ON_WINDOWS} workers, got {number}")
        self.number, self._is_here = number, number == 1
        self.seconds, self.peak = 0.0, 0
        """CPU time of tasks in other processes than this one, and the most memory that one of these has had."""
        self._threads = os.environ.get(_THREADS)

    @classmethod
    def on(cls, scheduler: str) -> Workers:
        """Return those of Dask's scheduler at an address; `InputError` where it is not to be used or not reached.

        Each worker has this version of fhe-auc, and a key store for the role (`make_store`).
        """
        return _DaskWorkers(scheduler)

    def __enter__(self) -> Workers:
        if self.number > 1:
            os.environ.setdefault(_THREADS, "1")
        return self

    def __exit__(self, *error: object) -> None:
        if self._threads is None:
            os.environ.pop(_THREADS, None)

    def keys(self, vault: Vault) -> OwnKeys:
        """Return where tasks find the private keys of the role whose key store is `vault`."""
        return OwnKeys(None if self.own_stores else Vault(vault.directory, vault.passphrase_file))

    def map(self, function: Callable[..., R], parts: Iterable[Part], *shared: object) -> Iterator[R]:
        """Yield `function(*part, *shared)` of each part, in order, each once; what a task raises is raised.

        A part begins with a file's place, or with what has its `name`. Where a worker dies (of too little memory, say),
        the tasks that it may have had are done again, alone: `EvaluationError`, which names the file, where that kills
        workers, too.
        """
        if self._is_here:
            yield from (function(*part, *shared) for part in parts)
            return
        engine = self._engine(self.number)
        task, left, died = partial(_done, fhe_auc.__version__, function, shared), iter(parts), False
        under_way: deque[tuple[Part, Future[Done[R]]]] = deque()
        try:
            while True:
                if not died:
                    coming = islice(left, _AHEAD * self.number - len(under_way))
                    under_way.extend((part, self._begun(engine, task, part)) for part in coming)
                if not under_way:
                    return
                part, future = under_way.popleft()
                try:
                    found, seconds, most = future.result()
                except self._death:
                    died = True
                    found, seconds, most = self._alone(task, part, [each for _, each in under_way])
                if died and not under_way:
                    engine.shutdown()
                    engine, died = self._engine(self.number), False
                self.seconds, self.peak = self.seconds + seconds, max(self.peak, most)
                yield found
        except CancelledError:
            raise EvaluationError("Dask's scheduler has gone; run the command once more") from None
        finally:
            engine.shutdown(cancel_futures=True)

    def _begun(self, engine: Executor, task: Callable[[Part], Done[R]], part: Part) -> Future[Done[R]]:
        try:
            return engine.submit(task, part)
        except self._death as error:  # a process has died since the last result
            refused: Future[Done[R]] = Future()
            refused.set_exception(error)
            return refused

    def _alone(self, task: Callable[[Part], Done[R]], part: Part, others: Iterable[Future[Done[R]]]) -> Done[R]:
        # All of a pool's processes end where one dies, and Dask gives up on what only waited there, too: which task it
        # was, this tells.
        for each in others:
            each.exception()
        for _ in range(self._times_alone):
            with suppress(self._death), self._engine(1) as engine:
                return engine.submit(task, part).result()
        name, again = str(getattr(part[0], "name", part[0])), "Nothing of it is counted: run the command once more"
        raise EvaluationError(f"{name!r}: each worker that had it has died. Is there enough memory? {again}") from None

    def _engine(self, number: int) -> Executor:
        return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _begin)


class _DaskWorkers(Workers):
    own_stores, _times_alone = True, 1

    def __init__(self, scheduler: str) -> None:
        require("dask")
        from fhe_auc_keys.fleet import dask_scheduler

        self._tasks, self._death = dask_scheduler.Tasks(scheduler), dask_scheduler.KilledWorker
        super().__init__(self._tasks.number)
        self._is_here = False

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._tasks.close()

    def _engine(self, number: int) -> Executor:
        return self._tasks


def _begin() -> None:
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # at once, and without a traceback of its own

    def end_with_parent() -> None:  # else it would wait for tasks for ever, with its role's private keys
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()


def _done(version: str, function: Callable[..., R], shared: tuple[object, ...], part: Part) -> Done[R]:
    """Do a task, on a worker that may have come after all were asked for their version."""
    if fhe_auc.__version__ != version:
        raise EvaluationError(f"a worker has fhe-auc {fhe_auc.__version__}, and {version} is needed")
    started = time.process_time()
    found = function(*part, *shared)
    return found, time.process_time() - started, peak()


def peak() -> int:
    """Return the most memory that this process has had, in bytes; 0 where the system does not say it as Linux does."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)  # not `getrusage`'s: there a process begins with its parent's
    return 1024 * int(found[1]) if found else 0
