"""Random noise that protects someone: the samplers of OpenDP, which do not leak through floating point.

Textbook samplers of doubles leave gaps in what can come out, and the gaps tell the value beneath the noise (Mironov,
"On significance of the least significant bits for differential privacy", CCS 2012). OpenDP samples in exact integer
arithmetic instead, from a secure generator (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
NeurIPS 2020), and publishes a proof of every mechanism.

    integers   discrete Laplace: P[noise = k] ∝ exp(−|k|/scale). What a count needs: with sensitivity 1 it is ε-private
               at scale 1/ε, exactly
    floats     Laplace and Gaussian, to the resolution of float64 (a discrete law on multiples of 2^−1074, rounded)

Shares of noise, for a sum of which nobody sees less: `fhe_auc_protocols.noise_shares`; choices, such as flips of
labels: `fhe_auc_protocols.exact_sampling`.
How much noise a budget needs is the caller's affair: nothing here knows of sensitivities. There is no seed, on purpose;
`fhe_auc_benchmarks.comparison.simulated` is for experiments. OpenDP is imported when the first noise is drawn.
"""

import math
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require

_Number = TypeVar("_Number", np.int64, np.float64)


def laplace(values: NDArray[_Number], scale: float) -> NDArray[_Number]:
    """Return values of any shape with independent Laplace noise, of the same type, int64 or float64.

    Integers stay integers and saturate at the ends of int64. The scale for ε-differential privacy is the values' L1
    sensitivity, over ε. The array is a new one.

    Raises `InputError`: the scale is not positive and finite, or a value is not finite or of another type.
    """
    return _added("laplace", values, _positive(scale, "scale"))


def gaussian(values: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Return values with Gaussian noise of that standard deviation (`dpauc.budget.sigma_for`); else as `laplace`."""
    return _added("gaussian", values, _positive(sigma, "sigma"))


def _positive(number: float, what: str) -> float:
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{what} must be positive and finite, got {number}")
    return float(number)


def _added(law: str, values: NDArray[_Number], scale: float) -> NDArray[_Number]:
    if values.dtype not in (np.int64, np.float64):
        raise InputError(f"noise is added to int64 or float64 values, not to {values.dtype}")
    if not np.isfinite(values).all():
        raise InputError("noise is added to finite values only")
    noised = _adder(law, values.dtype.name, scale)(values.ravel().tolist())
    return np.array(noised, dtype=values.dtype).reshape(values.shape)


@lru_cache(maxsize=32)
def _adder(law: str, dtype: str, scale: float) -> Any:
    require("dp")
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")  # OpenDP's word for mechanisms whose proofs are written, and not yet all vetted
    atoms = domains.atom_domain(T="i64") if dtype == "int64" else domains.atom_domain(T="f64", nan=False)
    make, metric = {
        "laplace": (measurements.make_laplace, metrics.l1_distance),
        "gaussian": (measurements.make_gaussian, metrics.l2_distance),
    }[law]
    return make(domains.vector_domain(atoms), metric(T="f64"), scale=scale)
