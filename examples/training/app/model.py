"""The model that both examples train: logistic regression, an intercept and a weight for each of five features."""

import numpy as np
from sklearn.metrics import roc_auc_score

START = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # a poor model: it knows the last feature only, which tells least


def rows_of(file: str) -> tuple[np.ndarray, np.ndarray]:
    """A site's own rows: labels, and five features each."""
    rows = np.load(file)
    return rows["y_true"], rows["features"]


def probabilities(model: np.ndarray, features: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(model[0] + features @ model[1:])))


def trained(model: np.ndarray, y_true: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The model after some steps of gradient descent on a site's rows."""
    for _ in range(5):
        error = probabilities(model, features) - y_true
        model = model - np.append(error.mean(), error @ features / len(error)) / 5
    return model


def own_auc(y_true: np.ndarray, scores: np.ndarray) -> tuple[float, int]:
    """A site's AUC and its weight in the usual average: rows, or 0 where all have one label and there is no AUC."""
    both = 0 < y_true.sum() < len(y_true)
    return (float(roc_auc_score(y_true, scores)), len(y_true)) if both else (0.5, 0)
