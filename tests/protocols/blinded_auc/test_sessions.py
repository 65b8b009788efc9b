"""Both protocols of blinded AUCs: right on every library, and silent where they refuse.

Attacks on what is computed: tests/benchmarks/attacks. At its limits and beyond: test_result_check.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fhe_auc import ckks, federated_auc
from fhe_auc.base.errors import (
    EvaluationError,
    InputError,
    MessageError,
    ResultCheckError,
    UndefinedAucError,
    VerificationError,
)
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.rlwe.polynomials import Polynomials
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_protocols.blinded_auc.blinded_plan import PRECISION, AucPlan, Workload, smallest_plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonestTask
from tests.support.blinded_auc import encoded, manifest_with
from tests.support.exact_sessions import Play
from tests.support.malicious_sessions import CLOSE, backends, exact, plan_for, request, sites
from tests.support.pooled import sklearns_auc
from tests.support.wire import changed


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
            *(({"tolerance": bad}, "tolerance must lie above 0") for bad in (0, 1)),
            ({"tolerance": 1.1e-3}, "tolerance must lie above 0 and at most at 0.001"),
            ({"tolerance": 1e-15}, "a tolerance of 1e-15; lower max_rows"),
            ({"tolerance": True}, "tolerance"),
        ],
        ids=str,
    )
    def test_options_that_make_no_sense_are_refused_before_there_are_keys(self, options, shown, monkeypatch):
        monkeypatch.setattr(ckks, "generate", None)
        with pytest.raises(InputError, match=re.escape(shown)):
            Malicious().prepare(request(sites(2), options=options))

    def test_nobody_can_be_left_out(self):
        for least in [2, 3]:
            with pytest.raises(InputError, match="min_parties does not apply"):
                Malicious().prepare(request(sites(4), min_parties=least))
        session = Malicious().prepare(request(sites(2), min_parties=2))
        assert session.manifest.min_parties == 2

    def test_manifests_of_other_plans_or_that_leave_parties_out_are_refused(self):
        chosen = smallest_plan(Workload(thresholds=16, parties=5), "tenseal")
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


@pytest.mark.backends("all")
@pytest.mark.parametrize("protocol", ["semi-honest", "malicious"])
def test_every_library_gives_the_exact_auc_and_scikit_learns_where_every_score_is_a_threshold(protocol: str) -> None:
    for decimals, grid in ((2, np.arange(101) / 100), (9, np.arange(16) / 15)):
        parties = [PartyData.from_arrays(s.name, s.y_true, s.y_score.round(decimals)) for s in sites(5, seed=5)]
        truth, without_bins = exact(parties, grid), sklearns_auc(parties)
        assert truth.auc == pytest.approx(without_bins, abs=1e-12 if decimals == 2 else truth.binning_error)
        for backend in ckks.available_backends():
            found = federated_auc(parties, protocol=protocol, thresholds=grid, backend=backend)
            assert (found.backend, found.protocol) == (backend, protocol)
            assert found.numerical_error < 1e-6
            if protocol == "malicious":
                assert abs(found.auc - truth.auc) <= found.numerical_error
                assert found.binning_error == pytest.approx(truth.binning_error, abs=CLOSE)
            assert abs(found.auc - without_bins) <= found.binning_error + CLOSE
            assert found.verified is (protocol == "malicious")


slow = functools.partial(pytest.param, marks=pytest.mark.slow)
semi_honest = functools.partial(federated_auc, protocol="semi-honest")


def test_fewer_rows_than_the_precision_is_stated_for_are_warned_of():
    rows = ([0, 1] * 23, [0.1, 0.9] * 23)
    found = semi_honest([rows, rows], thresholds="uniform:5", min_rows=100)
    assert "fewer than min_rows = 100" in " ".join(found.warnings)


PAIR = ([0, 1], [0.1, 0.9])


def test_parties_or_names_that_are_none_are_refused():
    for parties in [None, 5, [], PAIR[0], "ab"]:
        with pytest.raises(InputError, match=r"list of|no parties|pair"):
            semi_honest(parties)
    twice = [PartyData.from_arrays("north", *PAIR)] * 2
    with pytest.raises(InputError, match="party 'north' is there twice"):
        semi_honest(twice)
    with pytest.raises(InputError, match="party 'NORTH' is there twice, also as 'north'"):
        semi_honest({"north": PAIR, "NORTH": PAIR})
    for name, problem in [
        ("x" * 65, "must have at most 64 characters, got 65"),
        ("half a surrogate \udcff", "must be printable text"),
        (" north", "without blanks at its ends"),
        ("nor\tth", "must be printable text"),
        ("AGGREGATOR", "must not be 'aggregator'"),
        ("Helper-1", "must not be 'helper-1'"),
    ]:
        with pytest.raises(InputError, match=f"the name of a party {problem}|{problem}"):
            semi_honest({name: PAIR})


pytestmark = pytest.mark.backends("one")  # messages, rounds and refusals are the same on each


def well_formed_result(session: Session, draw: Callable[[int, int], Any]) -> bytes:
    """A result of which `draw` chooses coefficients, so many modulo a prime; those of sums first, then polynomials."""
    public = ckks.load_public(session.aggregator_material)
    kept = public.ciphertext_shape.moduli[: public.parameters.kept]
    parts = []
    for size in (4, 8192, 8192):
        shape = Polynomials(size, kept)
        parts.append(shape.pack(np.array([draw(prime, size) for prime in kept], np.uint64)))
    return wrap("result", public.fingerprint, b"".join(parts))


def drawn(seed: int) -> Callable[[int, int], Any]:
    generator = np.random.default_rng(seed)
    return lambda prime, size: generator.integers(0, prime, size, dtype=np.uint64)


def test_well_formed_garbage_gives_no_number_no_second_answer_and_no_verdict(site_rows: list[PartyData]) -> None:
    """Otherwise the aggregator could ask again and again, and would learn one bit about the key each time.

    Nor may it see whether a check has failed, which depends on what it has chosen: one bit of each party.
    """
    play = Play("semi-honest", site_rows, np.linspace(0, 1, 16))
    result = play.deliver(play.answers(play.aggregator.start()))
    assert result is not None
    good_answer = play.parties[2].respond(result)
    for victim, seed in zip(play.parties, (3, 4), strict=False):
        garbage = well_formed_result(play.session, drawn(seed))
        answer = victim.respond(changed(result, payload=encode((play.aggregator.counted, garbage))))
        assert changed(answer, sender="anybody") == changed(good_answer, sender="anybody")
        play.aggregator.receive(victim.name, answer)
        for _ in range(2):
            with pytest.raises((ResultCheckError, UndefinedAucError)):
                victim.result()
            with pytest.raises(MessageError):
                victim.respond(result)
