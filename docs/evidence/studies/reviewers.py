"""What reviewers ask next, each number against one over rows, and how often its interval holds what is true.

    OMP_NUM_THREADS=1 python docs/evidence/studies/reviewers.py        # 5 minutes; --studies 400: 1 minute

Counts are in the clear, as those of a session are exact. Public data come with R (survival, MASS, nlme), if there is an
Rscript. First tables: patients with several rows; scores are normal, with 60 % of their variance between patients.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.terms import Factor, Part, Release
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.estimates_from_sums import Reading

GRID = thresholds.resolve("hybrid:1000")
ROWS, PATIENTS = Analysis(models=("first", "second")), Analysis(models=("first", "second"), cluster="id")
OF_R = {
    "pbcseq": "d <- survival::pbcseq; d <- data.frame(id = d$id, y = d$futime - d$day < 730 & d$status == 2, "
    "a = log(d$bili), b = d$albumin, c = d$age, d = d$protime)",
    "bacteria": "d <- MASS::bacteria; d <- data.frame(id = d$ID, y = d$y == 'y', a = d$week, b = d$trt == 'placebo', "
    "c = d$hilo == 'hi', d = 0)",
    "MathAchieve": "d <- merge(nlme::MathAchieve, nlme::MathAchSchool, by = 'School'); d <- data.frame(id = d$School, "
    "y = d$MathAch > 19, a = d$SES, b = d$Minority == 'Yes', c = d$Sex == 'Male', d = d$Sector == 'Catholic')",
}
"""Rows of patients (children; schools), an outcome, and what predicts it."""


def reading(data: PartyData, analysis: Analysis) -> Reading:
    """Return what a session says of these rows, its sums computed in floating point."""
    sums = AnalysisSums(analysis, len(GRID), True)
    integers = [round(each) for each in totals(sums.release, sums.sketch(data, GRID, 10**5, 2**80))]
    return Reading(analysis, sums.read(integers, 10**5, 2**100), 3, 0.95)


def of_rows(reading: Reading) -> Reading:
    """Return what is read without sums over patients."""
    return replace(reading, analysis=ROWS, sums=replace(reading.sums, clusters=None))


def totals(release: Release, sketch: NDArray[np.int64]) -> Iterator[float]:
    """Yield each sum of a release."""
    vectors = release.sketch.split(sketch.astype(np.float64))

    @functools.cache
    def of_part(part: Part) -> NDArray[np.float64]:
        values = part.weight * vectors[part.vector]
        running = np.cumsum(values)
        over = {"each": values, "below": running - values, "above": running[-1] - running, "total": running[-1:]}
        return over[part.over]

    @functools.cache
    def of_factor(factor: Factor) -> NDArray[np.float64]:
        entries = sum(map(of_part, factor.parts)) if factor.parts else np.array(factor.constants, float)
        return np.tile(np.repeat(entries, factor.each), factor.times)

    for wanted in release.sums:
        yield float(sum(functools.reduce(np.multiply, map(of_factor, each.factors)).sum() for each in wanted.terms))


def obuchowski(labels: NDArray, ids: NDArray, *scores: NDArray) -> NDArray:
    """Return the covariance matrix of the models' AUCs over rows of patients (Biometrics 53, 1997)."""
    sums, (ones, zeros) = [], (labels, ~labels)
    patients, of = np.unique(ids, return_inverse=True)
    for own, others in ((ones, zeros), (zeros, ones)):
        of_models = []
        for each in scores:
            ascending = np.sort(each[others])
            placed = np.searchsorted(ascending, each[own], "left") + np.searchsorted(ascending, each[own], "right")
            placed = placed / (2 * others.sum()) * (1 if own is ones else -1)
            of_models.append(np.bincount(of[own], placed - placed.mean(), len(patients)))
        sums.append((np.array(of_models) / own.sum(), len(np.unique(of[own]))))
    (x, with_ones), (y, with_zeros) = sums
    cross = len(patients) / (len(patients) - 1) * x @ y.T
    return with_ones / (with_ones - 1) * x @ x.T + with_zeros / (with_zeros - 1) * y @ y.T + cross + cross.T


def visits(rng: np.random.Generator, patients: int, most: int, auc: float, *, mixed: bool) -> tuple[NDArray, ...]:
    """Return labels, ids and two models' scores; `mixed`: each visit has a label of its own, alike within patients."""
    ids = np.repeat(np.arange(patients), most)
    risk = rng.random(patients) < 0.3
    labels = (rng.random(len(ids)) < np.where(risk[ids], 0.7, 0.13)) if mixed else risk[ids]
    own, noise = rng.normal(size=(2, patients))[:, ids], rng.normal(size=(2, len(ids)))
    first = np.sqrt(2) * norm.ppf(auc) * labels + np.sqrt(0.6) * own[0] + np.sqrt(0.4) * noise[0]
    second = 0.8 * first + 0.6 * (np.sqrt(0.6) * own[1] + np.sqrt(0.4) * noise[1])
    return labels, ids, norm.cdf(first - 1), norm.cdf(second - 1)


def of_patients(most: int, auc: float, studies: int, *, mixed: bool) -> list[object]:
    """Return how often intervals hold the AUC, and the difference of two, with and without patients; and errors."""
    rng, held, off = np.random.default_rng((most, int(100 * auc), mixed)), [], []
    true = auc, norm.cdf(0.8 * norm.ppf(auc)) - auc  # the second model's scores have the same variance
    for number in range(studies):
        labels, ids, *scores = visits(rng, 200, most, auc, mixed=mixed)
        columns = dict(zip(PATIENTS.models, scores, strict=True))
        data = PartyData.from_columns("all", labels, columns, {}, PATIENTS, clusters=ids)
        by_patients = reading(data, PATIENTS)
        for found in (of_rows(by_patients), by_patients):
            of_auc, of_difference = found.estimates()[0], found.comparisons()[0]
            held += [None if of_auc.interval is None else of_auc.interval.low <= true[0] <= of_auc.interval.high]
            interval = of_difference.interval
            held += [None if interval is None else interval.low <= true[1] <= interval.high]
        if number < 100:
            covariance = obuchowski(labels, ids, *scores)
            expected = covariance[0, 0], covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
            errors = np.array([of_auc.standard_error, of_difference.standard_error])
            off.append(abs(errors / np.sqrt(expected) - 1))
    each = (held[at::4] for at in (0, 2, 1, 3))
    cells = [f"{100 * np.mean([one for one in those if one is not None]):.1f}" for those in each]
    return [
        most,
        "visits'" if mixed else "patients'",
        auc,
        *cells,
        *(f"{100 * each:.1f}" for each in np.max(off, axis=0)),
    ]


def public() -> Iterator[list[object]]:
    """Yield each set's rows and patients, and standard errors over rows and by sums over patients."""
    for name, made in OF_R.items():
        script = f"{made}; d <- na.omit(d); d[-1] <- lapply(d[-1], as.numeric); write.csv(d, row.names = FALSE)"
        command = [str(shutil.which("Rscript")), "-e", script]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = list(csv.DictReader(io.StringIO(text)))
        labels, ids = np.array([row["y"] == "1" for row in rows]), np.array([row["id"] for row in rows])
        features = np.array([[float(row[key]) for key in "abcd"] for row in rows])
        fitted = (LogisticRegression(C=1e6, max_iter=1000).fit(x, labels) for x in (features, features[:, :1]))
        models = [each.predict_proba(features[:, : each.n_features_in_])[:, 1] for each in fitted]
        columns = dict(zip(PATIENTS.models, models, strict=True))
        data = PartyData.from_columns("all", labels, columns, {}, PATIENTS, clusters=ids)
        found = reading(data, PATIENTS)
        covariance = obuchowski(labels, ids, *models)
        expected = np.sqrt([covariance[0, 0], covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]])
        (pair,), one = found.comparisons(), found.estimates()[0]
        of_pair = "not shown" if pair.missing else f"{pair.standard_error:.5f}"
        told = (
            f"{each:.5f}" for each in (of_rows(found).estimates()[0].standard_error, one.standard_error, expected[0])
        )
        yield [name, f"{len(rows):,}", len(set(ids)), f"{one.auc:.3f}", *told, of_pair, f"{expected[1]:.5f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=4000)
    studies = parser.parse_args().studies
    cases = (*((n, 0.8, False) for n in (1, 2, 5, 10)), (5, 0.9, True), (10, 0.9, True))
    head = ["visits", "labels", "AUC", "AUC, rows", "AUC, patients", "difference, rows", "difference, patients"]
    show(
        [*head, "SE off by at most, %", "of the difference"],
        (of_patients(most, auc, studies, mixed=mixed) for most, auc, mixed in cases),
    )
    if shutil.which("Rscript"):
        errors = ["DeLong", "by patients", "over rows", "difference, by patients", "over rows"]
        show(["set", "rows", "patients", "AUC", *errors], public())


if __name__ == "__main__":
    main()
