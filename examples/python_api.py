"""How good is a shared classifier on the patients of three hospitals, none of which may hand over a row?

The rows are made up (from a seed). Run it with: .venv/bin/python examples/python_api.py
"""

import numpy as np
from sklearn.metrics import roc_auc_score

from fhe_auc import federated_auc


def make_hospital(random: np.random.Generator, rows: int, prevalence: float, signal: float) -> tuple:
    y_true = random.random(rows) < prevalence
    y_score = 1 / (1 + np.exp(-random.normal(signal * y_true - 1, 1)))
    return y_true, y_score


def main() -> None:
    random = np.random.default_rng(20240321)
    hospitals = [
        make_hospital(random, rows=2000, prevalence=0.10, signal=1.5),
        make_hospital(random, rows=500, prevalence=0.30, signal=0.8),
        make_hospital(random, rows=40, prevalence=0.05, signal=1.2),
    ]

    evaluation = federated_auc(hospitals)
    print(f"encrypted     {evaluation.auc:.6f} ± {evaluation.binning_error:.6f}")
    print(f"backend       {evaluation.backend}, {evaluation.security_bits}-bit security")
    print(f"upload        {evaluation.upload_bytes_per_party / 1000:.0f} kB a hospital")

    # To check, and only because these rows are made up: pool them.
    y_true, y_score = (np.concatenate(column) for column in zip(*hospitals, strict=True))
    pooled = roc_auc_score(y_true, y_score)
    print(f"scikit-learn  {pooled:.6f}")
    if abs(evaluation.auc - pooled) > evaluation.binning_error + evaluation.numerical_error:
        raise SystemExit("scikit-learn's AUC lies outside the interval")


if __name__ == "__main__":
    main()
