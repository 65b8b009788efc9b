"""What every attack on real ciphertexts comes to: semi-honest parties accept a wrong number, malicious ones do not.

Few trials each. Rows and the attacks' choices are from a seed; keys, and with them what disguises counts, are not.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, get_args

import numpy as np
import pytest
from click.testing import CliRunner
from click.testing import Result as Called

from fhe_auc import ckks
from fhe_auc.base.errors import Check, FheAucError, InputError, VerificationError
from fhe_auc.base.serialise import decode
from fhe_auc.cli import main
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc_benchmarks.attacks.blinded_auc import ciphertexts
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import BlindedView
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES, Lie
from fhe_auc_benchmarks.attacks.laboratory import AttackOutcome
from fhe_auc_protocols.blinded_auc.plan import error_bound
from tests.support.chosen import federated_auc
from tests.support.reachable import reachable

PROTOCOLS = tuple(ciphertexts.PROTOCOLS)
# For every session wrong, unnoticed, and outside what every honest session says.
UNNOTICED = (
    *("add-constant", "scale-last", "scale-corrections", "scale-bin", "zero-slots", "scale-slots"),
    *("replace-with-counts", "chosen-values"),
)
# Wrong, unless the AUC happens to be the same without, or with other, rows; or where a lie on den shows.
MOSTLY_UNNOTICED = ("drop-party", "count-twice", "replay-session", "other-subset", "add-at-position")
# What den's redundancy notices although nobody lies about a class alone.
REDUNDANT = (
    *("turn-all", "scale-runs", "scale-class", "mix-classes", "swap-classes", "zero-class", "conjugate"),
    *("mix-at-position", "square-terms", "turn-slots"),
)
OF_RUNS = ("swap-runs", "repeat-run", "multiply-runs")
CAUGHT_BY_AGREEMENT = (*UNNOTICED, *MOSTLY_UNNOTICED, *REDUNDANT, *OF_RUNS)
FAMILIES = {"scale-last", "mix-classes", "swap-runs", "drop-party", "replace-with-counts", "chosen-values"}
BACKENDS = ckks.available_backends()
pytestmark = pytest.mark.backends("one")  # a lie is a circuit, and what catches it sees numbers
TRIALS = 2


def of_families(names: Sequence[str], quick: Collection[str] = FAMILIES) -> list[Any]:
    """Parameters: one attack of each kind is quick, the others are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def adds_up(outcome: AttackOutcome) -> bool:
    return outcome.passed + outcome.harmless + sum(outcome.refused.values()) == outcome.trials


class Scene:
    """One session, and what parties make of a lie told in it."""

    def __init__(self, protocol: str, backend: str, seed: int = 7) -> None:
        self.keys = ciphertexts.shared_keys(protocol, backend)
        self.generator = np.random.default_rng(seed)
        self.parties = ciphertexts.HonestParties(self.keys, self.generator)

    def aggregator(self, lie: Lie, **options: Any) -> ciphertexts.LyingSealedAggregator:
        options = {"rows": self.parties.rows, **options}
        return ciphertexts.LyingSealedAggregator(
            self.parties.manifest, self.keys.public, lie, generator=self.generator, **options
        )

    def message(self, lie: Lie, **options: Any) -> bytes:
        return self.parties.play(self.aggregator(lie, **options))

    def refusal(self, lie: Lie, **options: Any) -> FheAucError:
        with pytest.raises(FheAucError) as caught:
            self.parties.read(self.message(lie, **options))
        return caught.value


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.backends("all")
def test_a_liar_that_does_not_lie_gives_every_party_the_right_auc(protocol: str, backend: str) -> None:
    scene = Scene(protocol, backend)
    message = scene.message(BlindedView.result)
    assert scene.parties.says_the_same(message)
    last, read = scene.parties.last(message), scene.parties.unrounded(message)
    assert read == pytest.approx(scene.parties.auc, abs=error_bound(scene.parties.plan))
    for party in scene.parties._parties:
        party.respond(last)
        assert party.result().auc == (read if protocol == "malicious" else round(read, party.result().decimals))


def test_what_parties_read_is_alpha_z_squared_beta_z_and_constants(protocol: str, backend: str) -> None:
    """In polynomials: a component is one in y = x^C, C = 4 or 16, and sums are of those where wanted products are."""
    scene = Scene(protocol, backend)
    plan = scene.parties.plan
    components = plan.parameters.components
    alpha, beta = scene.generator.normal(size=(2, plan.squares, components, plan.positions, 2)) @ (1, 1j)
    plus = 1e15 * scene.generator.normal(size=(plan.runs, 2, 2)) @ (1, 1j)
    weights = (dict(enumerate(each.swapaxes(0, 1))) for each in (alpha, beta))
    liar = scene.aggregator(lambda view: view.result(*weights, plus=plus))
    message = Message.from_bytes(scene.parties.play(liar), limit=2**24)
    found = scene.keys.secret.decrypt_sums(decode(message.payload, Result, "result").content, plan.squares)
    z = np.array(scene.parties.summed()).reshape(plan.squares, -1, *beta.shape[1:]).swapaxes(1, 2).reshape(beta.shape)

    def times(left: Any, right: Any) -> Any:
        parts = np.zeros_like(left)
        for one, other in np.ndindex(components, components):
            wrapped = liar._view.roots if one + other >= components else 1
            parts[:, (one + other) % components] += left[:, one] * right[:, other] * wrapped
        return parts

    wanted = [1, 3] if components == 4 else [1, 3, 9, 11]
    sums = (times(alpha, times(z, z)) + times(beta, z))[:, wanted].sum(axis=2) * liar._view.multiplier
    sums = sums.reshape(plus.shape) + plus
    np.testing.assert_allclose(found, sums, rtol=1e-6, atol=1e-6 * np.abs(sums).max())


def test_a_liar_with_the_secrets_of_both_runs_would_pass(backend: str) -> None:
    """What is refused below is not refused for being played badly."""
    scene = Scene("malicious", backend)
    runs = scene.parties._tasks[0].runs(scene.parties._common_secret)
    products = np.array([run.factors * run.common for run in runs])

    def lie(view: BlindedView) -> bytes:
        return view.result(plus=0.01 * 2 * view.multiplier * scene.parties.den * products)

    assert scene.parties.read(scene.message(lie)) == pytest.approx(scene.parties.auc + 0.01, abs=1e-6)


def holds_a_secret(role: object, common_secret: bytes) -> bool:
    return any(
        isinstance(thing, ckks.SecretContext) or (isinstance(thing, bytes) and common_secret in thing)
        for thing in reachable(role)
    )


def test_a_liar_holds_neither_secret_key_nor_common_secret_and_only_parties_both(protocol: str, backend: str) -> None:
    scene = Scene(protocol, backend)
    liar = scene.aggregator(STRATEGIES["scale-last"].lie)
    scene.parties.play(liar)
    common_secret = scene.parties._common_secret
    assert any(thing is scene.keys.public for thing in reachable(liar))
    assert not holds_a_secret(liar, common_secret)
    assert holds_a_secret(scene.parties._parties[0], common_secret)
    assert not holds_a_secret(scene.parties._tasks[0], common_secret)


@pytest.mark.parametrize("name", of_families(CAUGHT_BY_AGREEMENT))
def test_semi_honest_parties_accept_a_wrong_auc(name: str, backend: str) -> None:
    """Unless den loses its redundancy; and of one run there is nothing to swap."""
    outcome = ciphertexts.run(name, "semi-honest", TRIALS, 1, backend=backend)
    if name in UNNOTICED:
        assert outcome == AttackOutcome(TRIALS, passed=TRIALS, changed=TRIALS, harmless=0, refused={})
    elif name in MOSTLY_UNNOTICED:
        assert (outcome.changed, outcome.refused) == (TRIALS, {})
        assert outcome.passed >= 1
    elif name in REDUNDANT:
        assert (outcome.passed, outcome.harmless, outcome.changed) == (0, 0, TRIALS)
        assert outcome.refused.keys() <= {"redundancy", "range"}
    else:
        assert outcome == AttackOutcome(TRIALS, passed=0, changed=0, harmless=TRIALS, refused={})
    assert adds_up(outcome)


@pytest.mark.parametrize("name", of_families(CAUGHT_BY_AGREEMENT))
def test_malicious_parties_see_their_executions_disagree(name: str, backend: str) -> None:
    outcome = ciphertexts.run(name, "malicious", TRIALS, 1, backend=backend)
    assert (outcome.passed, outcome.harmless, outcome.changed) == (0, 0, TRIALS)
    # Without all masks, totals are uniform modulo Q: any check may come first.
    assert outcome.refused.keys() <= {"executions", "equations", "denominator", "range"}


def test_scaling_everything_changes_nothing(protocol: str, backend: str) -> None:
    outcome = ciphertexts.run("scale-all", protocol, TRIALS, 1, backend=backend)
    assert outcome == AttackOutcome(TRIALS, passed=0, changed=0, harmless=TRIALS, refused={})


@pytest.mark.backends("all")
@pytest.mark.parametrize("name", ["small-polynomials", "garbage"])
def test_what_is_no_result_does_not_pass(protocol: str, backend: str, name: str) -> None:
    outcome = ciphertexts.run(name, protocol, 3, 1, backend=backend)
    assert (outcome.passed, outcome.harmless, outcome.changed) == (0, 0, 3)
    assert outcome.refused["message"] == 3 if name == "small-polynomials" else "message" in outcome.refused


@pytest.mark.backends("all")
@pytest.mark.parametrize("name", ["change-coefficient", "flip-bytes"])
def test_other_coefficients_do_not_pass(backend: str, name: str) -> None:
    """Where it is one of c₁, the key may have zeros where it counts: then nothing has changed."""
    outcome = ciphertexts.run(name, "malicious", 3, 1, backend=backend)
    assert outcome.passed == 0
    assert adds_up(outcome)


def test_an_earlier_result_under_the_same_keys_fools_semi_honest_parties_and_no_malicious_ones(backend: str) -> None:
    outcome = ciphertexts.run("earlier-result", "semi-honest", 4, 1, backend=backend)
    assert outcome.passed >= 1
    assert outcome.refused["message"] >= 1
    assert outcome.changed == 4
    assert adds_up(outcome)
    outcome = ciphertexts.run("earlier-result", "malicious", 4, 1, backend=backend)
    assert (outcome.passed, outcome.harmless, outcome.changed) == (0, 0, 4)
    assert outcome.refused["message"] >= 1


@pytest.mark.parametrize("name", of_families([*CAUGHT_BY_AGREEMENT, "earlier-result"], ("scale-last", "drop-party")))
def test_a_refusal_names_its_check_says_that_no_number_is_given_and_carries_none(name: str) -> None:
    scene = Scene("malicious", BACKENDS[0])
    error = scene.refusal(STRATEGIES[name].lie)
    assert isinstance(error, VerificationError)
    assert error.check in get_args(Check)
    assert "no number is given" in str(error)
    assert not re.search(r"\d", str(error).replace("between 0 and 1", ""))


def demo(*arguments: str) -> Called:
    return CliRunner().invoke(main, ["demo", "--backend", "tenseal", *arguments])


SMALL = ("--dataset", "credit-default", "--thresholds", "uniform:25")


def test_the_demo_shows_a_lie_being_caught_by_its_check_and_ends_with_status_1() -> None:
    result = demo(*SMALL, "--protocol", "malicious", "--cheat", "add-constant")
    assert (result.exit_code, result.stderr) == (1, "")
    text = " ".join(result.stdout.split())
    for said in (
        "add-constant, add constants",
        "the AUCs of both runs disagree",
        "AUC, encrypted none no number is released",
        "AUC, pooled rows 0.634744",
    ):
        assert said in text


def test_a_lie_that_cannot_be_told_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", None)
    result = demo("--protocol", "semi-honest", "--cheat", "nonsense")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no attack 'nonsense' on this protocol; known are scale-all, " in result.stderr


def test_protocols_without_attacks_and_demos_without_a_cheat_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = demo("--protocol", "histogram-federated", "--cheat", "scale-all")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: no attacks on protocol 'histogram-federated' are installed\n"
    with pytest.raises(InputError, match="no attacks on protocol 'dpauc-rr' are installed"):
        federated_auc([([0, 1], [0.2, 0.4])], protocol="dpauc-rr", epsilon=8, cheat="scale-all")
    monkeypatch.setattr(datasets, "load", lambda name: [PartyData.from_arrays("one", [1, 1], [0.2, 0.4])] * 1)
    result = demo("--thresholds", "uniform:25")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: the pooled rows hold no negative row")
