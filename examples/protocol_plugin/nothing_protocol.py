"""A whole protocol that computes nothing: the smallest there can be.

    round 1    each party sends how many rows it has, in the clear
    round 2    the sum goes to all, and each party says that the AUC is 1/2, give or take 1/2

docs/guide/write-a-protocol.md walks through it. The package names it in the entry-point group ``fhe_auc.protocols``:
then commands have it. What carries, keeps and resumes sessions is tested with it, without encryption.
"""

from collections.abc import Callable
from typing import Annotated

import msgspec

from fhe_auc.base.options import check_names
from fhe_auc.base.serialise import decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Rounds
from fhe_auc.session.party import Party, PartySide, WhoCounts
from fhe_auc.session.protocol import Protocol, Request, Session, new_manifest

_PAYLOAD_BYTES = 32  # more than two integers take
_Rows = Annotated[int, msgspec.Meta(ge=0)]


class Nothing(Protocol[Evaluation]):
    """Plug-in ``nothing``."""

    name = "nothing"
    summary = "adds up in the clear how many rows there are, and says of every AUC that it is 1/2"
    trust = "everybody: nothing is hidden, and nothing checked"
    encrypts = False

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session; there are no keys."""
        check_names(self.options, self.name, request.options)
        return Session(new_manifest(self, request))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return Aggregator(manifest, Adding())

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[Evaluation]:
        """Return the party; `material` is empty."""
        return Party(manifest, data.name, Telling(manifest, data))


class Adding(AggregatorSide):
    """Adds up what parties send."""

    rounds = Rounds(2)

    def __init__(self) -> None:
        self._rows = 0

    def limit(self, number: int) -> int:
        """Return more bytes than a number of rows takes."""
        return _PAYLOAD_BYTES

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Take how many rows a party has."""
        self._rows += decode(payload, _Rows, "number of rows")

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return how many parties count, and how many rows they have."""
        return encode((len(counted), self._rows))


class Telling(PartySide[Evaluation]):
    """Tells how many rows a party has."""

    rounds = Rounds(2)
    download_limit = _PAYLOAD_BYTES

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self._manifest, self._data = manifest, data

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return the number of rows."""
        return encode(self._data.rows)

    def read(self, payload: bytes, who: WhoCounts) -> Evaluation:
        """Return an AUC of 1/2."""
        parties, rows = decode(payload, tuple[int, _Rows], "sum")
        who.check_number(parties)
        return Evaluation(
            auc=0.5,
            binning_error=0.5,
            numerical_error=0.0,
            protocol=self._manifest.protocol,
            backend="none",
            parties=parties,
            thresholds=len(self._manifest.thresholds),
            verified=False,
            security_bits=0,
            warnings=(f"nothing was computed of {rows:,} rows",),
        )
