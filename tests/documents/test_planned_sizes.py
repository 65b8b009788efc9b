"""What the documents say of sizes is what `fhe-auc plan` says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fhe_auc.base.quantities import bytes_text
from fhe_auc.cli import main

SECURITY = Path(__file__).parents[2] / "docs" / "security"

pytestmark = pytest.mark.openfhe


def said(page: str) -> str:
    return " ".join((SECURITY / page).read_text(encoding="utf-8").split())


def planned(*arguments: str) -> dict:
    return json.loads(CliRunner().invoke(main, ["plan", *arguments, "--json"], catch_exceptions=False).stdout)["plans"]


def test_uploads_of_malicious_at_a_thousand_thresholds() -> None:
    plans = planned("--protocol", "malicious", "--thresholds", "uniform:1000")
    (size,) = {bytes_text(plans[backend]["upload_bytes"]) for backend in ("openfhe", "tenseal")}
    assert f"1,000 thresholds are {size} a party on both backends" in said("malicious.md")


def test_from_how_many_parties_joint_keys_need_the_larger_ring() -> None:
    least, keys, joint = {}, set(), ("--protocol", "semi-honest", "--keys", "joint")
    for size in (100, 1000):
        for parties in range(30, 60):
            plan = planned(*joint, "--parties", str(parties), "--thresholds", f"uniform:{size}")["openfhe"]
            if plan["ring_dimension"] == 16384:
                keys.add(bytes_text(plan["key_bytes"]))
                least[size] = parties
                break
    (key_bytes,) = keys
    sentence = f"From {least[1000]} parties on (with 100 thresholds, {least[100]}) the larger ring is needed, with "
    assert f"{sentence}{key_bytes} of keys a party" in said("joint-keys.md")
