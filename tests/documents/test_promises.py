"""What pages on security say of chances, budgets and sizes is what the code's own functions and `plan` say."""

import math
from pathlib import Path

import pytest

from fhe_auc.base.quantities import bytes_text, chance_text
from fhe_auc.input_proofs.statement import FORGERY_BITS
from fhe_auc.question import thresholds
from fhe_auc.rlwe.ring_parameters import DEFAULT_FLOODING_BITS
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.roles.sealed import ECHO_BYTES
from fhe_auc_protocols.blinded_auc.semi_honest import PUBLISHED_BITS
from fhe_auc_protocols.exact_auc.epsilon_noise import _INCIDENT_BITS, _OVERFLOW_BITS
from fhe_auc_protocols.exact_auc.exact_protocols import Verified
from fhe_auc_protocols.histograms.distributed_noise import _OVERFLOW
from tests.support.command_line import told

SECURITY = Path(__file__).parents[2] / "docs" / "security"
PAGE = SECURITY / "promises.md"
SITES, NIGHTS = tuple(f"site {number}" for number in range(20)), 365


def manifest(protocol: str, **request: object) -> Manifest:
    asked = Request(parties=SITES, thresholds=thresholds.resolve("hybrid:5000"), **request)  # type: ignore[arg-type]
    return registry.load(protocol).prepare(asked).manifest


def test_what_adds_up_over_nights_is_computed() -> None:
    verified = Verified()
    sealed, helped = (manifest("verified", interval=0.95, keys=keys) for keys in ("sealed", "helper"))
    parameters = verified.plan_of(sealed)
    chances = {
        "a lie passes: `verified`, all submit, no helper": verified.soundness(sealed),
        "… with a helper, at any of 20 sites": verified.soundness(helped),
        "… histograms, at any of 20 sites": registry.load("histogram-federated").soundness(
            manifest("histogram-federated")
        ),
        "an echo is made up, for any of 20 sites": len(SITES) * (len(SITES) - 1) * 2.0 ** (-8 * ECHO_BYTES),
        "a false input passes: any of 20 sites": len(SITES) * 2.0**-FORGERY_BITS,
        "… any of a million records of devices": 1e6 * 2.0**-FORGERY_BITS,
        "flooding fails: `verified` as planned": (parameters.results * 2.0**-parameters.flooding_margin),
        "… the least that is planned, λ=40, for each result": 2.0**-DEFAULT_FLOODING_BITS,
        "`histogram-distributed-dp`: its δ": _OVERFLOW,
        "`verified --epsilon`: a number wraps": 2.0 ** (1 - _OVERFLOW_BITS),
        "… honest noise makes an incident": 2.0**-_INCIDENT_BITS,
    }
    expected = {what: chance_text(chance) for what, chance in chances.items()}
    section = PAGE.read_text("utf-8").split("\n## Composition over nights\n")[1].split("\n## ")[0]
    rows = [tuple(map(str.strip, line.split("|")[1:-1])) for line in section.splitlines() if line.startswith("|")]
    assert dict(rows[2:]) == expected  # type: ignore[arg-type]
    said = " ".join(section.split())
    assert f"{NIGHTS} sessions take {math.log2(NIGHTS):.1f} off each exponent" in said
    assert f"`semi-honest`'s digits ({math.ceil(PUBLISHED_BITS)} bits a session)" in said
    assert "So do ε, " in said
    caps = {"keys": "helper", "row_caps": dict.fromkeys(SITES, 500), "max_rows": 10_000}
    budget = verified.spends(manifest("verified", options={"epsilon": 1.0}, **caps))
    assert budget is not None
    assert budget.epsilon == 1  # of each session: no discount for what went before


@pytest.mark.openfhe
def test_uploads_of_malicious_up_to_253_thresholds_and_above() -> None:
    found = []
    for number in (253, 254, 1021):
        plans = told("plan", "--protocol", "malicious", "--thresholds", f"uniform:{number}")["plans"]
        own, other = (bytes_text(plans[backend]["upload_bytes"]) for backend in ("openfhe", "tenseal"))
        found.append(f"{own.removesuffix(' kB')} or {other}")
    few, many, most = found
    said = " ".join((SECURITY / "ckks.md").read_text(encoding="utf-8").split())
    assert many == most
    assert (
        f"Up to 253 thresholds both runs are in one ciphertext of a party, {few} (OpenFHE, SEAL), with L = 256" in said
    )
    assert f"up to 1,021 each has its own, {many}, with L = 1024" in said
