"""What a table of attacks is: the part of ``fhe-auc attack`` that differs from protocol to protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar


class AttackTable(ABC):
    """The attacks on a protocol that checks its results, and on its sibling that does not."""

    descriptions: Mapping[str, str]
    """By name: what the aggregator does."""

    header: ClassVar[tuple[str, ...]]
    """Of the printed table: five columns and one for remarks."""

    @abstractmethod
    def play(self, name: str) -> dict[str, Any]:
        """Play an attack in every way, and return what came of it, for JSON."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what all attacks have in common, for JSON."""

    @abstractmethod
    def introduction(self) -> str:
        """Return what the printed table's numbers mean."""

    @abstractmethod
    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name, of what `play` has returned."""
