"""What an attack has learned, beside what is true and what is promised.

An attack learns a secret where it says its value exactly: a count of a site or of the pool, a seed, a query's point.
That it sees bytes is nothing. Only the laboratory can compare, which has made the secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fhe_auc.base.errors import FheAucError


class Learned(NamedTuple):
    """What an attack says that secrets are, by their names, what they are, and which it is promised."""

    read: Mapping[str, object]
    truth: Mapping[str, object]
    promised: tuple[str, ...] = ()

    @property
    def exactly(self) -> list[str]:
        """Which secrets it has right."""
        return [name for name, value in self.read.items() if name in self.truth and self.truth[name] == value]


Play: TypeAlias = Callable[[str, str, np.random.Generator], Learned]


class LearningAttack(NamedTuple):
    """One way to learn: who is corrupt and what that does, on which protocols, by kind of keys.

    `play` takes a protocol, a kind of keys and a generator, and raises the `FheAucError` with which an honest role
    refuses.
    """

    description: str
    play: Play
    on: Mapping[str, tuple[str, ...]]
    stake: str = "learns"

    def run(self, protocol: str, keys: str, trials: int, seed: int) -> dict[str, Any]:
        """Return for JSON what came of trials: how many `read` something exactly, and how many `beyond` promises."""
        told, refused = list[Learned](), Counter[str]()
        for trial in range(trials):
            try:
                told.append(self.play(protocol, keys, np.random.default_rng([seed, trial])))
            except FheAucError as error:
                refused[type(error).__name__] += 1
        beyond = [not set(each.exactly) <= set(each.promised) for each in told]
        return {
            "trials": trials,
            "read": sum(bool(each.exactly) for each in told),
            "beyond": sum(beyond),
            "secrets": sorted({name for each in told for name in each.exactly}),
            "promised": sorted({name for each in told for name in each.promised}),
            "refused": dict(refused),
        }


def outcome(found: Mapping[str, Any]) -> str:
    """Return what came of trials in words: "READS" only where that is more than promised."""
    if not found["read"]:
        return ": ".join(["learns nothing", *([", ".join(found["refused"])] if found["refused"] else [])])
    promised = _named(found["promised"]) or "nothing"
    named = _named(found["secrets"])
    return f"READS {named}; promised: {promised}" if found["beyond"] else f"reads {named}, as promised"


def _named(secrets: list[str]) -> str:
    return ", ".join(secrets[:2]) + (f" and {len(secrets) - 2} more" if len(secrets) > 2 else "")
