"""Sites with random rows of both labels, seeded."""

import numpy as np

from fhe_auc.rows.party_data import PartyData


def sites(parties: int = 3, rows: int = 200, seed: int = 0) -> list[PartyData]:
    """ "site 0" and so on; scores in [0, 1] are higher for label 1, which four rows in ten have."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(parties):
        labels = random.random(rows) < 0.4
        found.append(PartyData.from_arrays(f"site {number}", labels, random.beta(2 + labels, 3)))
    return found
