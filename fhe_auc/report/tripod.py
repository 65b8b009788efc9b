"""Which items of the TRIPOD+AI checklist the report serves, and where on the page.

Collins et al., "TRIPOD+AI statement: updated guidance for reporting clinical prediction models that use regression or
machine learning methods", BMJ 385 (2024), e078378.
"""

from __future__ import annotations

__all__ = ["ITEMS"]

_NOT_HERE = "not here"

ITEMS: tuple[tuple[str, str, str], ...] = (
    ("10", "Sample size, and how it was arrived at", _NOT_HERE),
    ("11", "Missing data", _NOT_HERE),
    ("12e", "Measures and plots of performance", "all tables, and the figures; why these: not here"),
    ("14", "Fairness", _NOT_HERE),
    ("15", "Classification, and its thresholds", "How good its decisions are; why these: not here"),
    ("20a", "Participants with and without the outcome", "top of the page; their flow: not here"),
    ("20b", "Characteristics of participants", _NOT_HERE),
    ("21", "Participants and outcome events in the analysis", "top of the page"),
    ("22", "The model itself", _NOT_HERE),
    ("23a", "Performance, with confidence intervals", "all tables, ROC curve, Reliability; key subgroups: not here"),
    ("23b", "Heterogeneity across clusters", _NOT_HERE),
)
"""Item, what it asks for, and where that is: titles of sections or figures."""
