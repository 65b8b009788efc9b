"""docs/guide/study.md: the study that it shows can be made, and its table has all entries."""

import re
from pathlib import Path

from fhe_auc.question.study import Study
from fhe_auc.report.studies import check_study
from tests.support.guides import GUIDES

PAGE = (GUIDES / "study.md").read_text(encoding="utf-8")


def test_the_study_shown_can_be_made(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "study.toml").write_text(shown, encoding="utf-8")
    study = Study.read(tmp_path / "study.toml")
    check_study(study)
    assert study.report


def test_the_page_names_every_entry() -> None:
    named = {*re.findall(r"`([a-z-]+)`", PAGE), *re.findall(r"^([a-z-]+) = ", PAGE, re.MULTILINE)}
    assert {*Study.__struct_encode_fields__} <= named
