"""Where values stand in ciphertexts, and that the circuit on them gives sums of products and nothing else."""

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_sums, packed
from tests.support.blinded_auc import largest_multiplier, smallest_multiplier
from tests.support.malicious_sessions import plan_for

Vectors = tuple[np.ndarray, np.ndarray]


def vectors(size: int, seed: int) -> Vectors:
    """Y and both X: complex, with whole parts, those of X multiples of w, so that sums are exact."""
    parts = np.random.default_rng(seed).integers(-1000, 1000, (6, size))
    return parts[0] + 1j * parts[1], 4.0 * (parts[2:4] + 1j * parts[4:6])


def padded(*of_parties: Vectors, positions: int = 3072) -> Vectors:
    """The sums over parties, at all positions."""
    y, x = np.zeros(positions, complex), np.zeros((2, positions), complex)
    for one, both in of_parties:
        y[: one.size] += one
        x[:, : one.size] += both
    return y, x


@pytest.mark.parametrize("backend", ckks.available_backends())
@pytest.mark.parametrize("thresholds", [250, 3000])
def test_the_result_is_every_runs_sums_of_products_times_the_multiplier(backend: str, thresholds: int) -> None:
    """On ciphertexts of any values, of three parties: two runs in one ciphertext, or in several blocks each."""
    plan = plan_for(backend=backend, thresholds=thresholds)
    assert plan.squares == (1 if thresholds == 250 else 2)
    keys = ckks.generate(plan.parameters)
    parties = [[vectors(thresholds - number, 2 * number + run) for run in range(2)] for number in range(3)]
    total = running_sum(keys.public, plan.blocks)
    for party in parties:
        total.add([keys.secret.encrypt(block) for block in packed(plan, party)])
    for draw, bits in ((smallest_multiplier, BLINDING_BITS - 16), (largest_multiplier, BLINDING_BITS)):
        result = blinded_sums(plan, keys.public, total.totals, draw=draw)
        found = keys.secret.decrypt_sums(result, plan.squares) / 2.0 ** (bits + 1)
        for run, sums in enumerate(found):
            y, x = padded(*(party[run] for party in parties), positions=plan.positions)
            np.testing.assert_allclose(sums, (x * y).sum(axis=1), rtol=0, atol=1e-9 * np.abs(x * y).sum())
