"""The published designs on every library that loads, against exact integers and scikit-learn."""

import numpy as np
import pytest

from fhe_auc import Setup, ckks, federated_auc
from fhe_auc.rows.party_data import PartyData
from tests.support.pooled import exact_auc, sklearns_auc


@pytest.mark.backends("all")
@pytest.mark.parametrize("protocol", ["semi-honest", "malicious"])
def test_every_library_gives_the_exact_auc_and_scikit_learns_where_every_score_is_a_threshold(
    protocol: str, site_rows: list[PartyData]
) -> None:
    grid = np.arange(101) / 100
    parties = [PartyData.from_arrays(site.name, site.y_true, site.y_score.round(2)) for site in site_rows]
    exact = exact_auc(parties, grid)
    assert exact == pytest.approx(sklearns_auc(parties), abs=1e-12)
    for backend in ckks.available_backends():
        found = federated_auc(parties, protocol=protocol, thresholds=grid, setup=Setup(backend=backend))
        assert (found.backend, found.protocol) == (backend, protocol)
        assert abs(found.auc - exact) <= found.numerical_error < 1e-6
        assert found.verified is (protocol == "malicious")
