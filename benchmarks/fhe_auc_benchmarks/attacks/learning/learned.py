"""What an attack has learned: it says a secret's value exactly, a count or a key. That it sees bytes is nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fhe_auc.base.errors import FheAucError


class Learned(NamedTuple):
    """What an attack says that secrets are, by name, and what they are; and which of them it is promised."""

    read: Mapping[str, object]
    truth: Mapping[str, object]
    promised: tuple[str, ...] = ()


class LearningAttack(NamedTuple):
    """One way to learn: who is corrupt and what that does, on which protocols, by kind of keys.

    `play` takes a protocol, a kind of keys and a generator; it raises the `FheAucError` with which honest roles refuse.
    """

    description: str
    play: Callable[[str, str, np.random.Generator], Learned]
    on: Mapping[str, tuple[str, ...]]

    def run(self, protocol: str, keys: str, trials: int, seed: int) -> dict[str, Any]:
        """Return for JSON the number of trials that read something exactly, of those beyond promises, and what."""
        secrets, promised, refused = set[str](), set[str](), set[str]()
        numbers = Counter({"trials": trials, "read": 0, "beyond": 0})
        for trial in range(trials):
            try:
                told = self.play(protocol, keys, np.random.default_rng([seed, trial]))
            except FheAucError as error:
                refused.add(type(error).__name__)
                continue
            exactly = {name for name, value in told.read.items() if told.truth[name] == value}
            numbers.update(read=bool(exactly), beyond=bool(exactly - {*told.promised}))
            secrets |= exactly
            promised |= {*told.promised}
        return {**numbers, "secrets": sorted(secrets), "promised": sorted(promised), "refused": sorted(refused)}


def outcome(found: Mapping[str, Any]) -> str:
    """Return in words what came of trials: "READS" only where that is more than promised."""
    named, promised = ", ".join(found["secrets"]), ", ".join(found["promised"])
    if found["beyond"]:
        return f"READS {named}; promised: {promised or 'nothing'}"
    return f"reads {named}, as promised" if named else ": ".join(["learns nothing", *found["refused"]])
