"""The gadget: Σ_j u_j·Π_{v=1}^{b−1} (x_j − v), of degree b.

With u_j = r_j·x_j it is Σ_j r_j·Π_{v=0}^{b−1} (x_j − v): zero where every x_j is a digit to the base b. Where one is
not, it is zero for one in t of the weights r only.
"""

from __future__ import annotations

import numpy as np

from fhe_auc.rlwe.modular import Residues, add, multiply, subtract, total


def gadget(products: Residues, digits: Residues, base: int, prime: int, axis: int = -1) -> Residues:
    """Return the gadget of u and x, of one shape; what it adds up stands along `axis`, which vanishes."""
    # Factors v and b − v make x² − b·x + v·(b − v): half as many products.
    square = multiply(digits, subtract(digits, np.full((), base, np.uint64), prime), prime)
    found = products
    for value in range(1, (base + 1) // 2):
        found = multiply(found, add(square, np.full((), value * (base - value), np.uint64), prime), prime)
    if base % 2 == 0:
        found = multiply(found, subtract(digits, np.full((), base // 2, np.uint64), prime), prime)
    return total(found, prime, axis)
