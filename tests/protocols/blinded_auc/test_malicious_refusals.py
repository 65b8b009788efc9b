"""What the protocol for an aggregator that may lie refuses before anything is computed: requests and manifests."""

import math
import re

import msgspec
import numpy as np
import pytest

import fhe_auc
from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, InputError, TooFewPartiesError
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import Workload
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest, SemiHonestTask
from tests.support.chosen import federated_auc
from tests.support.malicious_sessions import (
    CLOSE,
    backends,
    engine,
    exact,
    manifest_for,
    plan_for,
    request,
    sites,
    task_for,
    workload_for,
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

    @backends
    def test_without_a_party_the_round_stays_open_and_names_it(self, backend):
        parties = sites(4)
        roles = engine(backend).roles(parties)
        opening = roles.aggregator.start()
        *present, late = roles.parties
        for party in present:
            roles.aggregator.receive(party.name, party.respond(opening))
        with pytest.raises(TooFewPartiesError, match=r"3 of 4 parties submitted.*missing: 'site 3'"):
            roles.aggregator.finish_round()
        roles.aggregator.receive(late.name, late.respond(opening))
        truth = exact(parties, np.linspace(0, 1, 16)).auc
        assert [each.auc for each in roles.ended()] == pytest.approx([truth] * 4, abs=CLOSE)

    @backends
    def test_the_opening_is_answered_once(self, backend):
        roles = engine(backend).roles(sites(2))
        opening = roles.aggregator.start()
        party = roles.parties[0]
        party.respond(opening)
        with pytest.raises(fhe_auc.base.errors.MessageError, match="round"):
            party.respond(opening)


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

    @backends
    def test_the_roles_of_both_protocols_refuse_the_others_manifest(self, backend):
        semi = SemiHonest().prepare(request(sites(2), backend=backend))
        with pytest.raises(InputError, match="not one for masked shares"):
            Malicious().party(semi.manifest, semi.party_material, sites(2)[0])

    @pytest.mark.parametrize(
        "changes",
        [
            *({"tolerance": value} for value in (0.0, -1e-7, 2e-3, math.nan, math.inf)),
            {"workload": workload_for(split=False)},
            {"workload": workload_for(thresholds=2**20)},
            {"workload": workload_for(max_rows=10**8)},
        ],
        ids=str,
    )
    def test_a_plan_whose_parts_do_not_fit_is_refused(self, changes):
        chosen = plan_for()
        with pytest.raises(CapacityError):
            msgspec.structs.replace(chosen, **changes)

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
