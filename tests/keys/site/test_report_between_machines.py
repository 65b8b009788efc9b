"""A report whose sessions sites answer one after the other is, to the last digit, that of one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.serialise import json_text
from fhe_auc.report import Report, federated_report
from tests.support.keys_folder import ADDER
from tests.support.served import SITES, results, serving, until
from tests.support.studies import STUDY, agree, make, waits
from tests.support.studies import roles as roles

pytestmark = pytest.mark.usefixtures("roles")


@pytest.mark.slow
def test_a_report_between_machines_has_the_digits_of_one_process() -> None:
    """Two models, seven groups, patients with several rows, quantile thresholds: all from the study and the rows."""
    generator, tables = np.random.default_rng(7), dict[str, Any]()
    for number, name in enumerate(SITES):
        rows = 200 + 50 * number
        label = generator.random(rows) < 0.3
        risks = [np.clip(0.3 + shift * label + 0.2 * generator.standard_normal(rows), 0, 1) for shift in (0.2, 0.3)]
        sex, age = generator.choice(["F", "M"], rows), generator.choice(["<40", "40-59", "60-79", "80-89", "90+"], rows)
        patients = [f"{name} {each}" for each in generator.integers(0, rows // 2, rows)]
        columns = zip(label.astype(int), *risks, sex, age, patients, strict=True)
        lines = ["died,a,b,sex,age,id", *(",".join(map(str, row)) for row in columns)]
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
        tables[name] = {"died": label.astype(int), "a": risks[0], "b": risks[1], "sex": sex, "age": age, "id": patients}
    Path("study.toml").write_text(
        STUDY.replace("uniform:16", "quantile:20")
        + """
        report = true
        label-column = "died"
        score-columns = ["a", "b"]
        by = ["sex=F,M", "age=<40,40-59,60-79,80-89,90+"]
        cluster = "id"
        decisions = [0.4]
        """
    )
    make()
    with serving(*SITES, ADDER):
        until(lambda: all(waits(name) for name in SITES[1:]))
        agree(*SITES[1:])
        until(lambda: all(len(results(name)) == 7 for name in SITES))
    assert make()["ended"]
    levels = {"sex": ["F", "M"], "age": ["<40", "40-59", "60-79", "80-89", "90+"]}
    asked = {"label": "died", "score": ["a", "b"], "by": levels, "cluster": "id", "threshold": [0.4]}
    alone = federated_report(tables, thresholds="quantile:20", **asked).as_dict()
    for name in SITES:
        newest = max(results(name), key=lambda path: path.stat().st_mtime_ns)
        between = Report.load(newest).as_dict()
        for varying in ("date", "session", "privacy"):
            between.pop(varying, None)
            alone.pop(varying, None)
        assert json_text(between) == json_text(alone)
