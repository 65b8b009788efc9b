"""What the documents say of sizes is what `fhe-auc plan` says."""

from pathlib import Path

import pytest

from fhe_auc.base.quantities import bytes_text
from tests.support.command_line import told

SECURITY = Path(__file__).parents[2] / "docs" / "security"

pytestmark = pytest.mark.openfhe


def test_uploads_of_malicious_up_to_253_thresholds_and_above() -> None:
    found = []
    for thresholds in (253, 254, 1021):
        plans = told("plan", "--protocol", "malicious", "--thresholds", f"uniform:{thresholds}")["plans"]
        (size,) = {bytes_text(plans[backend]["upload_bytes"]) for backend in ("openfhe", "tenseal")}
        found.append(size)
    few, many, most = found
    said = " ".join((SECURITY / "malicious.md").read_text(encoding="utf-8").split())
    assert many == most
    assert f"Up to 253 thresholds both runs are in one ciphertext of a party, {few}, with L = 256" in said
    assert f"up to 1,021 each has its own, {many}, with L = 1024" in said
