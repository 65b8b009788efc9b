"""Attacks on a protocol: how a package brings aggregators and parties that lie."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, final

from fhe_auc.base.errors import InputError
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party


class Attacks(ABC):
    """Aggregators and parties that lie about one protocol, for demonstrations; `registry.attacks` finds the installed.

    The engine brings none. A package adds some, on sessions with sealed keys or a helper, through the entry-point group
    ``fhe_auc.attacks``, under the protocol's name.
    """

    descriptions: ClassVar[Mapping[str, str]]  # by name: what the aggregator does
    of_parties: ClassVar[Mapping[str, str]] = {}  # by other names: what a party does

    @final
    def described(self, attack: str) -> str:
        """Return what whoever lies does; raise `InputError`, which names all attacks, where there is none such."""
        known = {**self.descriptions, **self.of_parties}
        if attack not in known:
            raise InputError(f"there is no attack {attack!r} on this protocol; known are {', '.join(known)}")
        return known[attack]

    @abstractmethod
    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that lies; it holds what the honest one does.

        `attack` is a name in `descriptions`, `material` is as for `Protocol.aggregator`, and `rows` is about how many
        rows all parties have, which liars are taken to know. Raises `InputError` where there is no such attack, or none
        on this session.
        """

    def party(
        self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int
    ) -> Party[Evaluation]:
        """Return a party with these rows that lies, as `aggregator`; `attack` is a name in `of_parties`."""
        raise InputError(f"there is no attack {attack!r} of a party on this protocol")
