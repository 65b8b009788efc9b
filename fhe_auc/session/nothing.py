"""A whole protocol that computes nothing, and fails where it is told to: the smallest there can be.

    round 1    each party sends how many rows it has, in the clear
    round 2    the sum goes to all, and each party says that the AUC is 1/2, give or take 1/2

docs/guide/write-a-protocol.md walks through it. What carries, keeps and resumes sessions is tested with it, without
encryption. No command has it unless a package names it in the entry-point group ``fhe_auc.protocols``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.options import Options, check_names, option
from fhe_auc.base.serialise import decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Protocol, Request, Session, new_manifest

STEPS: Mapping[str, type[Exception]] = {
    "prepare": InputError,
    "aggregator": InputError,
    "party": InputError,
    "submit": EvaluationError,
    "accept": DeserialisationError,
    "close": EvaluationError,
    "receive": DeserialisationError,
    "read": EvaluationError,
}
"""Those that can fail on purpose, in the order of a session, and by which error."""

_PAYLOAD_BYTES = 32  # more than two integers take
_Rows = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, kw_only=True)
class NothingOptions(Options):
    """Of ``nothing``."""

    protocol = "nothing"

    fails: str | None = option(f"step that fails: {', '.join(STEPS)}", default=None)


class Nothing(Protocol[Evaluation]):
    """Plug-in ``nothing``."""

    name = "nothing"
    summary = "adds up in the clear how many rows there are, and says of every AUC that it is 1/2"
    trust = "everybody: nothing is hidden, and nothing checked"
    encrypts = False
    options = NothingOptions

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session; there are no keys."""
        check_names(self.options, self.name, request.options)
        if request.options.get("fails") not in (None, *STEPS):
            raise InputError(f"fails must be one of {', '.join(STEPS)}, got {request.options['fails']!r}")
        manifest = new_manifest(self, request, options=request.options)
        _step("prepare", manifest)
        return Session(manifest)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        _step("aggregator", manifest)
        return NothingAggregator(manifest)

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[Evaluation]:
        """Return the party; `material` is empty."""
        _step("party", manifest)
        return NothingParty(manifest, data)


class NothingAggregator(Aggregator):
    """Adds up what parties send."""

    rounds = 2
    submission_limit = _PAYLOAD_BYTES
    _rows = 0

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == self.rounds:  # parties acknowledge the result, with nothing
            return
        rows = decode(payload, _Rows, "number of rows")
        _step("accept", self.manifest)  # nothing may have changed yet
        self._rows += rows

    def _close(self) -> bytes:
        _step("close", self.manifest)
        return encode((len(self.counted), self._rows))


class NothingParty(Party[Evaluation]):
    """Sends how many rows it has."""

    rounds = 2
    download_limit = _PAYLOAD_BYTES

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        super().__init__(manifest, data.name)
        self._data = data

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == 1:
            _step("submit", self.manifest)
            return encode(self._data.rows)
        parties, rows = decode(payload, tuple[int, _Rows], "sum")
        self._check_counted(parties)
        _step("receive", self.manifest)
        _step("read", self.manifest)
        self._outcome = Evaluation(
            auc=0.5,
            binning_error=0.5,
            numerical_error=0.0,
            protocol=self.manifest.protocol,
            backend="none",
            parties=parties,
            thresholds=len(self.manifest.thresholds),
            verified=False,
            security_bits=0,
            warnings=(f"nothing was computed of {rows:,} rows",),
        )
        return b""


def _step(step: str, manifest: Manifest) -> None:
    if manifest.options.get("fails") == step:
        raise STEPS[step](f"{step} fails on purpose")
