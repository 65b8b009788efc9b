"""How far added noise outweighs what it hides: the defaults and limits that all encrypted protocols share."""

import math

from fhe_auc.base.errors import CapacityError

DEFAULT_FLOODING_BITS = 40
DEFAULT_SMUDGING_BITS = 40

_MIN_BITS, _MAX_BITS = 30, 80


def gaussian_distance(ring_dimension: int, bits: int) -> float:
    """Return how far apart, statistically, Gaussian noise may leave two noises that it outweighs by 2^bits = 2^λ.

    Of N(x, ς²) and N(x', ς²) over N coefficients the distance is erf(|x - x'| / (2√2·ς)). A noise of mean square σ² in
    each of N/2 complex slots is √(N/2)·σ long, two differ by twice as much at most, and what is added has
    ς = 2^λ·σ/√2 in each coefficient: erf(√(N/2) / 2^λ), which is √(2N/π)·2^-λ as long as that is small.
    """
    return math.erf(math.sqrt(ring_dimension / 2) * 2.0**-bits)


def check_smudging(joint_keys: bool, smudging_bits: int) -> None:
    """Raise `CapacityError` unless smudging has 30 to 80 bits with joint keys, and 0 without, where there is none."""
    if joint_keys:
        check_bits("smudging_bits", smudging_bits)
    elif smudging_bits:
        raise CapacityError("only partial decryptions under joint keys are smudged: smudging_bits must be 0")


def check_bits(name: str, bits: int) -> None:
    """Raise `CapacityError` for noise that hides nothing, or more than any plan has room for: outside 30 to 80 bits."""
    if not _MIN_BITS <= bits <= _MAX_BITS:
        raise CapacityError(f"{name} must lie between {_MIN_BITS} and {_MAX_BITS}, got {bits}")
