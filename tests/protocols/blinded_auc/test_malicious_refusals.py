"""What the protocol for an aggregator that may lie refuses before anything is computed: requests and manifests."""

import math
import re

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import InputError
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import Workload
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonestTask
from tests.support.chosen import federated_auc
from tests.support.malicious_sessions import (
    manifest_for,
    plan_for,
    request,
    sites,
    task_for,
)

SECRET = bytes(32)


class TestRequests:
    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            *(({name: 4}, f"no option '{name}'") for name in ("splits", "executions", "round_scores")),
            *(({"tolerance": bad}, f"tolerance must be a number, got {bad!r}") for bad in ("1e-6", [1e-6], 1e-6j)),
            *(({"tolerance": bad}, "tolerance must lie above 0") for bad in (0, -1e-6, 1, False, math.inf, math.nan)),
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


class TestManifests:
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

    def test_every_part_of_the_manifest_changes_the_secrets_that_all_parties_derive_alike(self):
        genuine = manifest_for()
        others = [
            manifest_for(session=b"\1" * 16),
            manifest_for(parties=4),
            manifest_for(context=b"\1" * 32),
            manifest_for(grid=np.linspace(0, 2, 16).tobytes()),
            manifest_for(chosen=plan_for(tolerance=1e-5)),
        ]
        factors = [task_for(each).runs(SECRET)[0].factors for each in (genuine, *others)]
        assert len({complex(value) for row in factors for value in row}) == 2 * len(factors)
        manifest = manifest_for(4)
        for mine, theirs in zip(*(task_for(manifest, index).runs(SECRET) for index in (0, 3)), strict=True):
            np.testing.assert_array_equal(mine.factors, theirs.factors)
            np.testing.assert_array_equal(mine.order, theirs.order)
