"""Intervals of weighted rows, and at horizons, hold what is true: tests/support/weighted_coverage.py.

Seeds are fixed. Bands are the target's, and four standard errors of so few studies.
"""

import math

import numpy as np

from tests.support import weighted_coverage as study

STUDIES, LOW, HIGH = 40, 93.5, 96.5


def test_intervals_of_weighted_rows_and_at_horizons_hold_what_is_true() -> None:
    rng, by = np.random.default_rng(1), 400 * math.sqrt(0.05 * 0.95 / STUDIES)
    of_weights = study.plain_auc(*study.population(rng, 10**6, study.SAMPLED["survey"][0]))
    event, scores = study.followed(rng, 10**6, "")
    of_horizon = study.plain_auc(event <= study.HORIZONS[""][0], scores)
    rate, found = study.censoring_rate("", 0.4), (list[study.Told](), list[study.Told]())
    while min(map(len, found)) < STUDIES:
        found[0].extend(filter(None, [study.weighted(rng, 500, "survey")]))
        found[1].extend((study.at_horizons(rng, 500, "", rate) or [])[:1])
    for true, studies in zip((of_weights, of_horizon), found, strict=True):
        share = float(study.said(studies, "roc_auc", {"roc_auc": true}).split(" ")[0])
        assert LOW - by <= share <= min(HIGH + by, 100)
