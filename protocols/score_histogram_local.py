"""Score histograms under local differential privacy: every row is a user, randomised before it is counted.  [FCE] §2.2.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    histogram-local-dp    one optimised unary encoding a row (`protocols.unary_encoding`) over 2m cells: label and bin

    round 1   a party sends how many of its rows' reports have each bit set, and how many rows it has
    round 2   the sums go to all parties, who estimate the histogram and answer with nothing

**Privacy unit: one row**, label and score: whatever they are, a row's report is ε-locally private, against everybody
but the row's own party, whatever others do. Nothing is encrypted, for the reports are private already. How many rows a
party has is public. Each session on the same rows adds its ε: rows are randomised afresh. As both classes are cells of
one encoding, there is no row without a value.

A lying aggregator, or party, is not noticed.
"""

from __future__ import annotations

import math
import time
from types import MappingProxyType

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Protocol, Request, Session
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from protocols.options import EPSILON_ADVICE, positive_number
from protocols.score_histogram import noise_warnings, noisy_auc, pooled_histogram, rows_by_bin
from protocols.u_statistics import randomness
from protocols.unary_encoding import UnaryEncoding

_ROUNDS = 2
_LABELS = 2
_MOST_ROWS = 2**62
_INTEGER_BYTES = 9  # most that msgpack needs for an int64


class Tally(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reports of one party's rows, or of all.

    Attributes
    ----------
    parties : int
        Whose rows are in it.
    rows : int
    ones : list of int
        Reports with each bit set: positives in each bin, then negatives.
    """

    parties: int
    rows: int
    ones: list[int]

    def array(self, cells: int) -> NDArray[np.int64]:
        """Return `ones`; raise `DeserialisationError` where this is no tally of so many cells."""
        if not 0 < self.rows <= _MOST_ROWS:
            raise DeserialisationError(f"a tally of {self.rows} rows")
        if len(self.ones) != cells or min(self.ones) < 0 or max(self.ones) > self.rows:
            raise DeserialisationError(f"these are not {cells} counts of at most as many reports as rows")
        return np.array(self.ones, dtype=np.int64)


class HistogramLocalDp(Protocol):
    """Plug-in ``histogram-local-dp``."""

    name = "histogram-local-dp"
    summary = "local differential privacy: each row's label and bin by unary encoding, nothing encrypted"
    trust = "nobody but its own party with a row; aggregator and parties compute what they should"
    options = MappingProxyType({"epsilon": "privacy budget of a row, label and score; must be given"})

    def prepare(self, request: Request) -> Session:
        """Check the budget and name the session; there are no keys.

        Raises
        ------
        InputError
            No budget, or a bad one; or something that only encryption has: a backend, joint keys, smudging.
        """
        self.check_options(request.options)
        if request.keys != "sealed" or request.backend is not None or request.smudging_bits is not None:
            raise InputError(f"protocol {self.name!r} encrypts nothing: it has no backend, and no joint keys")
        manifest = self.manifest(
            request, options={"epsilon": positive_number(request.options, "epsilon", EPSILON_ADVICE)}
        )
        self.encoding(manifest)
        return Session(manifest, b"", b"")

    def encoding(self, manifest: Manifest) -> UnaryEncoding:
        """Return the session's encoding; raise `InputError` where the manifest is not one of this protocol."""
        if manifest.plan is not None or manifest.context:
            raise InputError(f"the session's manifest is not one of {self.name!r}, which encrypts nothing")
        self.check_options(manifest.options)
        epsilon = positive_number(manifest.options, "epsilon", EPSILON_ADVICE)
        return UnaryEncoding(_LABELS * len(manifest.thresholds), epsilon)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return LocalHistogramAggregator(manifest, self.encoding(manifest))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party:
        """Return the party whose rows are `data`; `material` is empty."""
        return LocalHistogramParty(manifest, self.encoding(manifest), data)


class LocalHistogramAggregator(Aggregator):
    """Adds up tallies as they arrive."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, encoding: UnaryEncoding) -> None:
        super().__init__(manifest)
        self.submission_limit = _payload_limit(encoding)
        self._ones = np.zeros(encoding.cells, np.int64)
        self._rows = 0

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round > 1:
            return
        tally = decode(payload, Tally, "submission")
        if tally.parties != 1:
            raise DeserialisationError(f"a party sent the reports of {tally.parties}")
        ones = tally.array(len(self._ones))
        if self._rows + tally.rows > _MOST_ROWS:
            raise DeserialisationError("with it there would be more than 2^62 rows")
        self._ones += ones
        self._rows += tally.rows

    def _close(self) -> bytes:
        return encode(Tally(len(self.counted), self._rows, self._ones.tolist()))


class LocalHistogramParty(Party):
    """Randomises its rows one by one and tallies the reports; then estimates the histogram from the sums."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, encoding: UnaryEncoding, data: PartyData) -> None:
        super().__init__(manifest, data.name)
        self.download_limit = _payload_limit(encoding)
        self._encoding, self._data = encoding, data
        self._seconds: dict[str, float] = {}

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            bins = rows_by_bin(self._data, self.manifest.thresholds)
            rows = np.repeat(np.arange(bins.size), bins.ravel())
            ones = self._encoding.tally(rows, randomness.secure())
            answer = encode(Tally(1, len(rows), ones.tolist()))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        tally = decode(payload, Tally, "result")
        self._check_counted(tally.parties)
        estimate = self._encoding.estimate(tally.array(self._encoding.cells), tally.rows)
        self._evaluation = self._evaluated(estimate.reshape(_LABELS, -1), tally, started)
        return b""

    def _evaluated(self, estimate: NDArray[np.float64], tally: Tally, started: float) -> Evaluation:
        histogram = pooled_histogram(self.manifest.thresholds, estimate)
        auc = noisy_auc(histogram)
        deviation = math.sqrt(float(self._encoding.variance(tally.rows / self._encoding.cells, tally.rows)))
        self._seconds["recover"] = time.perf_counter() - started
        return Evaluation(
            auc=auc,
            resolution=math.nan,
            precision=math.nan,
            protocol=self.manifest.protocol,
            backend="none",
            parties=tally.parties,
            thresholds=len(self.manifest.thresholds),
            verified=False,
            security_bits=0,
            seconds=self._seconds,
            settings={
                "epsilon": self._encoding.epsilon,
                "flip_probability": self._encoding.flip_probability,
                "noise_deviation": deviation,
            },
            histogram=histogram,
            warnings=noise_warnings(self.manifest, histogram, deviation, tally.parties),
        )


def _payload_limit(encoding: UnaryEncoding) -> int:
    return 64 + (encoding.cells + 1) * _INTEGER_BYTES
