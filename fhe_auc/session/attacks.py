"""Aggregators that lie about one protocol, for demonstrations.

The engine brings none. A package adds some through the entry-point group ``fhe_auc.attacks``, under the protocol's
name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest


class Attacks(ABC):
    """Attacks on one protocol, with sealed keys or a helper; `registry.attacks` finds what is installed."""

    descriptions: ClassVar[Mapping[str, str]]  # by name: what the aggregator does

    @abstractmethod
    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that lies; it holds what the honest one does.

        `attack` is a name in `descriptions`, `material` is as for `fhe_auc.session.protocol.Protocol.aggregator`, and
        `rows` is about how many rows all parties have, which liars are taken to know. Raises `InputError` where there
        is no such attack, or none on this session.
        """
