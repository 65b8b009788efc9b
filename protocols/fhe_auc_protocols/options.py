"""The options of every protocol here, and checks of their values, as a manifest holds them too.

A bad one is an `InputError` that names the option and the value.
"""

import math
from collections.abc import Mapping
from typing import TypeGuard

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Option, Options
from fhe_auc.base.python_options import number

_LEAST_EPSILON = 1e-6  # below it there is nothing to learn from any number of users
_MOST_EPSILON = 32.0  # beyond it a 64-bit choice is too coarse, and there is no privacy to speak of

EPSILON_ADVICE = "; give a privacy budget: -o epsilon=1, in Python epsilon=1"

EXACT = Options(
    {
        "round_scores": Option(
            int,
            "round scores to so many decimals, 1 to 5, each of which is a threshold: the AUC is then that of the "
            "rounded scores, and pairs of rows that rounding ties count as undecided",
        ),
        "plain_interval": Option(
            bool,
            "give DeLong's interval as AUC ± z·SE, cut at 0 and 1, as pROC does; otherwise it is made on the logit "
            "scale",
            False,
        ),
    },
    default_thresholds="hybrid:5000",  # a threshold is a few bytes
)

VERIFIED = Options(
    {
        **EXACT.known,
        "epsilon": Option(
            float,
            "privacy budget of the session: the AUC is then released with noise, and nothing else; otherwise exactly",
        ),
        "epsilon_unit": Option(
            str, "what epsilon protects: row (label and score of a row; the default) or label (that of a row)"
        ),
        "colluders": Option(
            int, "so many parties may tell each other their noise, beside whoever reads the result; otherwise none"
        ),
    },
    default_thresholds=EXACT.default_thresholds,
)

MALICIOUS = Options(
    {"tolerance": Option(float, "by how much executions may differ; otherwise by ten times what they honestly do")}
)

HISTOGRAM_FEDERATED = Options(default_thresholds=EXACT.default_thresholds)  # a report's AUC is that of exact

SPENT = "boundaries_epsilon"

_WITH_NOISE = {  # of a score histogram, and of the session before it that finds its thresholds
    "epsilon": Option(
        float,
        "privacy budget of a row replaced, label and score, of both sessions where one finds thresholds",
        required=True,
    ),
    SPENT: Option(
        float, "how much of epsilon that session spends, or has spent; otherwise 11 %, and with local-dp a quarter"
    ),
}

UNIT = "epsilon_unit"
OF_FLEET = {UNIT: Option(str, "what epsilon protects: device (all its rows, up to the cap; the default) or row")}

_HEIGHT = Option(int, "of the hierarchy that thresholds come from: multiples of 2^-height, 1 to 14 (8)")

HISTOGRAM_DISTRIBUTED_DP = Options(_WITH_NOISE, default_thresholds="quantile")

HISTOGRAM_LOCAL_DP = Options({**_WITH_NOISE, "height": _HEIGHT}, default_thresholds="quantile:20")

BOUNDARIES_FEDERATED = Options({"bins": Option(int, "how many thresholds to find; `federated_thresholds` gives it")})

REPLICATES_FEDERATED = Options({"replicates": Option(int, "how many to count, 100 to 1,000", required=True)})

BOUNDARIES_DISTRIBUTED_DP = Options(
    {"bins": Option(int, "how many thresholds to find; 0: as many as rows and epsilon allow", 0), **_WITH_NOISE}
)

BOUNDARIES_LOCAL_DP = Options({**BOUNDARIES_FEDERATED.known, **HISTOGRAM_LOCAL_DP.known})

_DPAUC = {  # of all three [DPAUC]
    "epsilon": Option(float, "privacy budget of a label for this session", required=True),
    "clip": Option(bool, "raise sums below 0 to 0, as in the paper", True),
    "endpoints": Option(bool, "add (0, 0) and (1, 1) to the curve; the paper does not", False),
    "monotone": Option(bool, "make the curve monotone by isotonic regression; the paper does not", False),
}

DPAUC_LAPLACE = Options(
    {**_DPAUC, "budget_thresholds": Option(int, "|Θ| of ε/(4|Θ|), where it exceeds the number of thresholds")}
)

DPAUC_GAUSSIAN = Options(
    {**DPAUC_LAPLACE.known, "delta": Option(float, "how much of the guarantee may fail", required=True)}
)

DPAUC_RANDOMIZED_RESPONSE = Options(
    {**_DPAUC, "score_epsilon": Option(float, "budget of a score in [0, 1]; otherwise scores stay as they are")}
)

USTAT_HIERARCHY = Options({"epsilon": Option(float, "privacy budget of one row, 0.000001 to 32", required=True)})

USTAT_KRR = Options(
    {
        **USTAT_HIERARCHY.known,
        "bins": Option(
            int, "bins of scores, made of neighbouring thresholds'; otherwise by the rule k = min_rows^¼·√ε"
        ),
    }
)

USTAT_PAIRS = Options(
    {
        **USTAT_HIERARCHY.known,
        "pairings": Option(
            int, "how many pairs a row is in, 1 to 16; each gets epsilon/pairings, from some 0.002 to 8", 1
        ),
    }
)


def positive_number(options: Mapping[str, object], name: str, advice: str = "") -> float:
    """Return an option without default; `InputError`: missing (`advice` is added), or not positive and finite."""
    if options.get(name) is None:
        raise InputError(f"{name} has no default{advice}")
    if not 0 < (found := number(options[name], name)) < math.inf:
        raise InputError(f"{name} must be positive and finite, got {found}")
    return found


def checked_epsilon(epsilon: object) -> float:
    """Return the privacy budget as a number; raise `InputError` unless it lies between 0.000001 and 32."""
    if not _LEAST_EPSILON <= (found := number(epsilon, "epsilon")) <= _MOST_EPSILON:
        raise InputError(f"epsilon must lie between {_LEAST_EPSILON:f} and {_MOST_EPSILON:g}, got {epsilon!r}")
    return found


def privacy_budget(options: Mapping[str, object]) -> float:
    """Return the option ``epsilon``, which has no default; raise `InputError` as `checked_epsilon`."""
    if options.get("epsilon") is None:
        raise InputError(f"epsilon has no default{EPSILON_ADVICE}")
    return checked_epsilon(options["epsilon"])


def shared_budget(options: Mapping[str, object]) -> tuple[float, float | None]:
    """Return the budget of two sessions together, and how much of it the first one spends; None: there is one session.

    Raises `InputError` as `privacy_budget`, and where the first one's part is not a part of the whole.
    """
    total = privacy_budget(options)
    if options.get(SPENT) is None:
        return total, None
    spent = positive_number(options, SPENT)
    if not spent < total:
        raise InputError(f"{SPENT} must be less than epsilon = {total:g}, which is for both sessions, got {spent:g}")
    return total, checked_epsilon(spent)


def is_whole(value: object, allowed: range) -> TypeGuard[int]:
    """Say whether an option is a whole number in that range."""
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed
