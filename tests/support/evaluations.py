"""An evaluation as a session yields it, without the session."""

from typing import Any

from fhe_auc.results.evaluation import Evaluation


def made_evaluation(**changes: Any) -> Evaluation:
    """What a verified session of seven sites has found, but for what is given."""
    found = {
        **{"auc": 0.8, "binning_error": 0.002, "numerical_error": 0.0, "thresholds": 1000},
        **{"protocol": "verified", "backend": "openfhe", "parties": 7, "verified": True, "security_bits": 128},
    }
    return Evaluation(**found | changes)
