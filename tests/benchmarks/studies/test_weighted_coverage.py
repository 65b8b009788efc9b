"""Intervals of weighted rows, and at horizons, hold what is true: docs/evidence/studies/weighted_coverage.py.

Seeds are fixed. Bands are the target's, and four standard errors of so few studies.
"""

import math

import numpy as np

import weighted_coverage as study

STUDIES, LOW, HIGH = 40, 93.5, 96.5


def test_intervals_of_weighted_rows_and_at_horizons_hold_what_is_true() -> None:
    rng, by = np.random.default_rng(1), 400 * math.sqrt(0.05 * 0.95 / STUDIES)
    true = study.plain_auc(*study.population(rng, 10**6, study.SAMPLED["survey"][0]))
    event, scores = study.followed(rng, 10**6, "")
    first = study.plain_auc(event <= study.HORIZONS[""][0], scores)
    rate, found = study.censoring_rate("", 0.4), {true: list[study.Found](), first: list[study.Found]()}
    while min(map(len, found.values())) < STUDIES:
        found[true] += filter(None, [study.weighted(rng, 500, "survey")])
        found[first] += (study.at_horizons(rng, 500, "", rate) or [])[:1]
    for wanted, studies in found.items():
        share = float(study.said(studies, wanted).split(" ")[0])
        assert LOW - by <= share <= min(HIGH + by, 100)
