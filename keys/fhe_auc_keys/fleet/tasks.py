"""Tasks in this process, or in several processes on this machine; a task is a function of a module."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

from fhe_auc.base.errors import EvaluationError, InputError

R = TypeVar("R")

_MOST_ON_WINDOWS = 61  # that it can wait for
_AHEAD = 2  # tasks a worker that are under way at a time
_THREADS = "OMP_NUM_THREADS"  # of a process that computes

_given: tuple[Callable[..., Any], tuple[Any, ...]]
"""In a worker: the function of all its tasks, and what they share."""


class Workers(AbstractContextManager["Workers"]):
    """So many workers: one is this process; a context manager."""

    def __init__(self, number: int = 1) -> None:
        if number < 1:
            raise InputError(f"there must be at least one worker, got {number}")
        if number > _MOST_ON_WINDOWS and sys.platform == "win32":
            raise InputError(f"on Windows there are at most {_MOST_ON_WINDOWS} workers, got {number}")
        self.number = number
        self.seconds = 0.0
        """CPU time of tasks in other processes than this one."""
        self._threads = os.environ.get(_THREADS)

    def __enter__(self) -> Workers:
        if self.number > 1:
            os.environ.setdefault(_THREADS, "1")
        return self

    def __exit__(self, *error: object) -> None:
        if self._threads is None:
            os.environ.pop(_THREADS, None)

    def map(self, function: Callable[..., R], parts: Iterable[tuple[Any, ...]], *shared: Any) -> Iterator[R]:
        """Yield `function(*part, *shared)` of each part, in order; `EvaluationError` where a process dies."""
        if self.number == 1:
            for part in parts:
                yield function(*part, *shared)
            return
        pool = ProcessPoolExecutor(self.number, multiprocessing.get_context("spawn"), _begin, (function, shared))
        left, futures = iter(parts), deque[Future[tuple[R, float]]]()
        try:
            while True:
                futures += [pool.submit(_measured, part) for part in islice(left, _AHEAD * self.number - len(futures))]
                if not futures:
                    return
                found, seconds = futures.popleft().result()
                self.seconds += seconds
                yield found
        except BrokenProcessPool:
            raise EvaluationError(
                "a worker's process has died: is there enough memory? Run the command once more"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(function: Callable[..., Any], shared: tuple[Any, ...]) -> None:
    global _given
    _given = function, shared
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # at once, and without a traceback of its own
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent is killed would wait for tasks for ever, with what they share, which is secret."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _measured(part: tuple[Any, ...]) -> tuple[Any, float]:
    function, shared = _given
    started = time.process_time()
    found = function(*part, *shared)
    return found, time.process_time() - started
