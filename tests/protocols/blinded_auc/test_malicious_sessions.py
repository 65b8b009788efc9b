"""The protocol for an aggregator that may lie: right and accepted if it does not, and silent where it refuses.

Other attacks on what it computes: tests/benchmarks/attacks.
"""

import math
import re

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError, InputError, VerificationError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import PRECISION, plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import AucPlan, Workload
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonestTask
from tests.support.blinded_auc import encoded, manifest_with
from tests.support.chosen import federated_auc
from tests.support.malicious_sessions import (
    backends,
    plan_for,
    request,
    sites,
)


@pytest.mark.backends("one")
class TestHonestSessions:
    @backends
    def test_parties_learn_that_it_was_verified_and_by_which_settings(self, backend):
        """By default, executions agree within ten times what they honestly do."""
        asked = {"protocol": "malicious", "thresholds": "uniform:16", "backend": backend}
        planned, found = (federated_auc(sites(4), **asked, **more) for more in ({}, {"tolerance": 1e-5}))
        tolerance = planned.settings["tolerance"]
        assert dict(planned.settings) == {"executions": 4, "tolerance": tolerance, "signed": False}
        assert 10 * planned.numerical_error < tolerance < 20 * planned.numerical_error
        assert planned.numerical_error <= PRECISION
        said = [" ".join(each.warnings) for each in (planned, found)]
        assert ["times the planned one" in each for each in said] == [False, True]
        assert "assume that parties can work out how many pooled rows have each label; only differential" in said[0]
        settings = {"executions": 4, "tolerance": 1e-5, "signed": False}
        assert dict(found.settings) == found.as_dict()["settings"] == settings
        assert (found.protocol, found.backend, found.parties, found.keys) == ("malicious", backend, 4, "sealed")
        assert (found.verified, found.thresholds, found.rounds, found.security_bits) == (True, 16, 3, 128)
        assert issubclass(VerificationError, EvaluationError)


def manifest_for(parties: int = 3, chosen: AucPlan | None = None, **changes: object) -> Manifest:
    """A manifest without keys."""
    plan_of = encoded(plan_for() if chosen is None else chosen)
    return manifest_with(plan_of, parties=parties, **{"protocol": "malicious", **changes})


def task_for(manifest: Manifest, index: int = 0) -> MaliciousTask:
    return MaliciousTask(manifest, PartyData.from_arrays(manifest.parties[index], [0, 1], [0.2, 0.7]))


class TestRefusals:
    """Before anything is computed: requests and manifests."""

    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            *(({name: 4}, f"no option '{name}'") for name in ("splits", "executions")),
            ({"tolerance": "1e-6"}, "tolerance must be a number, got '1e-6'"),
            *(({"tolerance": bad}, "tolerance must lie above 0") for bad in (0, 1, math.nan)),
            ({"tolerance": 1.1e-3}, "tolerance must lie above 0 and at most at 0.001"),
            ({"tolerance": 1e-15}, "a tolerance of 1e-15; lower max_rows"),
            ({"tolerance": True}, "tolerance"),
        ],
        ids=str,
    )
    def test_options_that_make_no_sense_are_refused_before_there_are_keys(self, options, shown, monkeypatch):
        monkeypatch.setattr(ckks, "generate", None)
        with pytest.raises(InputError, match=re.escape(shown)):
            federated_auc(sites(2), protocol="malicious", thresholds="uniform:16", **options)

    def test_nobody_can_be_left_out(self):
        for least in [2, 3]:
            with pytest.raises(InputError, match="min_parties does not apply"):
                Malicious().prepare(request(sites(4), min_parties=least))
        session = Malicious().prepare(request(sites(2), min_parties=2))
        assert session.manifest.min_parties == 2

    def test_manifests_of_other_plans_or_that_leave_parties_out_are_refused(self):
        chosen = plan(Workload(thresholds=16, parties=5), "tenseal")
        with pytest.raises(InputError, match="not one for masked shares of all parties"):
            task_for(manifest_for(chosen=chosen))
        data = PartyData.from_arrays("site 0", [0, 1], [0.2, 0.7])
        with pytest.raises(InputError, match="not one for whole counts"):
            SemiHonestTask(manifest_for(), data)
        for least in [2, 3]:
            with pytest.raises(InputError, match="of all parties"):
                task_for(manifest_for(4, min_parties=least))
        manifest = manifest_for(chosen=plan_for(max_rows=100))
        with pytest.raises(InputError, match="more than max_rows = "):
            MaliciousTask(manifest, PartyData.from_arrays("site 0", [0, 1] * 60, np.linspace(0, 1, 120)))
