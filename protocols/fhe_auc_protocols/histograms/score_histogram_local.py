"""Score histograms under local differential privacy: every row is a user, randomised before it is counted.  [FCE] §2.2.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    histogram-local-dp    one optimised unary encoding a row (`fhe_auc_protocols.histograms.unary_encoding`) over 2m cells: label and bin

    round 1   a party sends how many of its rows' reports have each bit set, and how many rows it has
    round 2   the sums go to all parties, who estimate the histogram and answer with nothing

**Privacy unit: one row**, label and score: whatever they are, a row's report is ε-locally private, against everybody
but the row's own party, whatever others do. Nothing is encrypted, for the reports are private already. How many rows a
party has is public. Each session on the same rows adds its ε: rows are randomised afresh. Where a session before it has
found quantile thresholds (`fhe_auc_protocols.histograms.quantiles_local`), ε is that of both (`fhe_auc_protocols.histograms.split_budget`). As both classes
are cells of one encoding, there is no row without a value.

A lying aggregator, or party, is not noticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from fhe_auc_protocols.histograms import split_budget as two_sessions
from fhe_auc_protocols.histograms.score_histogram import noise_warnings, noisy_auc, pooled_histogram, rows_by_bin
from fhe_auc_protocols.histograms.unary_encoding import UnaryEncoding
from fhe_auc_protocols.option_values import EPSILON_ADVICE, positive_number
from fhe_auc_protocols.u_statistics import randomness
from fhe_auc_protocols.unencrypted_protocol import (
    INTEGER_BYTES,
    MOST_ROWS,
    CleartextProtocol,
    SummingAggregator,
    SummingParty,
)

_LABELS = 2


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
        if not 0 < self.rows <= MOST_ROWS:
            raise DeserialisationError(f"a tally of {self.rows} rows")
        if len(self.ones) != cells or min(self.ones) < 0 or max(self.ones) > self.rows:
            raise DeserialisationError(f"these are not {cells} counts of at most as many reports as rows")
        return np.array(self.ones, dtype=np.int64)


class HistogramLocalDp(CleartextProtocol[Evaluation, UnaryEncoding]):
    """Plug-in ``histogram-local-dp``."""

    name = "histogram-local-dp"
    summary = "local differential privacy: each row's label and bin by unary encoding, nothing encrypted"
    trust = "nobody but its own party with a row: others learn what epsilon allows; all compute what they should"
    options = two_sessions.OPTIONS
    boundaries = "boundaries-local-dp"

    def staged(self, request: Request, bins: int) -> tuple[Request, Request]:
        """Split the budget."""
        return two_sessions.staged(request, bins, checked_budget)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget of this session and of one before it."""
        two_sessions.left_for_counts(request.options, checked_budget)
        return dict(two_sessions.settings(request.options))

    def terms(self, options: Mapping[str, object], thresholds: int) -> UnaryEncoding:
        """Return the session's encoding; raise `InputError` for a bad budget."""
        return UnaryEncoding(_LABELS * thresholds, two_sessions.left_for_counts(options, checked_budget))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return LocalHistogramAggregator(manifest, self.checked(manifest))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[Evaluation]:
        """Return the party whose rows are `data`; `material` is empty."""
        return LocalHistogramParty(manifest, self.checked(manifest), data)


class LocalHistogramAggregator(SummingAggregator):
    """Adds up tallies."""

    def __init__(self, manifest: Manifest, encoding: UnaryEncoding) -> None:
        super().__init__(manifest)
        self.submission_limit = _payload_limit(encoding)
        self._ones = np.zeros(encoding.cells, np.int64)
        self._rows = 0

    def _add(self, payload: bytes) -> None:
        tally = decode(payload, Tally, "submission")
        if tally.parties != 1:
            raise DeserialisationError(f"a party sent the reports of {tally.parties}")
        ones = tally.array(len(self._ones))
        if self._rows + tally.rows > MOST_ROWS:
            raise DeserialisationError("with it there would be more than 2^62 rows")
        self._ones += ones
        self._rows += tally.rows

    def _close(self) -> bytes:
        return encode(Tally(len(self.counted), self._rows, self._ones.tolist()))


class LocalHistogramParty(SummingParty[Evaluation]):
    """Randomises its rows one by one and tallies the reports; then estimates the histogram from the sums."""

    def __init__(self, manifest: Manifest, encoding: UnaryEncoding, data: PartyData) -> None:
        super().__init__(manifest, data, download_limit=_payload_limit(encoding))
        self._encoding = encoding

    def _submission(self) -> Tally:
        bins = rows_by_bin(self._data, self.manifest.thresholds)
        rows = np.repeat(np.arange(bins.size), bins.ravel())
        return Tally(1, len(rows), self._encoding.tally(rows, randomness.secure()).tolist())

    def _read(self, payload: bytes) -> Evaluation:
        tally = decode(payload, Tally, "result")
        self._check_counted(tally.parties)
        encoding = self._encoding
        estimate = encoding.estimate(tally.array(encoding.cells), tally.rows).reshape(_LABELS, -1)
        histogram = pooled_histogram(self.manifest.thresholds, estimate)
        deviation = math.sqrt(float(encoding.variance(tally.rows / encoding.cells, tally.rows)))
        return Evaluation(
            auc=noisy_auc(histogram),
            resolution=math.nan,
            precision=math.nan,
            protocol=self.manifest.protocol,
            backend="none",
            parties=tally.parties,
            thresholds=len(self.manifest.thresholds),
            verified=False,
            security_bits=0,
            settings={
                **two_sessions.settings(self.manifest.options),
                "flip_probability": encoding.flip_probability,
                "noise_deviation": deviation,
            },
            histogram=histogram,
            warnings=noise_warnings(self.manifest, histogram, deviation, tally.parties),
        )


def checked_budget(options: Mapping[str, object]) -> float:
    """Return the budget of a row's report; raise `InputError` unless it is there and from 0.000001 to 32."""
    return randomness.checked_epsilon(positive_number(options, "epsilon", EPSILON_ADVICE))


def _payload_limit(encoding: UnaryEncoding) -> int:
    return 64 + (encoding.cells + 1) * INTEGER_BYTES
