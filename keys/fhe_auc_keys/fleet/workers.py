"""Tasks of a fleet: in this process, in processes of this machine, or on workers of Dask's (`dask_scheduler`).

A task is a function of a module. Engines keep arguments and results, write them to disk, and log those of tasks that
fail: so none is secret. A task has its role's private keys from a key store, by `OwnKeys`, and any other secret sealed
to these. It may be done several times, and two at once: it writes files as a whole, and the same ones each time.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import fhe_auc
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.extras import require
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import PrivateKeys

if TYPE_CHECKING:
    import distributed

R = TypeVar("R")

STORE_VARIABLE = "FHE_AUC_STORE"  # of a worker of Dask's: the key store that `make_store` has made
UNSEALS = "unseals"
"""The entry in a worker's key store: of its role, what unseals. Nobody plays a role with it, whose entry is `OWN`."""

MOST_DEATHS = 4  # of processes, with one task; Dask has a setting, and gives up at the fourth, too
_MOST_ON_WINDOWS = 61  # that it can wait for
_AHEAD = 2  # tasks a worker that are under way at a time
_THREADS = "OMP_NUM_THREADS"  # of a process that computes


@runtime_checkable
class Named(Protocol):
    """What knows the file that it is about."""

    @property
    def name(self) -> str:
        """The file's place."""


Done: TypeAlias = "tuple[R, float, int]"
"""What a task has returned, its CPU time in seconds, and the most memory that its process has had, in bytes."""
Future: TypeAlias = "concurrent.futures.Future[Done[R]] | _DaskFuture[R]"


class Engine(Protocol[R]):
    """Does tasks of one function."""

    death: type[Exception]
    """What results are where a worker dies."""

    def submit(self, part: tuple[object, ...]) -> Future[R]:
        """Begin a task."""

    def alone(self, part: tuple[object, ...], others: Sequence[Future[R]]) -> Done[R]:
        """Do a task again, when the others have ended; raise `death` where it goes on killing workers."""

    def close(self) -> None:
        """Begin no other task."""


@dataclass(frozen=True)
class OwnKeys:
    """Where a task finds its role's private keys: a key store, and its passphrase, as `Vault`; a worker's, if empty."""

    directory: str = ""
    passphrase_file: str | None = None

    def identity(self) -> Identity:
        """Return the role's identity, which this process then keeps; the store must be closed; errors as `Vault.open`.

        That of a worker's own store signs for nobody.
        """
        if self.directory:
            return _identity(self.directory, self.passphrase_file, OWN)
        if not (directory := os.environ.get(STORE_VARIABLE)):
            raise StoreError(f"a worker has no {STORE_VARIABLE}, its key store: `fhe-auc fleet worker` makes one")
        file = _passphrase_file(Path(directory))
        return _identity(directory, str(file) if file.exists() else None, UNSEALS)


@lru_cache(maxsize=2)
def _identity(directory: str, passphrase_file: str | None, entry: str) -> Identity:
    with Vault(Path(directory), None if passphrase_file is None else Path(passphrase_file)).open() as store:
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
    """So many workers: one is this process; a context manager."""

    def __init__(self, number: int = 1) -> None:
        if number < 1:
            raise InputError(f"there must be at least one worker, got {number}")
        if number > _MOST_ON_WINDOWS and sys.platform == "win32":
            raise InputError(f"on Windows there are at most {_MOST_ON_WINDOWS} workers, got {number}")
        self.number = number
        self.seconds, self.peak = 0.0, 0
        """CPU time of tasks in other processes than this one, and the most memory that one of these has had."""
        self.own_stores = False
        """Whether workers have key stores of their own for the role."""
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
        if self.own_stores:
            return OwnKeys()
        return OwnKeys(str(vault.directory), None if vault.passphrase_file is None else str(vault.passphrase_file))

    def map(self, function: Callable[..., R], parts: Iterable[tuple[object, ...]], *shared: object) -> Iterator[R]:
        """Yield `function(*part, *shared)` of each part, in order, each once; what a task raises is raised.

        A part begins with a file's place, or with what is `Named`. Where a worker dies (of too little memory, say), the
        tasks that it may have had are done again, alone: `EvaluationError`, which names the file, where that kills
        workers, too.
        """
        if (engine := self._engine(function, shared)) is None:
            for part in parts:
                yield function(*part, *shared)
            return
        left, died = iter(parts), False
        under_way: deque[tuple[tuple[object, ...], Future[R]]] = deque()
        try:
            while True:
                if not died:
                    coming = islice(left, _AHEAD * self.number - len(under_way))
                    under_way.extend((part, engine.submit(part)) for part in coming)
                if not under_way:
                    return
                part, future = under_way.popleft()
                try:
                    found, seconds, peak_then = future.result()
                except engine.death:
                    found, seconds, peak_then = self._again(engine, part, [each for _, each in under_way])
                    died = True
                died = died and bool(under_way)
                self.seconds, self.peak = self.seconds + seconds, max(self.peak, peak_then)
                yield found
        finally:
            engine.close()

    def _again(self, engine: Engine[R], part: tuple[object, ...], others: Sequence[Future[R]]) -> Done[R]:
        try:
            return engine.alone(part, others)
        except engine.death:
            name = part[0].name if isinstance(part[0], Named) else part[0]
            raise EvaluationError(
                f"{str(name)!r}: each worker that had it has died. Is there enough memory? Nothing of it is counted: "
                "run the command once more"
            ) from None

    def _engine(self, function: Callable[..., R], shared: tuple[object, ...]) -> Engine[R] | None:
        return None if self.number == 1 else _Processes(self.number, function, shared)


class _Processes(Generic[R]):
    death: type[Exception] = BrokenProcessPool

    def __init__(self, number: int, function: Callable[..., R], shared: tuple[object, ...]) -> None:
        self._number, self._given = number, (function, shared)
        self._pool = self._of(number)

    def _of(self, number: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _begin, self._given)

    def submit(self, part: tuple[object, ...]) -> Future[R]:
        try:
            return self._pool.submit(_done, part)
        except BrokenProcessPool as error:  # a process has died since the last result
            refused: concurrent.futures.Future[Done[R]] = concurrent.futures.Future()
            refused.set_exception(error)
            return refused

    def alone(self, part: tuple[object, ...], others: Sequence[Future[R]]) -> Done[R]:
        # Where a process dies all of its pool end; a pool that was not used yet has none.
        self._pool.shutdown()
        self._pool = self._of(self._number)
        for left in reversed(range(MOST_DEATHS - 1)):
            with self._of(1) as fresh:
                try:
                    return fresh.submit(_done, part).result()
                except BrokenProcessPool:
                    if not left:
                        raise
        raise AssertionError

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class _DaskWorkers(Workers):
    def __init__(self, scheduler: str) -> None:
        require("dask")
        from fhe_auc_keys.fleet.dask_scheduler import connected

        self._client, number = connected(scheduler)
        super().__init__(number)
        self.own_stores = True

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def _engine(self, function: Callable[..., R], shared: tuple[object, ...]) -> Engine[R]:
        return _OnDask(self._client, function, shared)


class _OnDask(Generic[R]):
    def __init__(self, client: distributed.Client, function: Callable[..., R], shared: tuple[object, ...]) -> None:
        from distributed import KilledWorker

        self.death: type[Exception] = KilledWorker
        self._client, self._given = client, (fhe_auc.__version__, function, shared)

    def submit(self, part: tuple[object, ...]) -> _DaskFuture[R]:
        # Not pure: a task does more than return something, and of equal ones each is done.
        return _DaskFuture(self._client.submit(_done_there, *self._given, part, pure=False))

    def alone(self, part: tuple[object, ...], others: Sequence[Future[R]]) -> Done[R]:
        # Dask gives up on what only waited at workers that died, too: which task it was, this tells.
        for each in others:
            with suppress(Exception):
                each.result()
        return self.submit(part).result()

    def close(self) -> None:
        """Do nothing: what nobody waits for any more Dask drops."""


class _DaskFuture(Generic[R]):
    def __init__(self, future: distributed.Future[Done[R]]) -> None:
        self._future = future

    def result(self) -> Done[R]:
        try:
            return self._future.result()
        except concurrent.futures.CancelledError:
            raise EvaluationError("Dask's scheduler has gone; run the command once more") from None


def _done_there(
    version: str, function: Callable[..., R], shared: tuple[object, ...], part: tuple[object, ...]
) -> Done[R]:
    """Do a task on a worker of Dask's, which may have come after all were asked for their version."""
    if fhe_auc.__version__ != version:
        raise EvaluationError(f"a worker has fhe-auc {fhe_auc.__version__}, and {version} is needed")
    return done(function, shared, part)


_given: tuple[Callable[..., object], tuple[object, ...]]
"""In a process of `_Processes`: the function of all its tasks, and what they share."""


def _begin(function: Callable[..., object], shared: tuple[object, ...]) -> None:
    global _given
    _given = function, shared
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # at once, and without a traceback of its own
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent is killed would wait for tasks for ever, with its role's private keys."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _done(part: tuple[object, ...]) -> Done[Any]:
    return done(*_given, part)


def done(function: Callable[..., R], shared: tuple[object, ...], part: tuple[object, ...]) -> Done[R]:
    """Do a task, here."""
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
