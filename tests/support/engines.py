"""Tasks for any engine and what is claimed of all engines, and workers that die and are watched in a session.

It is small, as every worker imports it.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc_keys.fleet.workers import MOST_DEATHS, OwnKeys, Workers
from fhe_auc_keys.store.vault import STORE_VARIABLE

R = TypeVar("R")

STEPS = "collect's first pass", "collect's second pass", "open", "add"  # a session's calls of `Workers.map`, in order


class Range(NamedTuple):
    name: str
    number: int


def ranges(number: int) -> Iterator[tuple[Range]]:
    return ((Range(f"range-{each}.parquet", each),) for each in range(number))


def square(part: Range, offset: int) -> int:
    if part.number == 9:
        raise InputError(f"{part.number} is not to my taste")
    return part.number * part.number + offset


def die(part: Range, folder: Path, deaths: int) -> int:
    """Kill the worker for the range 3, so many times; how often it was begun, the folder tells."""
    if part.number == 3:
        before = len(list(folder.iterdir()))
        (folder / str(before)).touch()
        if before < deaths:
            os._exit(1)
    return part.number


def drawn(_: str) -> bytes:
    return os.urandom(16)


def unsealed(_: str, sealed: bytes, keys: OwnKeys) -> tuple[str, int]:
    return keys.identity().unseal(sealed, info=b"").decode(), os.getpid()


def results_come_in_order_and_errors_as_they_are(workers: Workers, _: Path) -> None:
    found = workers.map(square, ranges(12), 1)
    assert [next(found) for _ in range(9)] == [each * each + 1 for each in range(9)]
    with pytest.raises(InputError, match="9 is not to my taste"):
        next(found)
    assert workers.number == 2
    assert workers.seconds > 0
    assert workers.peak > 2**20 or not Path("/proc/self/status").exists()


def what_a_worker_dies_with_is_done_again_and_counted_once(workers: Workers, folder: Path) -> None:
    assert list(workers.map(die, ranges(9), folder, 2)) == list(range(9))
    assert len(list(folder.iterdir())) == 3


def what_kills_every_worker_is_named_and_not_what_waited_beside_it(workers: Workers, folder: Path) -> None:
    found = workers.map(die, ranges(9), folder, 99)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(EvaluationError, match=r"'range-3\.parquet': each worker that had it has died"):
        next(found)
    assert len(list(folder.iterdir())) == MOST_DEATHS


def equal_tasks_are_each_done_and_draw_anew(workers: Workers, _: Path) -> None:
    assert len(set(workers.map(drawn, [("range-0.parquet",)] * 6))) == 6


CLAIMS: tuple[Callable[[Workers, Path], None], ...] = (
    results_come_in_order_and_errors_as_they_are,
    what_a_worker_dies_with_is_done_again_and_counted_once,
    what_kills_every_worker_is_named_and_not_what_waited_beside_it,
    equal_tasks_are_each_done_and_draw_anew,
)


class Watched(Workers):
    """Workers that do some of the `steps`, in which one dies with the second range, so many `times`; else this process.

    What is carried to them, and back, is kept. What dies has done its task, but cannot say so any more. With `stores`
    each task is given its role's key store, as the machine of Dask's worker has one: workers of one cluster are here
    the server's and the helper's by turns.
    """

    def __init__(
        self, workers: Workers, folder: Path, *steps: str, times: int = 1, stores: dict[str, Path] | None = None
    ) -> None:
        super().__init__()
        self._workers, self._folder, self._steps, self._times = workers, folder, steps, times
        self._stores, self.own_stores = stores or {}, bool(stores)
        self._coming, self.carried = iter(STEPS), b""

    def map(self, function: Callable[..., R], parts: Iterable[tuple[object, ...]], *shared: object) -> Iterator[R]:
        step, doing = next(self._coming, ""), super().map
        self.carried += pickle.dumps((parts := list(parts), shared))
        if step in self._steps:
            (folder := self._folder / step).mkdir(parents=True)
            if self._stores:
                function = partial(_with_store, function, str(self._stores["trustee" if step == "open" else "adder"]))
            function, doing = partial(_dies_after, function, folder, self._times), self._workers.map
        for found in doing(function, parts, *shared):
            self.carried += pickle.dumps(found)
            yield found

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.__exit__(*error)

    @property
    def deaths(self) -> dict[str, int]:
        """How many workers have died, by step."""
        return {each.name: len(list(each.iterdir())) for each in self._folder.iterdir()}


def _dies_after(function: Callable[..., R], folder: Path, times: int, place: str, *rest: Any) -> R:
    found = function(place, *rest)
    if "000001" in place and (before := len(list(folder.iterdir()))) < times:
        (folder / str(before)).touch()
        os._exit(1)
    return found


def _with_store(function: Callable[..., R], store: str, *rest: Any) -> R:
    with patch.dict(os.environ, {STORE_VARIABLE: store}):
        return function(*rest)
