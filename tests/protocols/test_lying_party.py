"""What `verified` does not cover: a party that makes up its rows decides the AUC, in every protocol."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    "protocol",
    ["semi-honest", "verified", *(pytest.param(name, marks=pytest.mark.slow) for name in ("exact", "malicious"))],
)
def test_one_party_of_ten_decides_the_auc_and_no_protocol_claims_otherwise(protocol: str) -> None:
    parties = honest_parties(10)
    liar = PartyData.from_arrays("liar", np.repeat([0, 1], 50_000), np.repeat([0.01, 0.99], 50_000))
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
