"""A study that three sites are asked, who serve; and what people do about it: make, look at what waits, agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.machines import outcomes
from tests.support.command_line import told
from tests.support.keys_folder import ADDER
from tests.support.machines import toml
from tests.support.served import SITES, copy_roles, results


def study_text(sites: Sequence[str], aggregator: str, **more: Any) -> str:
    """A study as a file has it, whose sessions the first of these sites makes."""
    about = {"model": "net 2", "outcome": "sepsis", "cohort": "adults", "period": "2030", "thresholds": "uniform:16"}
    asked = {**about, "sites": sites, "maker": sites[0], "aggregator": aggregator, **more}
    return toml({name.replace("_", "-"): value for name, value in asked.items()})


STUDY = study_text(SITES, ADDER, protocol="histogram-federated")


@pytest.fixture
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sites, aggregator and helper, who have agreed to nothing."""
    copy_roles(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)


def make(*more: str) -> dict[str, Any]:
    return told("session", "make", "study.toml", "north.toml", *more)


def waits(name: str) -> dict[str, Any]:
    return dict(told("pending", f"{name}.toml")["waiting"])


def agree(*names: str) -> None:
    for name in names:
        (session,) = waits(name)
        told("pending", f"{name}.toml", "--yes", session[:8])


def outcome(name: str, number: int = 0) -> Any:
    return outcomes.read(results(name)[number])
