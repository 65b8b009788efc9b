"""The simulation of the private AUC is the protocol's. (Its noise: tests/protocols/exact_auc/test_epsilon_noise.py.)"""

import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.simulated import Pool, private_budget, read_aucs
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy


@pytest.mark.parametrize("unit", ["row", pytest.param("label", marks=pytest.mark.slow)])
def test_a_session_gives_what_the_simulation_gives_with_its_shares(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, grid = np.arange(120) % 4 == 0, thresholds.parse("hybrid:4000")
    scores = 1 / (1 + np.exp(1 - labels - np.random.default_rng(1).normal(size=120)))
    pool, privacy = Pool.of(labels, scores, grid), private_budget(120, 3, 1.0, unit)
    shares = privacy.noise(3)
    wanted = read_aucs((pool.released(privacy) + shares.sum(axis=0))[None], privacy)
    given = iter(shares[:, None])
    monkeypatch.setattr(Privacy, "noise", lambda self: next(given))
    sites = [PartyData.from_arrays(f"site {k}", labels[k::3], scores[k::3]) for k in range(3)]
    tables = {data.name: (data.y_true.astype(int), data.y_score) for data in sites}
    found = federated_auc(tables, thresholds=grid, protocol="verified", epsilon=1.0, epsilon_unit=unit)
    assert found.auc == pytest.approx(wanted[0], abs=1e-12)
