"""A party that makes up its rows: it decides the AUC, in every protocol, unless parties prove their row caps."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
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
        federated_auc(who, protocol=protocol, thresholds="uniform:100") for who in (parties, [*parties[1:], liar])
    )
    assert abs(before.auc - sklearns_auc(parties)) < before.binning_error + 1e-6
    assert 0.75 < before.auc < 0.78
    assert after.auc > 0.99
    checked = protocol in ("malicious", "verified")
    for found in (before, after):  # the lie is accepted; results claim nothing of parties
        assert found.verified is checked
        assert json.loads(json.dumps(found.as_dict()["verified"])) == {"aggregation": checked, "parties": False}


CAPS = {"keys": "helper", "row_caps": 500, "thresholds": "uniform:100", "interval": None}


@pytest.mark.parametrize("protocol", ["verified", slow("exact")])
@pytest.mark.parametrize("cheat", ["party-over-cap", slow("party-over-cap-slack")])
def test_a_party_with_more_rows_than_its_cap_is_named_and_left_out(protocol: str, cheat: str) -> None:
    parties = honest_parties(10)
    told = federated_auc(parties, protocol=protocol, cheat=cheat, **CAPS)
    assert told.unproved_parties == ("site 9",)
    assert told.fraction == federated_auc(parties[:9], thresholds="uniform:100", interval=None).fraction
    assert told.as_dict()["verified"] == {"aggregation": protocol == "verified", "parties": "row caps"}
    with pytest.raises(InputError, match="has 1,000 rows, more than its row cap, 500"):  # with our code it says so
        federated_auc([*parties[:9], made_up(500, 500)], protocol=protocol, **CAPS)


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
