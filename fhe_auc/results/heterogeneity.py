"""How much sites differ: from sums over sites, without the AUC of any.

Site i has the logit θ_i of its own AUC and the weight w_i = 1/variance of that, by DeLong. With k sites, and sums over
all of them,

    mean μ = Σwθ/Σw      Q = Σwθ² − (Σwθ)²/Σw      I² = max(0, 1 − (k − 1)/Q)
    τ² = max(0, (Q − (k − 1)) / (Σw − Σw²/Σw))              DerSimonian and Laird, Controlled Clin. Trials 7 (1986)
    var μ = 1/Σw + τ²·Σw²/(Σw)²                             Doi et al., Contemp. Clin. Trials 45 (2015), "IVhet"
    prediction interval: μ ± t_{k−2}·√(τ² + var μ)

back on the scale of the AUC. The form of the last is Higgins, Thompson and Spiegelhalter's (JRSS A 172, 2009), but mean
and variance are IVhet's: weights are those of a fixed effect. Theirs, 1/(τ² + 1/w), would take the single sites'
variances, a second question that depends on τ², or so many more sums that single sites could be solved for.

What the sums give away: a usable site has three numbers, D, P·N and w (θ follows from the first two), and there are six
sums over all of them. Who knows the numbers of all usable sites but two can solve for these two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fhe_auc.results.intervals import Interval, expit, student_t

LEAST_SITES = 5
"""Fewest parties of which sums over sites are released; they are shown where as many sites have rows of both labels.

How many these are is known only once the sums are. Then a party alone faces four others at least, not two.
"""

PREDICTION = "prediction for a new site, IVhet"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSummary:
    """What sites have in common, and how far they differ, for one model.

    Attributes
    ----------
    model : str
        Name of the model; empty where there is only one.
    within : float or None
        AUC within sites: the share of pairs, of a positive and a negative row of the same site, that the model orders
        rightly. Where it is far from the pooled AUC, the model tells sites apart rather than rows, or the reverse. None
        where fewer than 5 sites have both labels.
    both_classes, one_class : int
        Number of sites with rows of both labels, and with rows of one.
    usable : int
        Number of sites whose own AUC has a standard error; all below is about these.
    mean : float or None
        Fixed-effect mean of their AUCs: on the logit scale, weighted by precision. None, as all below, for fewer than 5
        usable sites.
    i2 : float or None
        Share of the variation between sites that is not chance, in [0, 1].
    tau2 : float or None
        Variance between sites of the logit of the AUC.
    prediction : Interval or None
        Where the AUC of another such site is expected, around `mean`.
    """

    model: str
    within: float | None
    both_classes: int
    one_class: int
    usable: int
    mean: float | None = None
    i2: float | None = None
    tau2: float | None = None
    prediction: Interval | None = None


class UsableSites(NamedTuple):
    """Sums over usable sites: their number, and of w, wθ, wθ², w²."""

    usable: int
    weight: Fraction
    weighted: Fraction
    weighted_square: Fraction
    weight_square: Fraction


def random_effects(sums: UsableSites, level: float) -> tuple[float, float, float, Interval] | None:
    """Return mean, I², τ² and prediction interval; None for fewer than 5 usable sites, or sums of no such."""
    k, w, wt, wtt, ww = sums
    if k < LEAST_SITES or w <= 0 or w * w <= ww:
        return None
    mean, q = wt / w, wtt - wt**2 / w
    i2 = max(0.0, 1 - (k - 1) / float(q)) if q > 0 else 0.0
    tau2 = max(Fraction(0), (q - (k - 1)) / (w - ww / w))
    variance = 1 / w + tau2 * ww / w**2
    reach = student_t(k - 2, level) * math.sqrt(tau2 + variance)
    low, high = (expit(float(mean) + sign * reach) for sign in (-1, 1))
    return expit(float(mean)), i2, float(tau2), Interval(level, low, high, PREDICTION)
