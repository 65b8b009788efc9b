"""The private AUC: its simulation is the protocol's, its noise a curator's, and an audit tells half the noise."""

import numpy as np
import pytest
from scipy import stats

from fhe_auc import federated_auc
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.simulated_private_auc import aucs, budget, exact, pool_of, releases
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.options import Verified
from tests.support.private_auc import GRID, UNITS, audit, rows_of, with_curator


@pytest.mark.parametrize("unit", UNITS)
def test_a_session_gives_what_the_simulation_gives_with_its_shares(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = rows_of(120, 0.25, np.random.default_rng(1))
    pool, privacy = pool_of(labels, scores, GRID), budget(120, 3, 1.0, unit)
    shares = privacy.noise(3)
    wanted = aucs((exact(pool, privacy) + shares.sum(axis=0))[None], privacy)
    given = iter(shares[:, None])
    monkeypatch.setattr(Privacy, "noise", lambda self: next(given))
    sites = [PartyData.from_arrays(f"site {k}", labels[k::3], scores[k::3]) for k in range(3)]
    tables = {data.name: (data.y_true.astype(int), data.y_score) for data in sites}
    found = federated_auc(tables, thresholds=GRID, protocol=Verified(epsilon=1.0, epsilon_unit=unit))
    assert found.auc == pytest.approx(wanted[0], abs=1e-12)


@pytest.mark.parametrize("unit", UNITS)
def test_parties_together_have_the_law_of_a_curator(unit: str) -> None:
    random = np.random.default_rng(2)
    pool, privacy = pool_of(*rows_of(1000, 0.25, random), GRID), budget(1000, 5, 1.0, unit)
    ours, theirs = (draw(pool, privacy, runs=4000, random=random) for draw in (releases, with_curator))
    for column in (0, 1, 2):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 0.01
    fewer = releases(pool, privacy, runs=4000, random=random, parties=2)
    assert stats.ks_2samp(fewer[:, 0], theirs[:, 0]).pvalue < 1e-9


@pytest.mark.parametrize(
    ("unit", "what"), [pytest.param("label", "label flipped", marks=pytest.mark.slow), ("row", "replaced, same label")]
)
def test_the_audit_finds_less_than_is_stated_and_half_the_noise(unit: str, what: str) -> None:
    random = np.random.default_rng(3)
    assert 0.3 < audit(unit, what, 10_000, random) < 1
    assert audit(unit, what, 10_000, random, halved=True) > 1.2
