"""What the documents say of sizes is what `fhe-auc plan` says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fhe_auc.base.quantities import bytes_text
from fhe_auc.cli import main

SECURITY = Path(__file__).parents[2] / "docs" / "security"

pytestmark = pytest.mark.openfhe


def test_uploads_of_malicious_at_a_thousand_thresholds() -> None:
    asked = ["plan", "--protocol", "malicious", "--thresholds", "uniform:1000", "--json"]
    plans = json.loads(CliRunner().invoke(main, asked, catch_exceptions=False).stdout)["plans"]
    (size,) = {bytes_text(plans[backend]["upload_bytes"]) for backend in ("openfhe", "tenseal")}
    said = " ".join((SECURITY / "malicious.md").read_text(encoding="utf-8").split())
    assert f"1,000 thresholds are {size} a party on both backends" in said
