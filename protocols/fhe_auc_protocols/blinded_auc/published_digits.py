"""Which digits of an AUC `semi-honest` publishes: those that the thresholds leave, and no more.

An aggregator that deviates can put any function of one party's counts into the number that all parties accept, since
nothing checks what it computes. All 53 bits of a float would hold seven counts. With a binning error e that parties
have read, they publish

    decimals    the most, from 1 to 4, with 10^-decimals >= e
    AUC         rounded to these
    bound       1.5·10^-decimals: e, and half a unit for the rounding; 0.55 where e is above a tenth

so one of `PUBLISHED` pairs, or one of three errors: fewer than 14 bits a session (`PUBLISHED_BITS`), of each party that
tells its own, as parties do not compare what they were given. Nothing else that they publish depends on what the
aggregator has computed. Parties themselves read all digits.
"""

import math

from fhe_auc_protocols.blinded_auc.result_check import Recovered

_MOST_DECIMALS = 4
_LEAST_LEFT = 0.5  # at one decimal, where the binning error is above a tenth: none is larger

PUBLISHED = sum(10**decimals + 1 for decimals in (1, *range(1, _MOST_DECIMALS + 1)))
"""How many pairs of an AUC and a bound there are."""

PUBLISHED_BITS = math.log2(PUBLISHED + 3)  # what is no number has one of three causes: `result_check.recover`
"""What one party's published numbers of a session can carry at most."""


def published(recovered: Recovered) -> tuple[Recovered, int]:
    """Return what everybody may be told of what a party has read, rounding in the bound; and how many decimals."""
    decimals = _MOST_DECIMALS
    while decimals > 1 and 10.0**-decimals < recovered.binning_error:
        decimals -= 1
    unit = 10.0**-decimals
    left = unit if recovered.binning_error <= unit else _LEAST_LEFT
    # Of both, float64 has numbers nearby, and a zero with a sign, which would tell one from the other.
    return Recovered(abs(round(recovered.auc, decimals)), round(left + unit / 2, _MOST_DECIMALS + 1)), decimals
