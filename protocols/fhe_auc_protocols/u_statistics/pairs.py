"""Random pairs of users, each with a noisy kernel value computed by the two together ([USTAT] §5).

The aggregator draws P random pairings of the n users (with odd n, one user a pairing is left out). Two users that are
paired get, from a two-party step, y with E[y] = f(x, x') and nothing else, and send it to the aggregator:

    Û = mean of the P·⌊n/2⌋ values

A user's record is in at most P values, and each is (ε/P)-differentially private for either user of the pair, so that
the whole is ε-differentially private in the computational sense (CDP: the two-party step is secure against bounded
adversaries only), by plain composition. With f in [0, 1] and y = f + Laplace(P/ε),

    MSE[Û] = 2/(Pn) · (2 (P-1) (1 - 1/(n-1)) ζ₁ + (1 + (P-1)/(n-1)) ζ₂) + 4P/(n ε²)          n even

ζ₁ = Var E[f(X, X') | X], ζ₂ = Var f(X, X'); theorem 5 prints 2P/(n ε²) as its last term. But Laplace(b) has variance
2b², so that the mean of Pn/2 values has 2 (P/ε)² / (Pn/2) = 4P/(n ε²): the printed term is half of what the printed
mechanism adds. `mean_squared_error` has 4, and holds for odd n too. Everything is scaled by the width of the kernel's
range.

Privacy unit: one user's record, against the aggregator and all other users together. Budget: ε/P a pairing, ε in all.
What this rests on is the two-party step:

* `IdealLaplace`: an **ideal functionality**, a trusted third that sees both records. For simulation.
* `fhe_auc_protocols.u_statistics.two_party`: `ValueResponse`, for real, on BFV ciphertexts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.u_statistics.kernels import Floats, Integers, Kernel
from fhe_auc_protocols.u_statistics.noiseless import checked_users

Laplace: TypeAlias = Callable[[Floats, float], Floats]
"""Adds independent Laplace noise of a scale to each of some values."""

Progress: TypeAlias = Callable[[int, int], None]  # called with (done, all): users, or pairs of users


class PairStep(ABC):
    """What two users do together, for one kernel and the budget of one pairing."""

    chunk: ClassVar[int] = 1 << 16  # pairs between two reports of progress

    @property
    @abstractmethod
    def noise_variance(self) -> float:
        """Variance of an answer given the kernel's value; where it depends on that, the largest."""

    @abstractmethod
    def noisy(self, first: Floats, second: Floats) -> Floats:
        """Return an unbiased, private estimate of f for each pair of records; both of shape (pairs, d)."""


class IdealLaplace(PairStep):
    """Ideal functionality: a trusted third adds Laplace(width/ε₁) to the kernel's value; ε₁ = ε/P is the step's budget.

    `epsilon` is ε₁. `laplace` is `fhe_auc_protocols.opendp_samplers.laplace`, which protects, or for experiments
    `seeded_laplace`.
    """

    def __init__(self, kernel: Kernel, epsilon: float, laplace: Laplace) -> None:
        self._kernel = kernel
        self.scale = kernel.width / epsilon
        self._laplace = laplace

    @property
    def noise_variance(self) -> float:
        """Of Laplace noise: twice the squared scale."""
        return 2 * self.scale**2

    def noisy(self, first: Floats, second: Floats) -> Floats:
        """Return f plus noise; f is moved into the kernel's range first, which the noise is scaled to."""
        return self._laplace(self._kernel.clipped(first, second), self.scale)


def seeded_laplace(generator: np.random.Generator) -> Laplace:
    """Return Laplace noise from a numpy generator: for experiments, it protects nobody."""
    return lambda values, scale: values + generator.laplace(0.0, scale, len(values))


class ValueResponse:
    """Randomised response over the q values that a kernel has: [USTAT]'s variant for discrete kernels.

    With z = 0 with probability e^ε₁ / (e^ε₁ + q - 1) and any other residue with 1 / (e^ε₁ + q - 1), the step gives
    (index of f) + z mod q, ε₁-differentially private, from which (v - β·mean(v)) / (1 - β) is unbiased,
    β = q / (e^ε₁ + q - 1). Here the probabilities are multiples of 1/M, rounded to the private side, since a table of M
    residues is what the two-party step can hold; beyond ε₁ = ln(M - q + 1) it is as private as there.

    The values, shape (q,), q >= 2, are ascending, evenly spaced or not; `epsilon` is the step's budget ε₁ = ε/P, and
    `table_size` is M.

    Raises `InputError`: there is but one value, or the table is too small to say anything at this budget.
    """

    def __init__(self, values: ArrayLike, epsilon: float, table_size: int) -> None:
        self.values = np.asarray(values, float)
        q = len(self.values)
        if q < 2:
            raise InputError("the kernel has one value only on this domain: there is nothing to compute")
        others = math.ceil(table_size / (math.exp(epsilon) + q - 1))  # entries of each residue but 0
        zeros = table_size - (q - 1) * others
        if others < 1 or zeros <= others:
            raise InputError(f"a table of {table_size} entries is too small for epsilon {epsilon:g} a pairing")
        self.table = np.repeat(np.arange(q), [zeros, *[others] * (q - 1)])
        self.beta = q * others / table_size

    @property
    def noise_variance(self) -> float:
        """Largest variance of an estimate, over the kernel's values."""
        q = len(self.values)
        return max(float(self.unbiased((index + self.table) % q).var()) for index in range(q))

    def index(self, values: Floats) -> Integers:
        """Return which of the kernel's values is nearest to each one."""
        return np.searchsorted((self.values[1:] + self.values[:-1]) / 2, values).astype(np.int64)

    def unbiased(self, answers: Integers) -> Floats:
        """Return the estimates of f from the step's answers in [0, q)."""
        return np.asarray((self.values[answers] - self.beta * self.values.mean()) / (1 - self.beta))


def pairings(users: int, number: int, generator: np.random.Generator) -> Integers:
    """Return `number` public random pairings, (number·⌊users/2⌋, 2); `InputError`: under two users or one pairing."""
    checked_users(users)
    if number < 1:
        raise InputError(f"there must be at least one pairing, got {number}")
    half = users // 2
    return np.concatenate([generator.permutation(users)[: 2 * half].reshape(half, 2) for _ in range(number)])


def estimate(
    rows: Floats, step: PairStep, pairs: Integers, progress: Progress = lambda done, total: None
) -> tuple[float, float]:
    """Return mean and variance of the step's answers over pairs, shape (number, 2), of the rows of shape (n, d)."""
    total = squares = 0.0
    for start in range(0, len(pairs), step.chunk):
        progress(start, len(pairs))
        chosen = pairs[start : start + step.chunk]
        answers = step.noisy(rows[chosen[:, 0]], rows[chosen[:, 1]])
        total, squares = total + float(answers.sum()), squares + float(answers @ answers)
    progress(len(pairs), len(pairs))
    mean = total / len(pairs)
    return mean, max(squares / len(pairs) - mean**2, 0.0)


def mean_squared_error(users: int, number: int, zeta_1: float, zeta_2: float, noise_variance: float) -> float:
    """Return the MSE against the distribution's own value, for even and odd n; `noise_variance` is that of a step.

    ζ₁ = Var E[f(X, X') | X] and ζ₂ = Var f(X, X') are those of the distribution.

    With h = ⌊n/2⌋ the mean is of P·h values. Any two users are a pair of a given pairing with probability
    d = 2h / (n(n-1)), and pairings are independent. So a value of one pairing meets in another one the same pair, with
    covariance ζ₂, or one of the 2(n-2) pairs that share one user with it, with covariance ζ₁, each with probability d:

        MSE[Û] = (ζ₂ + (P-1)·d·(ζ₂ + 2(n-2) ζ₁) + noise_variance) / (P·h)

    For even n, where d = 1/(n-1), it is theorem 5's as in the module's docstring.
    """
    half = users // 2
    drawn = 2 * half / (users * (users - 1))
    sampling = zeta_2 + (number - 1) * drawn * (zeta_2 + 2 * (users - 2) * zeta_1)
    return (sampling + noise_variance) / (number * half)


def error_bound(users: int, number: int, width: float, noise_variance: float) -> float:
    """Return the largest that `mean_squared_error` can be: ζ₂ <= width²/4 (Popoviciu) and ζ₁ <= ζ₂/2 (Hoeffding)."""
    return mean_squared_error(users, number, width**2 / 8, width**2 / 4, noise_variance)
