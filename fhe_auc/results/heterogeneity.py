"""How much sites differ: from sums over sites, without the AUC of any.

Site i has the logit θ_i of its own AUC and the weight w_i = 1/variance of that, by DeLong. With k sites, and sums over
all of them,

    mean μ = Σwθ/Σw      Q = Σwθ² − (Σwθ)²/Σw      I² = max(0, 1 − (k − 1)/Q)
    τ² = max(0, (Q − (k − 1)) / (Σw − Σw²/Σw))              DerSimonian and Laird, Controlled Clin. Trials 7 (1986)
    var μ = 1/Σw + τ²·Σw²/(Σw)²                             Doi et al., Contemp. Clin. Trials 45 (2015), "IVhet"
    prediction interval: μ ± t_{k−2}·√(τ² + var μ)
    random-effects mean: m = Σaθ/Σa, with a = w + τ²·(Σw/k)²
    its interval: m ± t_{k−1}·√(Σa(θ − m)²/((k − 1)·Σa))   Hartung and Knapp, Stat. Med. 20 (2001)

back on the scale of the AUC. The prediction interval's form is Higgins, Thompson and Spiegelhalter's (JRSS A 172,
2009), but mean and variance are IVhet's: weights are those of a fixed effect. Theirs, 1/(τ² + 1/w) = w/(1 + τ²w), would
take a second question that depends on τ², or so many sums that single sites could be solved for. The random-effects
mean has that curve's tangent at the mean w, but for a factor: the same weights where τ² = 0 or all w are alike, and all
alike as τ² grows. In simulated studies its interval held as often as metafor's (DL, knha), or up to 3.5 points oftener,
and was as wide, or up to two fifths wider where sites are few, and large and small ones.

The interval of the AUC within sites has the variance Σ(PN)²v/(ΣPN)², v being that of a site's AUC, by DeLong, or by
Hanley and McNeil where a label has one row.

What the sums give away: a usable site has three numbers, D, P·N and w (θ and v follow), and there are nine sums over
all of them. Who knows the numbers of all usable sites but three can solve for these three.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from fhe_auc.results.intervals import Interval, expit, student_t

LEAST_SITES = 5
"""Fewest parties of which sums over sites are released; they are shown where as many sites have rows of both labels.

How many these are is known only once the sums are. Then a party alone faces four others at least, not three.
"""

PREDICTION = "prediction for a new site, IVhet"
WITHIN = "DeLong within sites, logit scale"
RANDOM = "random effects, Hartung and Knapp"


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
    within_interval : Interval or None
        Its confidence interval, if rows are independent.
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
    random_mean : float or None
        Random-effects mean of the AUCs.
    random_interval : Interval or None
        Its confidence interval: of the mean over all sites that these could be drawn from.
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
    within_interval: Interval | None = None
    random_mean: float | None = None
    random_interval: Interval | None = None


class UsableSites(NamedTuple):
    """Sums over usable sites: their number, and of w, wθ, wθ², w², θ, θ²."""

    usable: int
    weight: Fraction
    weighted: Fraction
    weighted_square: Fraction
    weight_square: Fraction
    logit: Fraction
    logit_square: Fraction


def random_effects(summary: SiteSummary, sums: UsableSites, level: float) -> SiteSummary:
    """Return it with what differs between sites; as it is with fewer than 5 usable sites, or sums of no such."""
    k, w, wt, wtt, ww, t, tt = sums
    if k < LEAST_SITES or w <= 0 or w * w <= ww:
        return summary
    mean, q = wt / w, wtt - wt**2 / w
    i2 = max(0.0, 1 - (k - 1) / float(q)) if q > 0 else 0.0
    tau2 = max(Fraction(0), (q - (k - 1)) / (w - ww / w))
    variance = 1 / w + tau2 * ww / w**2
    equal = tau2 * (w / k) ** 2
    a, at, att = w + k * equal, wt + t * equal, wtt + tt * equal
    return replace(
        summary,
        mean=expit(float(mean)),
        i2=i2,
        tau2=float(tau2),
        prediction=_around(mean, tau2 + variance, k - 2, level, PREDICTION),
        random_mean=expit(float(at / a)),
        random_interval=_around(at / a, (att - at**2 / a) / ((k - 1) * a), k - 1, level, RANDOM),
    )


def _around(mean: Fraction, variance: Fraction, freedom: int, level: float, method: str) -> Interval:
    reach = student_t(freedom, level) * math.sqrt(max(0.0, float(variance)))
    low, high = (expit(float(mean) + sign * reach) for sign in (-1, 1))
    return Interval(level, low, high, method)
