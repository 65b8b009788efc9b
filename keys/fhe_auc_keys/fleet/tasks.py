"""Tasks in this process, or in several processes on this machine, which are started anew where they die.

A task is a function of a module. Only what it returns is kept: one that dies half way and is done again counts once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

from fhe_auc.base.errors import EvaluationError, InputError

R = TypeVar("R")

_RETRIES = 3
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
        """Yield `function(*part, *shared)` of each part, in order; `EvaluationError` where processes die repeatedly."""
        if self.number == 1:
            for part in parts:
                yield function(*part, *shared)
            return
        left, under_way, deaths = iter(parts), deque[tuple[Any, ...]](), 0
        while True:
            pool = ProcessPoolExecutor(self.number, multiprocessing.get_context("spawn"), _begin, (function, shared))
            try:
                futures = deque(pool.submit(_measured, part) for part in under_way)
                while True:
                    for part in islice(left, _AHEAD * self.number - len(futures)):
                        under_way.append(part)
                        futures.append(pool.submit(_measured, part))
                    if not futures:
                        return
                    found, seconds = futures.popleft().result()
                    under_way.popleft()
                    deaths = 0
                    self.seconds += seconds
                    yield found
            except BrokenProcessPool:
                deaths += 1
                if deaths > _RETRIES:
                    raise EvaluationError(
                        f"a worker's process has died {deaths} times at one task: is there enough memory?"
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
