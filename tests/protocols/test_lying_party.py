"""A party that makes up its rows: it decides the AUC, in every protocol, unless parties prove their row caps."""

import json
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc import federated_auc
from fhe_auc.rows.party_data import PartyData
from tests.support.pooled import sklearns_auc

slow = partial(pytest.param, marks=pytest.mark.slow)


def honest_parties(number: int) -> list[PartyData]:
    """Parties whose classifier has an AUC of about 0.76."""
    generator = np.random.default_rng(1)
    labels = generator.random((number, 500)) < 0.5
    scores = 1 / (1 + np.exp(-generator.normal(labels, 1)))
    return [PartyData.from_arrays(f"site {each}", labels[each], scores[each]) for each in range(number)]


def made_up(negatives: int, positives: int, *scored: float) -> PartyData:
    """Rows with one score of each label; by default those that raise the AUC most."""
    labels, scores = (np.repeat(values, [negatives, positives]) for values in ([0, 1], scored or (0.0, 1.0)))
    return PartyData.from_arrays("liar", labels, scores)


@pytest.mark.parametrize(
    "protocol",
    ["semi-honest", "verified", *(pytest.param(name, marks=pytest.mark.slow) for name in ("exact", "malicious"))],
)
def test_one_party_of_ten_decides_the_auc_and_no_protocol_claims_otherwise(protocol: str) -> None:
    parties, liar = honest_parties(10), made_up(50_000, 50_000)
    before, after = (
        federated_auc(who, protocol=protocol, thresholds="uniform:100", interval=None)
        for who in (parties, [*parties[1:], liar])
    )
    assert abs(before.auc - sklearns_auc(parties)) < before.binning_error + 1e-6
    assert 0.75 < before.auc < 0.78
    assert after.auc > 0.99
    checked = protocol in ("malicious", "verified")
    for found in (before, after):  # the lie is accepted; results claim nothing of parties
        assert found.verified is checked
        assert json.loads(json.dumps(found.as_dict()["verified"])) == {"aggregation": checked, "parties": False}


CAPS = {"keys": "helper", "row_caps": 500, "thresholds": "uniform:40", "interval": None}


@pytest.mark.parametrize("protocol", ["verified", slow("exact")])
def test_rows_that_a_party_makes_up_within_its_cap_count_and_move_the_auc_by_so_much_at_most(protocol: str) -> None:
    """With a positives above all others and b negatives below, 1 - AUC shrinks by PN/((P + a)(N + b)); or AUC does."""
    honest, cap = honest_parties(9), 500
    before = federated_auc(honest, protocol=protocol, **CAPS)
    p, n = before.positives, before.negatives
    assert p is not None
    assert n is not None
    shrunk = {a: Fraction(p * n, (p + a) * (n + cap - a)) for a in range(cap + 1)}
    a = min(shrunk, key=lambda each: shrunk[each])  # the most that it can do
    for scored, expected in (
        ((0.0, 1.0), 1 - shrunk[a] * (1 - before.fraction)),
        ((1.0, 0.0), shrunk[a] * before.fraction),
    ):
        after = federated_auc([*honest, made_up(cap - a, a, *scored)], protocol=protocol, **CAPS)
        assert (after.fraction, after.unproved_parties) == (expected, ())
        assert after.as_dict()["verified"]["parties"] == "row caps"
    assert [round(each, 2) for each in (before.auc, 1 - shrunk[a] * (1 - before.auc), shrunk[a] * before.auc)] == [
        *(0.76, 0.80, 0.61)
    ]


def told(parties: list[PartyData], protocol: str, **request: Any) -> tuple[int, int]:
    """D and ties, of what any party has; assume that it knows P and N."""
    found = federated_auc(parties, protocol=protocol, interval=None, **request)
    positives = np.concatenate([data.y_true for data in parties])
    pairs = int(positives.sum()) * int((~positives).sum())
    return round((2 * (found.fraction or found.auc) - 1) * pairs), round(
        2 * (found.binning_error_fraction or found.binning_error) * pairs
    )


def negatives_of(parties: list[PartyData], grid: NDArray[np.float64]) -> NDArray[np.int64]:
    bins = np.concatenate([np.searchsorted(grid, data.y_score[~data.y_true], side="right") - 1 for data in parties])
    return np.bincount(bins, minlength=len(grid))


FINE = np.linspace(0, 1, 200)


@pytest.mark.parametrize("protocol", ["verified", slow("exact")])
def test_proved_caps_leave_a_site_a_bin_to_within_the_others_ties_over_its_cap_and_two_results_the_bin(
    protocol: str,
) -> None:
    """ties = c·n_b + the others' ties, which it does not know; a second result without these rows tells them."""
    others, bin = honest_parties(5), 90
    negatives = negatives_of(others, FINE)[bin]
    request: dict[str, Any] = {"thresholds": FINE, "keys": "helper"}
    _, before = told(others, protocol, row_caps=500, **request)
    for cap in (1, 500):
        _, ties = told([*others, made_up(0, cap, 0.9, FINE[bin])], protocol, row_caps=500, **request)
        assert (ties - before) / cap == negatives
        assert negatives <= ties / cap == negatives + before / cap
    assert before / 500 > 1  # so one result alone leaves several numbers that n_b may be
