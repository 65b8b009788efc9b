"""The published designs on every library that loads, against exact integers and scikit-learn."""

import numpy as np
import pytest

from fhe_auc import Setup, ckks, federated_auc
from fhe_auc.rows.party_data import PartyData
from tests.support.malicious_sessions import CLOSE, exact, sites
from tests.support.pooled import sklearns_auc


@pytest.mark.backends("all")
@pytest.mark.parametrize("protocol", ["semi-honest", "malicious"])
def test_every_library_gives_the_exact_auc_and_scikit_learns_where_every_score_is_a_threshold(protocol: str) -> None:
    for decimals, grid in ((2, np.arange(101) / 100), (9, np.arange(16) / 15)):
        parties = [PartyData.from_arrays(s.name, s.y_true, s.y_score.round(decimals)) for s in sites(5, seed=5)]
        truth, without_bins = exact(parties, grid), sklearns_auc(parties)
        assert truth.auc == pytest.approx(without_bins, abs=1e-12 if decimals == 2 else truth.binning_error)
        for backend in ckks.available_backends():
            found = federated_auc(parties, protocol=protocol, thresholds=grid, setup=Setup(backend=backend))
            assert (found.backend, found.protocol) == (backend, protocol)
            assert found.numerical_error < 1e-6
            if protocol == "malicious":
                assert abs(found.auc - truth.auc) <= found.numerical_error
                assert found.binning_error == pytest.approx(truth.binning_error, abs=CLOSE)
            assert abs(found.auc - without_bins) <= found.binning_error + CLOSE
            assert found.verified is (protocol == "malicious")
