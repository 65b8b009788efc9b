"""docs/guide/weights.md, executed: commands print what it shows, which is what programs over all rows say."""

import re
from pathlib import Path

import pytest

from tests.support.guides import GUIDES, not_printed, printed_by
from tests.support.lazy import Lazy
from tests.support.row_auc_at import auc_at

pd = Lazy("pandas")
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

pytestmark = [pytest.mark.slow]


def test_the_guide_shows_what_commands_print_and_rows_say(tmp_path: Path) -> None:
    printed = printed_by("weights.md", tmp_path)
    assert not not_printed("weights.md", printed)
    sampled, followed = (
        pd.concat([pd.read_csv(tmp_path / f"{site}-{kind}.csv") for site in ("north", "south", "west")])
        for kind in ("sampled", "followed")
    )
    shown = float(re.findall(r"^AUC +(0\.\d+)", printed, re.MULTILINE)[0])
    assert shown == pytest.approx(roc_auc_score(sampled.died, sampled.risk_a, sample_weight=sampled.weight), abs=1e-3)
    once = roc_auc_score(sampled.died, sampled.risk_a)
    assert f"count once the AUC would be {once:.2f}" in (GUIDES / "weights.md").read_text("utf-8")
    for horizon, events, shown in re.findall(r"^(365|730) +\S+ +(\d+)  (0\.\d+)", printed, re.MULTILINE):
        rows = auc_at(*(followed[name].to_numpy() for name in ("risk", "days", "status")), float(horizon))
        assert float(shown) == pytest.approx(rows.auc, abs=4e-4)
        assert int(events) == ((followed.days <= int(horizon)) & (followed.status == 1)).sum()
