"""The options of every protocol here. Which values are allowed each protocol checks: a manifest holds them too."""

from fhe_auc.base.options import Option, Options

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

HISTOGRAM_WITH_NOISE = Options(
    {
        "epsilon": Option(
            float, "privacy budget of a row, that of a session for quantile thresholds included", required=True
        ),
        "boundaries_epsilon": Option(
            float, "how much of epsilon such a session spends, or has spent; otherwise a quarter"
        ),
        "height": Option(int, "of the hierarchy that quantile thresholds come from; see boundaries-…"),
    }
)

BOUNDARIES_FEDERATED = Options({"bins": Option(int, "how many thresholds to find; `federated_thresholds` gives it")})

DISTRIBUTED_HEIGHT, LOCAL_HEIGHT = 10, 8  # of hierarchies, where none is given

BOUNDARIES_DISTRIBUTED_DP = Options(
    {
        **BOUNDARIES_FEDERATED.known,
        "epsilon": Option(float, "privacy budget of a row added or removed", required=True),
        "height": Option(int, "of the hierarchy: thresholds are multiples of 2^-height, 1 to 13", DISTRIBUTED_HEIGHT),
    }
)

BOUNDARIES_LOCAL_DP = Options(
    {
        **BOUNDARIES_FEDERATED.known,
        "epsilon": Option(float, "privacy budget of a row's score", required=True),
        "height": Option(int, "of the hierarchy: thresholds are multiples of 2^-height, 1 to 14", LOCAL_HEIGHT),
    }
)

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
