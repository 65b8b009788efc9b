"""What reviewers ask next, each number against one over rows, and how often its interval holds what is true.

    OMP_NUM_THREADS=1 python docs/evidence/studies/reviewers.py        # 5 minutes; --studies 400: 40 seconds

Counts are in the clear, as those of a session are exact. Patients with several rows: 200, 30 % with the outcome; scores
are normal, with 60 % of their variance between patients. Real ones come with R (survival, MASS, nlme).
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from fhe_auc.metrics import Histogram
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.report_measures import net_benefits
from fhe_auc_benchmarks.tables import show
from reported_numbers import GRID, STUDIES, coverage, reading

OF_R = {
    "pbcseq": "with(survival::pbcseq, data.frame(id, futime - day < 730 & status == 2, log(bili), albumin))",
    "bacteria": "with(MASS::bacteria, data.frame(as.integer(ID), y == 'y', week, trt == 'placebo'))",
    "MathAchieve": "with(nlme::MathAchieve, data.frame(as.integer(School), MathAch > 19, SES, Sex == 'Male'))",
}
"""Rows of patients (children, schools): whose they are, an outcome, and what predicts it."""

RATES = [f"{found}_at_{held}_0.90" for found, held in (("sensitivity", "specificity"), ("specificity", "sensitivity"))]
OF_SCORES = ("partial_auc", *RATES, "average_precision")


def obuchowski(labels: NDArray, ids: NDArray, *scores: NDArray) -> NDArray:
    """Return the covariance matrix of the models' AUCs over rows of patients (Biometrics 53, 1997)."""
    of = np.unique(ids, return_inverse=True)[1]
    sums, patients, every = [], [], of.max() + 1
    for own, sign in ((labels, 1), (~labels, -1)):
        placed = [np.sign(each[own, None] - each[~own]).mean(axis=1) * sign / 2 for each in scores]
        sums.append(np.array([np.bincount(of[own], v - v.mean(), every) for v in placed]) / own.sum())
        patients.append(len(np.unique(of[own])))
    within = sum(n / (n - 1) * each @ each.T for n, each in zip(patients, sums, strict=True))
    between = every / (every - 1) * sums[0] @ sums[1].T
    return np.asarray(within + between + between.T)


def of_patients(visits: int, studies: int, *, models: int = 1, mixed: bool = False) -> list[object]:
    """Return how often an interval by rows, and one by patients, holds the AUC, or the difference of two models.

    `mixed`: each visit has a label of its own, alike within patients. Last is by how much errors are off at most.
    """
    rng, ids, held, off = np.random.default_rng((visits, mixed)), np.repeat(np.arange(200), visits), [], []
    true = 0.8 if models == 1 else norm.cdf(0.8 * norm.ppf(0.8)) - 0.8
    for number in range(studies):
        risk = rng.random(200) < 0.3
        labels = rng.random(len(ids)) < np.where(risk[ids], 0.7, 0.13) if mixed else risk[ids]
        own, noise = rng.normal(size=(2, 200))[:, ids], rng.normal(size=(2, len(ids)))
        first, second = np.sqrt(0.6) * own + np.sqrt(0.4) * noise
        first += np.sqrt(2) * norm.ppf(0.8) * labels
        scores = [norm.cdf(each - 1) for each in (first, 0.8 * first + 0.6 * second)[:models]]
        found = reading(labels, scores, GRID, patients=ids)
        by_rows = replace(
            found, analysis=Analysis(models=found.analysis.models), sums=replace(found.sums, clusters=None)
        )
        told = [each.estimates()[0] if models == 1 else each.comparisons()[0] for each in (by_rows, found)]
        held.append([each.interval.low <= true <= each.interval.high for each in told if each.interval is not None])
        if number < 100:
            contrast = np.array([-1, 1][-models:])
            expected = np.sqrt(contrast @ obuchowski(labels, ids, *scores) @ contrast)
            off.append(abs(told[1].standard_error / expected - 1))
    shares = 100 * np.mean([each for each in held if each], axis=0)
    what = "AUC" if models == 1 else "difference"
    return [what, visits, "visits'" if mixed else "patients'", *shares.round(1), f"{100 * max(off):.1f}"]


def of_net_benefit(rows: int, mean: float, deviation: float, studies: int) -> list[object]:
    """Return how often intervals at 0.2 hold net benefits of true risks, of blurred ones, and their difference."""
    random, found = np.random.default_rng(rows), []
    for size in [4 * 10**6, *[rows] * studies]:
        odds = random.normal(mean, deviation, size)
        risk, blurred = expit([odds, odds + random.normal(0, 0.8, size)])
        cells = 4 * (random.random(size) >= risk) + 2 * (risk >= 0.2) + (blurred >= 0.2)
        pooled = Histogram(np.arange(5) / 4, *np.bincount(cells, minlength=8).reshape(2, 4))
        told = net_benefits(("first", "second"), pooled, 0.2, 0.95, 1)
        found.append([(each.estimate.value, each.interval.low, each.interval.high) for each in told])
    values, low, high = np.transpose(found)
    return [f"{rows:,}", *(100 * ((low <= values[:, :1]) & (values[:, :1] <= high))[:, 1:].mean(axis=1)).round(1)]


def public() -> Iterator[list[object]]:
    """Yield a set's rows and patients; errors by rows, by patients, and over rows; of the difference the last two."""
    for name, made in OF_R.items():
        command = [str(shutil.which("Rscript")), "-e", f"write.csv(na.omit({made}) * 1, row.names = FALSE)"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        ids, y, *features = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, unpack=True)
        labels, x = y == 1, np.transpose(features)
        scores = [LogisticRegression(C=1e6).fit(z, labels).predict_proba(z)[:, 1] for z in (x, x[:, :1])]
        covariance = obuchowski(labels, ids, *scores)
        of_rows, found = (reading(labels, scores, GRID, patients=of) for of in (None, ids.astype(int)))
        (pair,), errors = found.comparisons(), [each.estimates()[0].standard_error for each in (of_rows, found)]
        expected = np.sqrt([covariance[0, 0], covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]])
        told = [*errors, expected[0], np.nan if pair.missing else pair.standard_error, expected[1]]
        yield [name, len(y), len(set(ids)), f"{found.estimates()[0].auc:.3f}", *np.round(told, 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=4000)
    studies = parser.parse_args().studies
    cases = [of_patients(visits, studies) for visits in (1, 2, 5, 10)]
    cases += [of_patients(5, studies, mixed=True), of_patients(5, studies, models=2)]
    show(["interval of", "visits", "labels", "by rows", "by patients", "error off by at most, %"], cases)
    show(["rows", "positive", "AUC", *OF_SCORES], (coverage(*each, studies // 2, OF_SCORES) for each in STUDIES[:3]))
    show(["rows", "first", "second", "difference"], (of_net_benefit(*each, studies // 2) for each in STUDIES[:3]))
    if shutil.which("Rscript"):
        errors = ["DeLong", "by patients", "over rows", "difference, by patients", "over rows"]
        show(["set", "rows", "patients", "AUC", *errors], public())


if __name__ == "__main__":
    main()
