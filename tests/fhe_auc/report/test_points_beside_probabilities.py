"""A report of two models, of which one has points for scores."""

from typing import Any

import numpy as np
import pytest

from fhe_auc import InputError, federated_report
from fhe_auc.figures.report_card import FIGURES, draw
from tests.support.html_page import Page
from tests.support.lazy import Lazy
from tests.support.synthetic_scores import two_models

pd = Lazy("pandas")
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

BOTH: dict[str, Any] = {"label": "died", "score": ["risk", "$<b>_old"], "site": "hospital"}
AT = 0.25


def test_beside_probabilities_points_have_all_that_points_have_and_what_is_missing_is_said() -> None:
    rows = pd.DataFrame(two_models(3000))
    points = rows.assign(**{"$<b>_old": np.floor(9 * rows["$<b>_old"])})
    report = federated_report(points, **BOTH, threshold=AT, interval=None)
    said, html = report.as_dict(), report.html()
    second = said["models"]["second"]
    assert said["decision_curve"] is not None
    assert second["decision_curve"] is second["metrics"]["brier"] is None
    assert second["metrics"]["roc_auc"]["value"] == pytest.approx(
        roc_auc_score(points["died"], points["$<b>_old"]), abs=6e-5
    )
    assert "undefined scores are not probabilities" in Page(html).words
    assert "model $&lt;b&gt;_old: Reliability" not in html
    for name in FIGURES:
        legend = draw(report, name).axes[0].get_legend()
        assert legend is not None
        labels = " ".join(text.get_text() for text in legend.get_texts())
        assert (r"\$<b>_old" in labels) == (name not in ("reliability", "decision_curve"))
    only = federated_report(points, **{**BOTH, "score": "$<b>_old"})
    assert "These scores are not probabilities: calibration" in Page(only.html()).words
    assert {"Reliability", "Decision curve"}.isdisjoint(Page(only.html()).texts)
    with pytest.raises(InputError, match="so there is no decision curve"):
        draw(only, "decision_curve")
