"""Which items of the TRIPOD+AI checklist the report serves, and where on the page.

Collins et al., "TRIPOD+AI statement: updated guidance for reporting clinical prediction models that use regression or
machine learning methods", BMJ 385 (2024), e078378.
"""

from __future__ import annotations

__all__ = ["items"]

_NOT_HERE = "not here"


def items(*, groups: bool, sites: bool) -> tuple[tuple[str, str, str], ...]:
    """Return item, what it asks for, and where that is: titles of sections or figures, on a page with these panels."""
    return (
        ("10", "Sample size, and how it was arrived at", _NOT_HERE),
        ("11", "Missing data", _NOT_HERE),
        ("12e", "Measures and plots of performance", "all tables, and the figures; why these: not here"),
        ("14", "Fairness", "Groups of rows; how they were chosen: not here" if groups else _NOT_HERE),
        ("15", "Classification, and its thresholds", "How good its decisions are; why these: not here"),
        ("20a", "Participants with and without the outcome", "top of the page; their flow: not here"),
        ("20b", "Characteristics of participants", _NOT_HERE),
        ("21", "Participants and outcome events in the analysis", "top of the page"),
        ("22", "The model itself", _NOT_HERE),
        (
            "23a",
            "Performance, with confidence intervals",
            "all tables, ROC curve, Reliability" + (", Groups of rows" if groups else "; key subgroups: not here"),
        ),
        ("23b", "Heterogeneity across clusters", "Sites" if sites else _NOT_HERE),
    )
