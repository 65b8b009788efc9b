"""What a session has to yield, by definitions over all rows of those who count."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, UndefinedAucError
from fhe_auc.results.intervals import DELONG
from fhe_auc.rows.party_data import PartyData
from tests.suite.sessions import GRID, Case, World
from tests.support import delong
from tests.support.nothing import rows_in
from tests.support.pooled import rounding
from tests.support.row_auc_at import weighted_auc
from tests.support.several import auc_of, binned, chosen, pool

NOISY = (
    "boundaries-distributed-dp",
    "boundaries-local-dp",
    "dpauc-laplace",
    "dpauc-gaussian",
    "histogram-local-dp",
    "ustat-hierarchy",
    "ustat-pairs",
)
"""Protocols whose noise is never small: all that is known is that every party has the same result."""

_OWN = ("seconds", "warnings", "own_warnings", "upload_bytes_per_party", "download_bytes_per_party")


def check(world: World, name: str, counting: Sequence[str]) -> str:
    """Assert that a site has the right result over the rows of those who count, or none and for a good reason.

    Return it as text, by which sites are compared; empty where it is gone with a process.
    """
    case, counted = world.case, [world.data[each] for each in counting]
    one_label = pool(counted).labels.all()
    try:
        found = world.sites[name].outcome()
    except EvaluationError as error:
        ckks = case.protocol in ("semi-honest", "malicious")
        undefined = isinstance(error, UndefinedAucError) and (not case.exact or "hold no negative row" in str(error))
        if one_label and (ckks or undefined):
            return "undefined"
        raise
    if found is None:
        return ""
    assert found.parties == len(counted)
    assert found.protocol == case.protocol
    assert case.protocol == "nothing" or set(found.seconds) >= {"submit", "recover"}
    if case.protocol != "nothing" and len(counted) < len(case.parties):
        away = len(case.parties) - len(counted)
        assert any(f"{away} of {len(case.parties)} parties are not in the result" in each for each in found.warnings)
    rounds = [number for number, author in world.said if author == name]
    assert found.rounds == len(rounds)
    assert found.upload_bytes_per_party == sum(len(world.said[number, name]) for number in rounds)
    assert found.download_bytes_per_party == sum(len(world.asked[number - 1]) for number in rounds)
    assert found.keys == (case.keys if case.keys != "none" else "none")
    if case.protocol.endswith("-federated") or (case.exact and case.protocol == "verified"):
        assert 0 < found.soundness < 2**-30
    if case.protocol not in NOISY:
        _CHECKS[case.protocol](case, found, counted)
    told = {each.name: getattr(found, each.name) for each in fields(found) if each.name not in _OWN}
    return repr({name: repr(value) for name, value in told.items()})


def _nothing(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    assert rows_in(found) == pool(counted).rows


def _exact(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    if case.part == "epsilon":
        _near(case, found, counted)
        assert (found.fraction, found.positives) == (None, None)
        return
    rows, analysis = pool(counted), case.analysis
    bins = [binned(scores, GRID) for scores in rows.scores]
    if case.part == "weights":
        right = weighted_auc(rows.labels == 1, bins[0], np.concatenate([each.weights for each in counted]))
        assert (found.auc, found.positives) == (pytest.approx(right.auc, abs=5.001e-7), rows.labels.sum())
        assert found.standard_error == pytest.approx(right.error, rel=5.001e-4)  # six decimals, and four digits
        return _interval(found)
    assert found.verified == (case.protocol == "verified")
    for contrast, estimate in zip(analysis.contrasts, found.estimates, strict=True):
        ones, zeros = (
            bins[contrast.model][chosen(rows, analysis, cell)] for cell in (contrast.positives, contrast.negatives)
        )
        right = auc_of(ones, zeros)
        if right is None:
            assert (estimate.auc, bool(estimate.missing)) == (None, True)
            continue
        assert (estimate.fraction, estimate.positives, estimate.negatives) == (right[0], len(ones), len(zeros))
        if min(len(ones), len(zeros)) > 1 and case.part != "clusters":
            error = delong.of_rows(ones, zeros)[1]
            assert estimate.standard_error == pytest.approx(error, rel=1e-9, abs=1e-12)
            _interval(estimate)
    ones, zeros = (bins[0][rows.labels == label] for label in (1, 0))
    assert (found.fraction, found.binning_error_fraction) == auc_of(ones, zeros)
    assert found.inputs_proved == ("row caps" if case.part == "proofs" else "")
    if case.part == "models":
        (compared,) = found.comparisons
        assert compared.difference == pytest.approx(found.estimates[1].auc - found.estimates[0].auc, abs=1e-12)
    elif case.part == "clusters":
        sizes = np.cumsum([0, *(data.rows for data in counted)])
        patients = np.concatenate([each.clusters + start for each, start in zip(counted, sizes, strict=False)])
        _, covariance = delong.obuchowski(rows.labels, patients, bins[0])
        assert found.standard_error == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-9)
    elif case.part == "sites":
        _sites(found, counted)


def _interval(estimate: Any) -> None:
    found, auc, error = estimate.interval, estimate.auc, estimate.standard_error
    if found is None or found.method != DELONG or not 0 < auc < 1:
        return
    width = NormalDist().inv_cdf(0.975) * error / (auc * (1 - auc))
    middle = math.log(auc / (1 - auc))
    ends = [1 / (1 + math.exp(-(middle + sign * width))) for sign in (-1, 1)]
    assert (found.low, found.high) == pytest.approx(tuple(ends), rel=1e-9)


def _sites(found: Any, counted: Sequence[PartyData]) -> None:
    (summary,) = found.sites
    each = [auc_of(*(binned(data.y_score, GRID)[data.labels == label] for label in (1, 0))) for data in counted]
    pairs = [int(data.labels.sum()) * int((1 - data.labels).sum()) for data in counted]
    assert summary.both_classes == sum(auc is not None for auc in each)
    if summary.both_classes >= 5:
        right = sum(auc[0] * number for auc, number in zip(each, pairs, strict=True) if auc is not None) / sum(pairs)
        assert summary.within == pytest.approx(float(right), abs=1e-12)


def _near(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    """Compare an AUC that is off by a little noise, rounding or CKKS."""
    rows = pool(counted)
    bins = binned(rows.y_score, GRID)
    right = auc_of(bins[rows.labels == 1], bins[rows.labels == 0])
    if right is None:
        assert case.protocol in ("dpauc-rr", "ustat-krr", "verified")
    else:
        # ustat-krr has eight bins: its scores of 1 are not above those from 7/8 on.
        most = {"ustat-krr": 0.02, "verified": 0.05}.get(case.protocol, 1e-6 + rounding(found.decimals))
        assert abs(found.auc - float(right[0])) <= most


def _histogram(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    """Noise of scale 1/15 is beyond 2 once in 10^19 counts."""
    rows, most = pool(counted), 2 * (case.protocol == "histogram-distributed-dp")
    bins = binned(rows.y_score, GRID)
    for label, counts in ((1, found.histogram.positives), (0, found.histogram.negatives)):
        right = np.bincount(bins[rows.labels == label], minlength=len(GRID))
        assert abs(counts[-len(GRID) :] - right).max() <= most


def _counts(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    rows, levels = pool(counted), [len(each.levels) for each in case.analysis.by]
    counts = {1: [], 0: []}
    bins = [binned(scores, GRID) for scores in rows.scores]
    for level in range(sum(levels) or 1):
        own = rows.groups[0] == level if levels else np.ones(rows.rows, bool)
        for cell in np.ndindex(*[len(GRID)] * len(bins)):
            there = own & np.all([of_model == each for of_model, each in zip(bins, cell, strict=True)], axis=0)
            for label, told in counts.items():
                told.append(int((there & (rows.labels == label)).sum()))
    assert (found.positives.tolist(), found.negatives.tolist()) == (counts[1], counts[0])


def _censoring(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    """Cells end at 0, 2, 3, 4, 6 and 7; label 0 is the event, label 1 says that a row is censored."""
    rows = [row for data in counted for row in zip(data.times, data.labels, strict=True)]
    ends = (-1, 0, 2, 3, 4, 6, 7)
    told = [[sum(a < time <= b and own == code for time, own in rows) for a, b in pairwise(ends)] for code in (0, 1)]
    assert (found.counts.tolist(), found.beyond) == (told, sum(time > 7 for time, _ in rows))


def _boundaries(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    """Compare with what one party finds that has all rows."""
    alone = replace(pool(counted), name="all")
    request = replace(case.request({}), parties=("all",), min_parties=1)
    session = case.plugin().prepare(replace(request, keys="sealed"))
    delivery = session.delivery()
    aggregator = case.plugin().aggregator(session.manifest, delivery.aggregator)
    party = case.plugin().party(session.manifest, delivery.parties["all"], alone)
    message = aggregator.start()
    while message is not None:
        aggregator.receive("all", party.respond(message))
        message = aggregator.finish_round()
    assert np.array_equal(found.grid, party.result().grid)


def _replicates(case: Case, found: Any, counted: Sequence[PartyData]) -> None:
    """In the mean they are the counts: of all rows, to five standard errors."""
    rows = sum(data.rows for data in counted)
    assert found.counts.shape == (100, len(case.analysis.models), 2, len(GRID))
    assert abs(found.counts.sum(axis=(2, 3)).mean(axis=0) - rows).max() < 5 * math.sqrt(2 * rows / 100)


_CHECKS = {
    "nothing": _nothing,
    **dict.fromkeys(("exact", "verified"), _exact),
    **dict.fromkeys(("semi-honest", "malicious", "dpauc-rr", "ustat-krr"), _near),
    **dict.fromkeys(("histogram-federated", "histogram-distributed-dp"), _histogram),
    "boundaries-federated": _boundaries,
    "counts-federated": _counts,
    "replicates-federated": _replicates,
    "censoring-federated": _censoring,
}
