"""From a request to the parameters of an exact AUC: the fewest bits of plaintext primes, and of a result, that do."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import msgspec

from fhe_auc.base.errors import CapacityError
from fhe_auc.bfv.parameters import CHAINS, MAX_PLAIN_MODULI, BfvParameters
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.results.heterogeneity import LEAST_SITES
from fhe_auc.rlwe.parameters import DEFAULT_FLOODING_BITS, BackendName
from fhe_auc.rlwe.primes import primes_above, primes_below
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.parameters import least_prime
from fhe_auc_protocols.exact_auc.plan import ExactPlan

_SMALL_BITS, _LARGE_BITS = 42, 50  # of a plaintext prime at most, on the libraries' first chain and on others


def plan_exact(
    *,
    thresholds: int,
    parties: int,
    backend: BackendName,
    analysis: Analysis = PLAIN,
    min_parties: int | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    interval: bool = False,
    authenticated: bool = True,
    helpers: int = 0,
    caps: tuple[int, ...] = (),
    runs: tuple[int, ...] | None = None,
    privacy: Privacy | None = None,
    flooding_bits: int = DEFAULT_FLOODING_BITS,
) -> ExactPlan:
    """Return the plan; parameters as of `ExactPlan`.

    Results keep the fewest primes of Q with which the plan holds.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do; sums over sites are
    asked for, and fewer than 5 parties (`min_parties`; None: all) may count.
    """
    if max_rows < 2:
        raise CapacityError(f"max_rows must be at least 2, got {max_rows}")
    interval = interval and privacy is None
    if analysis.heterogeneity and min_parties is not None and min_parties < LEAST_SITES:
        raise CapacityError(f"sums over sites take {LEAST_SITES} parties; {min_parties} may be all here")
    sums = AnalysisSums(analysis, thresholds, interval, privacy, runs, bool(caps))
    planned = partial(
        ExactPlan,
        analysis=analysis,
        thresholds=thresholds,
        interval=interval,
        authenticated=authenticated,
        parties=parties,
        max_rows=max_rows,
        flooding_bits=flooding_bits,
        helpers=helpers,
        caps=caps,
        runs=runs,
        privacy=privacy,
    )
    small_prime = least_prime(sums.release)
    reason: CapacityError | None = None

    def candidates(rows: int, privacy: Privacy | None = privacy) -> Iterator[BfvParameters]:
        if privacy is not None:  # whoever has them
            privacy = msgspec.structs.replace(privacy, rows=(rows - parties + 1, *[1] * (parties - 1)))
        least = replace(sums, privacy=privacy).least_modulus(rows, parties)
        return _candidates(backend, least, small_prime, prove=bool(caps))

    def most(privacy: Privacy | None) -> int:
        """Return how many rows, up to `max_rows`, can be proved."""
        tried = range(max(2, parties), max_rows + 1)
        return tried[0] - 1 + bisect_left(tried, True, key=lambda rows: next(candidates(rows, privacy), None) is None)

    # The noise of any number of parties is the same: what the first parameters do not hold, no others should.
    if (parameters := next(candidates(max_rows), None)) is not None:
        for kept in range(1, len(parameters.modulus_bits) + 1):
            try:
                return planned(parameters=parameters, kept=kept)
            except CapacityError as error:
                reason = error
    if reason is None and caps:
        others = ", leave the interval out (--no-interval; interval=None)" if interval else ""
        if privacy is None:
            others += ", or prove nothing (--no-proofs; row_caps=None)"
        elif privacy.unit == "label":
            of_rows = most(msgspec.structs.replace(privacy, unit="row"))
            others = f", or protect rows in place of labels (--epsilon-unit row: {of_rows:,} would do)"
        reason = CapacityError(
            f"row caps are proved modulo one prime, and {max_rows:,} pooled rows take more ({most(privacy):,} would do)"
            f": lower the row caps{'' if privacy else ' or --max-rows'}{others}"
        )
    raise reason or CapacityError(f"{max_rows:,} pooled rows take more than {MAX_PLAIN_MODULI} primes; lower max_rows")


def _candidates(backend: BackendName, least: int, small_prime: int, *, prove: bool) -> Iterator[BfvParameters]:
    """Yield ring, moduli and primes of a product from `least`: one prime where that does, then several small ones.

    Where parties `prove` their counts there is one prime, the largest of its length: proofs are the shorter then.
    """
    for number, chain in enumerate(CHAINS[backend]):
        one = primes_above(max(small_prime, least - 1), 1, chain.ring_dimension)
        if one[0].bit_length() <= (_LARGE_BITS if number else _SMALL_BITS):
            if prove:
                one = primes_below(one[0].bit_length(), 1, chain.ring_dimension)
            yield BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, one)
    if prove:
        return
    chain = CHAINS[backend][0]
    for count in range(2, MAX_PLAIN_MODULI + 1):
        several = primes_above(small_prime, count, chain.ring_dimension)
        if math.prod(several) >= least:
            yield BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, several)
            return
