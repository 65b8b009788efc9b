"""The protocol for an aggregator that may lie: right and accepted if it does not, and silent where it refuses.

Other attacks on what it computes: tests/benchmarks/attacks.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError, InputError, MessageError, VerificationError
from fhe_auc.base.serialise import decode
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.blinded_auc import malicious
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import PRECISION, plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import AucPlan, Workload
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonestTask
from tests.support.blinded_auc import encoded, manifest_with
from tests.support.chosen import federated_auc
from tests.support.malicious_sessions import (
    CLOSE,
    Roles,
    assert_silent,
    backends,
    engine,
    exact,
    plan_for,
    request,
    sites,
)
from tests.support.pooled import pooled
from tests.support.wire import changed, flipped, payload_of

slow = partial(pytest.param, marks=pytest.mark.slow)


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

    @pytest.mark.parametrize(("tolerance", "told"), [(None, 0), (5e-9, 0), (1e-5, 1), (1e-3, 1)])
    def test_a_tolerance_far_above_the_error_bound_is_warned_of(self, tolerance, told):
        warnings = malicious._loose(plan_for(tolerance=tolerance))
        assert ["times the planned one: a lying aggregator" in warning for warning in warnings] == [True] * told

    @backends
    @pytest.mark.parametrize(("label", "rows"), [(0, 1), (1, 5000), slow(0, 50)])
    def test_rows_of_one_label_are_refused_without_a_number(self, backend, label, rows):
        rng = np.random.default_rng(rows)
        parties = [PartyData.from_arrays(f"site {i}", [label] * rows, rng.random(rows)) for i in range(2)]
        roles = engine(backend).roles(parties)
        with pytest.raises(VerificationError) as caught:
            roles.run()
        assert_silent(caught.value)
        for party in roles.parties:
            with pytest.raises(VerificationError):
                party.result()


WRONG_SUMS: dict[str, Callable[[list[tuple[bytes, ...]]], list[tuple[bytes, ...]]]] = {
    "lost": lambda sent: sent[:-1],
    "doubled": lambda sent: [*sent, sent[0]],
    "replaced by another's": lambda sent: [*sent[:-1], sent[0]],
    "one of a run alone": lambda sent: [*sent[:-1], (sent[-1][0], sent[0][1])],
    "runs swapped": lambda sent: [each[::-1] for each in sent],
    "runs of one party swapped": lambda sent: [*sent[:-1], sent[-1][::-1]],
    "none but one": lambda sent: sent[:1],
}


@pytest.mark.backends("one")
class TestWrongSums:
    """An aggregator that adds up something else than everybody's submissions, once each: an error, and no number."""

    @backends
    @pytest.mark.parametrize("wrong", WRONG_SUMS)
    def test_submissions_that_are_lost_doubled_replaced_or_swapped_give_an_error_and_no_number(self, backend, wrong):
        found = engine(backend, "uniform:300" if "run" in wrong else "uniform:16")
        roles = found.roles(sites(3))
        opening = roles.aggregator.start()
        answers = [party.respond(opening) for party in roles.parties]
        for party, answer in zip(roles.parties, answers, strict=True):
            roles.aggregator.receive(party.name, answer)
        total = running_sum(found.keys.public, found.plan.blocks)
        for each in WRONG_SUMS[wrong]([decode(payload_of(answer), tuple[bytes, ...], "") for answer in answers]):
            total.add(each)
        roles.aggregator._side.total = total
        answered = self.end(roles)
        for party in roles.parties:
            with pytest.raises(VerificationError) as caught:
                party.result()
            assert_silent(caught.value)
        # What parties send is the same either way: the aggregator does not learn whether its lie was noticed.
        honest = found.roles(sites(3))
        honest.broadcast(honest.aggregator.start())
        assert answered == self.end(honest) == {b""}

    @staticmethod
    def end(roles: Roles) -> set[bytes]:
        """Play on to the end, and return what parties answer last."""
        while (message := roles.aggregator.finish_round()) is not None:
            roles.messages.clear()
            roles.broadcast(message)
        return {payload_of(answer) for answer in roles.messages[1:]}

    @backends
    def test_another_sessions_result_or_a_damaged_one_gives_an_error_and_no_number(self, backend):
        found = engine(backend)
        ours, theirs = found.roles(sites(3)), found.roles(sites(3))
        for roles in (ours, theirs):
            roles.broadcast(roles.aggregator.start())
        result, other = (roles.aggregator.finish_round() for roles in (ours, theirs))
        with pytest.raises(MessageError, match="message with session"):
            ours.parties[0].respond(other)
        with pytest.raises(MessageError, match="checksum"):
            ours.parties[0].respond(flipped(result, 5000))
        # Under the same keys, but of other secrets; and changed by who sends it.
        for roles, forged in ((ours, payload_of(other)), (theirs, flipped(payload_of(other), 5000))):
            roles.broadcast(changed(result if roles is ours else other, payload=forged))
            self.end(roles)
            for party in roles.parties:
                with pytest.raises(VerificationError) as caught:
                    party.result()
                assert_silent(caught.value)

    @backends
    def test_a_party_with_another_common_secret_stops_the_session(self, backend):
        """Its masks do not vanish with the others', its shares are not of the same numbers, and its word shows it."""
        found = engine(backend)
        roles = found.roles(sites(3))
        task = MaliciousTask(roles.manifest, sites(3)[2])
        roles.parties[2] = Roles(roles.manifest, found.keys, [task], bytes(32)).parties[0]
        roles.broadcast(roles.aggregator.start())
        self.end(roles)
        for party in roles.parties:
            with pytest.raises(VerificationError, match="was given another result than this one") as caught:
                party.result()
            assert caught.value.check == "echo"


def random_split(rng: np.random.Generator, name: str, number: int) -> list[PartyData]:
    """Rows of a bundled set, all or some (at least 100, both labels), dealt to parties in one of four ways."""
    y_true, y_score = bundled(name)
    while True:
        size = len(y_true) if rng.random() < 0.3 else int(10 ** rng.uniform(2, math.log10(len(y_true))))
        rows = rng.permutation(len(y_true))[: max(size, number)]
        if 0 < y_true[rows].sum() < len(rows):
            break
    way = rng.integers(4)
    if way == 1:
        rows = rows[np.argsort(y_score[rows], kind="stable")]
    elif way == 2:
        rows = rows[np.argsort(y_true[rows], kind="stable")]  # parties of one class
    cuts = np.sort(rng.choice(np.arange(1, len(rows)), number - 1, replace=False))
    if way == 3:
        cuts = np.arange(1, number)  # one row each, and one party with nearly everything
    return [
        PartyData.from_arrays(f"site {index}", y_true[piece], y_score[piece])
        for index, piece in enumerate(np.split(rows, cuts))
    ]


@lru_cache(maxsize=2)
def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    rows = pooled(datasets.load(name))
    return rows.y_true, rows.y_score


GRIDS = "uniform:16", "uniform:100", "uniform:1000", "hybrid:2000"


@pytest.mark.backends("one")
@backends
@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
def test_honest_sessions_are_accepted_every_time(backend, grid):
    """1,000 sessions of 2 to 10 parties and 24 of 100, over both bundled sets, on both backends.

    All on the messages and roles of real sessions. The sessions of one grid share a context, made once: session id, and
    so all shares and masks, and the common secret are fresh in each. Splits are random (independent, sorted by score,
    by label, one row each), of all rows or as few as 100. One refusal fails the test.
    """
    most, sessions, large = 100, 125, 3
    found = engine(backend, grid, parties=most)
    rng = np.random.default_rng(len(found.grid))
    for session in range(sessions + large):
        number = int(rng.integers(2, min(most, 10) + 1)) if session < sessions else most
        parties = random_split(rng, datasets.NAMES[session % 2], number)
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert evaluation.verified
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)
            assert evaluation.binning_error == pytest.approx(truth.binning_error, abs=CLOSE)


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
        factors = [task_for(each).runs(bytes(32))[0].factors for each in (genuine, *others)]
        assert len({complex(value) for row in factors for value in row}) == 2 * len(factors)
        manifest = manifest_for(4)
        for mine, theirs in zip(*(task_for(manifest, index).runs(bytes(32)) for index in (0, 3)), strict=True):
            np.testing.assert_array_equal(mine.factors, theirs.factors)
            np.testing.assert_array_equal(mine.order, theirs.order)
