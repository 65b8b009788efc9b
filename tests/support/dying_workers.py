"""Workers that die in the middle of a step. It is small, as every worker imports it."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fhe_auc_keys.fleet.workers import Workers

R = TypeVar("R")

STEPS = "collect's first pass", "collect's second pass", "open", "add"  # a session's calls of `Workers.map`, in order


class Dying(Workers):
    """Workers that do some of the `steps`, in which one dies with the second range, so many `times`; else this process.

    What dies has done its task, but cannot say so any more. With `stores` each task is given its role's key store, as
    the machine of Dask's worker has one: workers of one cluster are here the server's and the helper's by turns.
    """

    def __init__(
        self, workers: Workers, folder: Path, *steps: str, times: int = 1, stores: dict[str, Path] | None = None
    ) -> None:
        super().__init__()
        self._workers, self._folder, self._steps, self._times = workers, folder, steps, times
        self._stores, self.own_stores = stores or {}, bool(stores)
        self._coming = iter(STEPS)

    def map(self, function: Callable[..., R], parts: Iterable[tuple[object, ...]], *shared: object) -> Iterator[R]:
        step = next(self._coming)
        if step not in self._steps:
            return super().map(function, parts, *shared)
        (folder := self._folder / step).mkdir(parents=True)
        if self._stores:
            function = partial(_with_store, function, str(self._stores["trustee" if step == "open" else "adder"]))
        return self._workers.map(partial(_dies_after, function, folder, self._times), parts, *shared)

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
    os.environ["FHE_AUC_STORE"] = store
    return function(*rest)
