"""What the protocol for an aggregator that may lie refuses before anything is computed: requests and manifests."""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
import pytest

import fhe_auc
from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, InputError, TooFewPartiesError
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc import ckks_parameter_choice
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.error_bound import disagreement, error_bound
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest, SemiHonestTask
from fhe_auc_protocols.blinded_auc.workload import Workload
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
            ({"round_scores": 3}, "no option 'round_scores'"),
            ({"split": 2}, "no option 'split'"),
            *(({"splits": bad}, f"splits must lie between 2 and 4, got {bad}") for bad in (-2, 0, 1, 5)),
            *(({"splits": bad}, "splits") for bad in (2.5, "2", None, True, [2])),
            *(({"executions": bad}, f"executions must be one of 2, 4, 8, got {bad}") for bad in (0, 1, 3, 16)),
            *(({"executions": bad}, "executions") for bad in ("4", None, True, [4])),
            *(({"tolerance": bad}, f"tolerance must be a number, got {bad!r}") for bad in ("1e-6", [1e-6], 1e-6j)),
            *(({"tolerance": bad}, "tolerance must lie above 0") for bad in (0, -1e-6, 1, False, math.inf, math.nan)),
            ({"tolerance": 1.1e-3}, "tolerance must lie above 0 and at most at 0.001"),
            ({"tolerance": 1e-15}, "error below 1e-15"),
            ({"tolerance": True}, "tolerance"),
        ],
        ids=str,
    )
    def test_options_that_make_no_sense_are_refused_before_there_are_keys(self, options, shown, monkeypatch):
        monkeypatch.setattr(ckks, "generate", None)
        with pytest.raises(InputError, match=re.escape(shown)):
            federated_auc(sites(2), protocol="malicious", thresholds="uniform:16", **options)

    @backends
    def test_a_tolerance_changes_what_is_accepted_and_a_tight_one_ring_or_blinding(self, backend):
        rows = {"max_rows": 10**4} if backend == "openfhe" else {}  # with the default its ring is the larger anyway
        loose, tight = plan_for(backend=backend, **rows), plan_for(backend=backend, tolerance=4e-7, **rows)
        assert tight.tolerance == 4e-7
        assert disagreement(tight) <= 4e-7 < error_bound(loose)
        assert (
            tight.submission_bytes > loose.submission_bytes
            or loose.blinding_bits > tight.blinding_bits >= ckks_parameter_choice.DEFAULT_BLINDING_BITS
        )
        normal, loose = plan_for(backend=backend), plan_for(backend=backend, tolerance=1e-3)
        assert normal.tolerance == disagreement(normal)
        assert msgspec.structs.replace(loose, tolerance=normal.tolerance) == normal

    @backends
    def test_where_precision_is_too_little_plans_are_refused_and_fewer_rows_help(self, backend):
        for tolerance in [5e-8, 1e-9]:
            with pytest.raises(CapacityError, match=f"with an AUC error below {tolerance:g} .*lower max_rows"):
                plan_for(backend=backend, tolerance=tolerance)
        for splits, grid in [(3, 10_000), (4, 10_000)]:
            with pytest.raises(CapacityError, match="lower max_rows"):
                plan_for(backend=backend, splits=splits, thresholds=grid)
            chosen = plan_for(backend=backend, splits=splits, thresholds=grid, max_rows=10**5)
            assert error_bound(chosen) <= ckks_parameter_choice.DEFAULT_LOOSE_PRECISION

    def test_nobody_can_be_left_out_and_numpy_integers_are_integers(self):
        for least in [2, 3]:
            with pytest.raises(InputError, match="min_parties does not apply"):
                Malicious().prepare(request(sites(4), min_parties=least))
        session = Malicious().prepare(request(sites(2), min_parties=2))
        assert session.manifest.min_parties == 2
        for options in [{"splits": np.int64(3)}, {"executions": np.int32(2)}]:
            workload = Malicious().workload(request(sites(2), options=options))
            assert workload.splits == options.get("splits", 2)
            assert workload.classes == 2 * options.get("executions", 4)

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
        with pytest.raises(InputError, match="not one for split shares of all parties"):
            task_for(manifest_for(chosen=chosen))
        data = PartyData.from_arrays("site 0", [0, 1], [0.2, 0.7])
        with pytest.raises(InputError, match="not one for whole counts"):
            SemiHonestTask(manifest_for(), data)
        for least in [2, 3]:
            with pytest.raises(InputError, match="of all parties"):
                task_for(manifest_for(4, min_parties=least))
        for classes in [1, 2, 32]:
            # One execution agrees with itself, whatever the aggregator has done.
            with pytest.raises(InputError):
                task_for(manifest_for(chosen=plan_for(classes=classes)))
        manifest = manifest_for(chosen=plan_for(max_rows=100))
        with pytest.raises(InputError, match="more than max_rows = "):
            MaliciousTask(manifest, PartyData.from_arrays("site 0", [0, 1] * 60, np.linspace(0, 1, 120)))

    @backends
    def test_the_roles_of_both_protocols_refuse_the_others_manifest(self, backend):
        semi = SemiHonest().prepare(request(sites(2), backend=backend))
        with pytest.raises(InputError, match="not one for split shares"):
            Malicious().party(semi.manifest, semi.party_material, sites(2)[0])

    @pytest.mark.parametrize(
        "changes",
        [
            *({"tolerance": value} for value in (0.0, -1e-7, 2e-3, math.nan, math.inf)),
            *({"workload": workload_for(classes=classes)} for classes in (4, 16)),
            {"workload": workload_for(splits=1)},
            {"workload": workload_for(splits=4, thresholds=100)},
            {"workload": workload_for(thresholds=200)},
            {"flooding_bits": 29},
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
        multipliers = [task_for(each).executions(SECRET)[0].multipliers for each in (genuine, *others)]
        assert len({complex(value) for row in multipliers for value in row}) == 6 * len(multipliers)
        manifest = manifest_for(4)
        ours, others = (task_for(manifest, index).executions(SECRET) for index in (0, 3))
        for mine, theirs in zip(ours, others, strict=True):
            np.testing.assert_array_equal(mine.multipliers, theirs.multipliers)
            np.testing.assert_array_equal(mine.order, theirs.order)
        for classes in (4, 8, 16):
            executions = task_for(manifest_for(chosen=plan_for(classes=classes))).executions(SECRET)
            assert len(executions) == classes // 2
            assert len({complex(value) for each in executions for value in each.multipliers}) == 3 * classes
