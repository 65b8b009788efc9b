"""docs/guide/flower.md, executed after the guide to keys: from certificates to a result at each site, over Flower."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc import federated_auc
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.roles.local_consortium import TRIAL
from tests.support.command_line import write_csv
from tests.support.guides import SITES, Walk, steps

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(1200)]


@pytest.fixture
def walk(tmp_path: Path, site_rows: list[PartyData]) -> Iterator[Walk]:
    made = Walk(tmp_path)
    for data, name in zip(site_rows, SITES, strict=True):
        write_csv(tmp_path / f"{name}.csv", y_true=data.y_true, y_score=data.y_score)
    yield made
    made.stop()


def test_the_guide_runs_as_it_stands_and_ends_with_the_auc_of_evaluate(walk: Walk, site_rows: list[PartyData]) -> None:
    expected = federated_auc(site_rows)
    for step in steps("keys.md", until="## 3. Each starts its process"):
        walk.take(step)
    printed = [(terminal, text) for step in steps("flower.md") for terminal, text in walk.take(step).items()]
    (tried,) = (text for terminal, text in printed if terminal == "here")
    assert len(re.findall(rf"^AUC, encrypted +{expected.auc:.6f} ", tried, re.MULTILINE)) == 1
    assert tried.count(TRIAL.model) == 1
    *_, shown = (text for terminal, text in printed if terminal == "south")
    number, trail = shown.split("\n", 1)
    assert float(number) == pytest.approx(expected.auc, abs=1e-6)
    assert re.findall(r"\b(?:submitted|ended)\b", trail) == ["submitted", "ended"]
    for log in ("server/superlink.log", *(f"{name}/supernode.log" for name in SITES)):
        lines = (walk.folder / log).read_text().splitlines()
        assert lines
        assert [line for line in lines if not re.match(r"20[0-9-]{8}T[0-9:.]{12}[+]00:00 [A-Z]+ ", line)] == []
    for name in SITES:
        (written,) = (walk.folder / name / "results").iterdir()
        told = json.loads(written.read_text())
        assert told["evaluation"]["auc"] == pytest.approx(expected.auc, abs=1e-6)
        assert told["evaluation"]["study"]["outcome"] == "infarction within 30 days"
    record = json.loads((walk.folder / "server" / "night-1" / "record.json").read_text())
    assert record["counted"] == record["delivered"] == [*SITES]
    assert "auc" not in json.dumps(record)
