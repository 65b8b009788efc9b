"""Exact sessions with real encryption: the right fraction always, and an error wherever the aggregator lies."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from fhe_auc import datasets, federated_auc, registry, thresholds
from fhe_auc.bfv import Ciphertext
from fhe_auc.bfv.ciphertext_noise import scaled_noise
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import (
    InputError,
    MessageError,
    ResultCheckError,
    TooFewPartiesError,
    UndefinedAucError,
    VerificationError,
)
from fhe_auc.messages import Message
from fhe_auc.protocol import Request, Session
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.backends import available_backends
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.attacks.cli import attack as attack_command
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES
from fhe_auc_protocols.exact_auc import result_check
from fhe_auc_protocols.exact_auc.encrypted_trapezoid import ExactAggregation
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.planner import plan_exact
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified

BACKENDS = available_backends()
PLUGINS = {"exact": Exact(), "verified": Verified()}
both_backends = pytest.mark.parametrize("backend", BACKENDS)
needs_openfhe = pytest.mark.skipif("openfhe" not in BACKENDS, reason="joint keys need OpenFHE")
both_protocols = pytest.mark.parametrize("protocol", PLUGINS)
GRID = thresholds.uniform(12)


def rows(number: int, seed: int, *, ones: float = 0.4) -> list[PartyData]:
    generator = np.random.default_rng(seed)
    made = []
    for party in range(number):
        labels = generator.random(int(generator.integers(5, 60))) < ones
        made.append(PartyData.from_arrays(f"site {party}", labels, generator.random(len(labels)).round(3)))
    return made


def exact_fraction(parties: Sequence[PartyData], grid: np.ndarray) -> tuple[Fraction, Fraction]:  # type: ignore[type-arg]
    pooled = [count(each, grid) for each in parties]
    found = trapezoid(sum(pooled[1:], pooled[0]))
    return found.fraction, Fraction(found.tie, found.den)


def mann_whitney(y_true: np.ndarray, y_score: np.ndarray) -> Fraction:  # type: ignore[type-arg]
    """The AUC by counting pairs, in integers."""
    values, at = np.unique(y_score, return_inverse=True)
    positives, negatives = (np.bincount(at[y_true == label], minlength=len(values)) for label in (True, False))
    below = np.concatenate([[0], negatives.cumsum()[:-1]])
    return Fraction(int((positives * (2 * below + negatives)).sum()), 2 * int(positives.sum()) * int(negatives.sum()))


def share_of_ties(y_true: np.ndarray, y_score: np.ndarray) -> Fraction:  # type: ignore[type-arg]
    """The share of pairs of a positive and a negative row that have equal scores, by counting them."""
    positives, negatives = Counter(y_score[y_true]), Counter(y_score[~y_true])
    ties = sum(number * negatives[value] for value, number in positives.items())
    return Fraction(ties, positives.total() * negatives.total())


@pytest.fixture(scope="module")
def sessions() -> dict[tuple[str, str], Session]:
    made = {}
    for backend in BACKENDS:
        for name, plugin in PLUGINS.items():
            request = Request(
                parties=tuple(f"site {i}" for i in range(3)), thresholds=GRID, backend=backend, max_rows=1000
            )
            made[name, backend] = plugin.prepare(request)
    return made


def roles_of(protocol: str, session: Session, data: Sequence[PartyData]) -> tuple[Aggregator, list[Party]]:  # type: ignore[type-arg]
    plugin = PLUGINS[protocol]
    aggregator = plugin.aggregator(session.manifest, session.aggregator_material)
    return aggregator, [plugin.party(session.manifest, session.party_material, each) for each in data]


def renewed(session: Session) -> Session:
    """The same keys for another session, as only a test would have it."""
    manifest = msgspec.structs.replace(session.manifest, session=np.random.default_rng().bytes(16))
    return Session(manifest, session.aggregator_material, session.party_material)


def rounds(aggregator: Aggregator, roles: Sequence[Party]) -> Iterator[bytes]:  # type: ignore[type-arg]
    """Play round by round; yields each message of the aggregator before parties answer it."""
    message: bytes | None = aggregator.start()
    while message is not None:
        yield message
        for role in roles:
            aggregator.receive(role.name, role.respond(message))
        message = aggregator.finish_round()


@both_backends
@both_protocols
def test_the_fraction_is_that_of_exact_integers(protocol: str, backend: str, sessions) -> None:  # type: ignore[no-untyped-def]
    for seed in range(3):
        data = rows(3, seed)
        aggregator, roles = roles_of(protocol, renewed(sessions[protocol, backend]), data)
        assert len(list(rounds(aggregator, roles))) == (3 if protocol == "verified" else 2)
        expected, resolution = exact_fraction(data, GRID)
        for role in roles:
            found = role.result()
            assert found.fraction == expected
            assert found.auc == float(expected)
            assert (found.resolution, found.resolution_fraction) == (float(resolution), resolution)
            assert found.as_dict()["resolution_fraction"] == str(resolution)
            assert found.verified is (protocol == "verified")
            assert found.precision == 0.0
        assert aggregator.result().counted == tuple(role.name for role in roles)


@pytest.mark.parametrize("dataset", ["covid-clinics", "credit-default"])
def test_bundled_data_give_scikit_learns_auc_of_rounded_scores_to_the_last_bit(dataset: str) -> None:
    parties = datasets.load(dataset)
    found = federated_auc(parties, protocol="verified", round_scores=3)
    y_true = np.concatenate([each.y_true for each in parties])
    y_score = np.concatenate([each.y_score for each in parties])
    rounded = y_score.round(3)
    assert found.fraction == mann_whitney(y_true, rounded)
    assert found.auc == pytest.approx(roc_auc_score(y_true, rounded), abs=3e-16)
    assert abs(found.auc - roc_auc_score(y_true, y_score)) <= found.resolution
    assert found.resolution_fraction == share_of_ties(y_true, rounded) / 2
    assert found.thresholds == 1001
    assert found.soundness is not None
    assert found.soundness < 2**-38


@both_protocols
@pytest.mark.parametrize("seed", range(3))
def test_the_half_width_holds_for_the_rows_as_they_are_and_not_as_rounded(protocol: str, seed: int) -> None:
    """Scores below 0.05, as of a rare outcome: one decimal ties most pairs, and nearly all that tells them apart."""
    generator = np.random.default_rng(seed)
    y_true = generator.random(120) < 0.3
    y_score = 0.05 * generator.random(120) ** 2 + 0.04 * y_true * generator.random(120)
    parties = [PartyData.from_arrays(f"site {k}", y_true[k::2], y_score[k::2]) for k in range(2)]
    found = federated_auc(parties, protocol=protocol, round_scores=1, backend="tenseal", max_rows=1000)
    truth = roc_auc_score(y_true, y_score)
    assert found.fraction == mann_whitney(y_true, y_score.round(1))
    assert abs(found.auc - truth) > 0.02  # the rounding costs so much, and has to be said
    assert abs(found.auc - truth) <= found.resolution
    assert found.resolution_fraction == share_of_ties(y_true, y_score.round(1)) / 2
    assert found.settings["round_scores"] == 1
    assert "round them to more decimals" in " ".join(found.warnings)


def test_with_default_thresholds_scikit_learns_auc_lies_inside_the_interval() -> None:
    parties = datasets.load("credit-default")
    found = federated_auc(parties, protocol="verified", backend="tenseal")
    y_true = np.concatenate([each.y_true for each in parties])
    y_score = np.concatenate([each.y_score for each in parties])
    assert abs(found.auc - roc_auc_score(y_true, y_score)) <= found.resolution
    assert found.fraction == exact_fraction(parties, thresholds.hybrid())[0]


@pytest.mark.parametrize("bins", [2, 1022, 1023, 3000])
def test_any_number_of_thresholds_gives_the_exact_fraction(bins: int) -> None:
    data = rows(2, bins)
    grid = thresholds.uniform(bins)
    found = federated_auc(data, protocol="verified", thresholds=grid, backend="tenseal", max_rows=1000)
    assert found.fraction == exact_fraction(data, grid)[0]


@pytest.mark.parametrize("number", [1, 2, 30])
def test_any_number_of_parties_gives_the_exact_fraction(number: int) -> None:
    data = rows(number, 70 + number)
    found = federated_auc(data, protocol="verified", thresholds=GRID, max_rows=10_000)
    assert found.fraction == exact_fraction(data, GRID)[0]
    assert found.parties == number


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_sessions_of_2_to_200_parties_are_all_exact(part: int) -> None:
    """A hundred in each part: rows of the bundled data, dealt anew at random to as many parties as are drawn.

    One of them decrypts; that all come to the same is tested elsewhere.
    """
    generator = np.random.default_rng(part)
    pooled = datasets.load(("covid-clinics", "credit-default")[part % 2])
    y_true = np.concatenate([each.y_true for each in pooled])
    y_score = np.concatenate([each.y_score for each in pooled])
    for number in (2 * 100 ** generator.random(100) ** 2).round().astype(int):
        rows_taken = generator.permutation(len(y_true))[: generator.integers(20 * number, 60 * number)]
        data = [
            PartyData.from_arrays(f"site {party}", y_true[chosen], y_score[chosen])
            for party, chosen in enumerate(np.array_split(rows_taken, number))
        ]
        grid = thresholds.hybrid(int(generator.integers(4, 1000)))
        names = tuple(each.name for each in data)
        backend = BACKENDS[int(generator.integers(len(BACKENDS)))]
        session = PLUGINS["verified"].prepare(Request(parties=names, thresholds=grid, backend=backend, max_rows=20_000))
        aggregator, roles = roles_of("verified", session, data)
        for message in rounds(aggregator, roles):
            if aggregator.round == aggregator.rounds:
                roles[0].respond(message)
                break
        if y_true[rows_taken].any():
            assert roles[0].result().fraction == exact_fraction(data, grid)[0]
        else:
            with pytest.raises(UndefinedAucError):
                roles[0].result()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@both_backends
def test_a_session_of_a_thousand_parties_is_exact(backend: str) -> None:
    data = rows(1000, 1000)
    names = tuple(each.name for each in data)
    session = PLUGINS["verified"].prepare(Request(parties=names, thresholds=GRID, backend=backend))
    assert session.manifest.decoded_plan(ExactPlan).decryption_margin > 40
    aggregator, roles = roles_of("verified", session, data)
    list(rounds(aggregator, roles))
    assert {role.result().fraction for role in roles} == {exact_fraction(data, GRID)[0]}


@both_protocols
@pytest.mark.parametrize("ones", [0.0, 1.0])
def test_a_pool_of_one_class_is_undefined_and_nothing_else(protocol: str, ones: float, sessions) -> None:  # type: ignore[no-untyped-def]
    aggregator, roles = roles_of(protocol, renewed(sessions[protocol, BACKENDS[0]]), rows(3, 1, ones=ones))
    list(rounds(aggregator, roles))
    for role in roles:
        said = "is undefined, which is verified;" if protocol == "verified" else "is undefined;"
        with pytest.raises(UndefinedAucError, match=f"one class only, so the AUC {said}"):
            role.result()


@pytest.mark.parametrize("name", [name for name, attack in STRATEGIES.items() if not attack.rotates])
def test_no_lie_on_ciphertexts_passes(name: str) -> None:
    found = ciphertexts.run(name, "verified", 1, seed=3, backend="tenseal")
    assert found.passed == 0
    if name == "scale-all":
        assert found.harmless == found.trials
    else:  # noise that has been spent too: what is decrypted then is not what was computed
        assert found.refused == {"VerificationError": found.trials}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", [name for name, attack in STRATEGIES.items() if not attack.rotates])
@both_backends
def test_no_lie_on_ciphertexts_passes_in_200_sessions(name: str, backend: str) -> None:
    assert ciphertexts.run(name, "verified", 200, seed=4, backend=backend).passed == 0


@pytest.mark.parametrize("name", ["scale-num", "drop-party", "plausible-values", "equal-values", "zeros"])
def test_the_same_lies_pass_where_nothing_is_authenticated(name: str) -> None:
    assert ciphertexts.run(name, "exact", 2, seed=5, backend="tenseal").passed == 2


def joint_roles(protocol: str, data: Sequence[PartyData]) -> tuple[Aggregator, list[Party]]:  # type: ignore[type-arg]
    plugin = PLUGINS[protocol]
    names = tuple(each.name for each in data)
    session = plugin.prepare(Request(parties=names, thresholds=GRID, keys="joint", max_rows=1000))
    delivery = plugin.local_delivery(session)
    aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    return aggregator, [plugin.party(session.manifest, delivery.parties[each.name], each) for each in data]


@needs_openfhe
@both_protocols
def test_with_joint_keys_the_fraction_is_that_of_exact_integers_too(protocol: str) -> None:
    data = rows(3, 20)
    aggregator, roles = joint_roles(protocol, data)
    assert len(list(rounds(aggregator, roles))) == 4
    expected, resolution = exact_fraction(data, GRID)
    for role in roles:
        found = role.result()
        assert (found.fraction, found.resolution) == (expected, float(resolution))
        assert (found.keys, found.verified) == ("joint", protocol == "verified")


@needs_openfhe
@pytest.mark.parametrize("lie", ["scale-num", "zeros"])
def test_with_joint_keys_lies_are_caught_and_the_last_answer_does_not_tell(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ExactAggregation.product

    def lying(self: ExactAggregation, sums: Sequence[tuple[Ciphertext, Ciphertext]]) -> Ciphertext:
        which = sums[0][0].prime
        if lie == "zeros":
            return self.context.encrypt(np.zeros(self.plan.packing.slots, int), which)
        groups, each = self.plan.packing.groups, self.plan.packing.sums
        weights = np.where((groups >= 0) & (groups % each == 0), 9, 10)
        return self.context.multiply_values(honest(self, sums), weights)

    monkeypatch.setattr(ExactAggregation, "product", lying)
    aggregator, roles = joint_roles("verified", rows(3, 21))
    last = next(message for message in rounds(aggregator, roles) if aggregator.round == aggregator.rounds)
    answers = [Message.from_bytes(role.respond(last), limit=2**20) for role in roles]
    assert [each.payload for each in answers] == [b""] * 3
    for role in roles:
        with pytest.raises(VerificationError, match="authenticator does not fit"):
            role.result()


def test_the_attack_command_shows_what_lies_come_to() -> None:
    arguments = ["--protocol", "verified", "--attack", "zeros", "--attack", "guess-point", "--trials", "1"]
    arguments += ["--simulated-trials", "2000"]
    text = CliRunner().invoke(attack_command, arguments, catch_exceptions=False)
    assert text.exit_code == 0
    assert "return zeros, as if the pooled rows had one class only" in text.stdout
    found = json.loads(CliRunner().invoke(attack_command, [*arguments, "--json"], catch_exceptions=False).stdout)
    zeros, guess = found["attacks"]
    assert zeros["ciphertexts"]["exact"]["passed"] == 1
    assert zeros["ciphertexts"]["verified"]["refused"] == {"VerificationError": 1}
    assert guess["ciphertexts"] == {"exact": None, "verified": None}
    assert zeros["simulated"]["one prime"]["passed"] == zeros["simulated"]["toy"]["passed"] == 0
    assert 0 < guess["simulated"]["toy"]["pass_rate"] < 2 * found["toy_bound"]


@pytest.mark.parametrize("option", [("--executions", "4"), ("--tolerance", "1e-5"), ("--thresholds", "uniform:10")])
def test_the_attack_command_ignores_no_option(option: tuple[str, str]) -> None:
    found = CliRunner().invoke(attack_command, ["--protocol", "verified", *option])
    assert found.exit_code == 2
    assert f"{option[0]} is for --protocol malicious only" in found.stderr


@both_backends
@both_protocols
def test_every_result_has_multipliers_masks_and_noise_of_its_own(protocol: str, backend: str, sessions) -> None:  # type: ignore[no-untyped-def]
    """Two results of the same submissions, for each prime, as somebody with the secret key sees them."""
    data = rows(3, 17)
    aggregator, roles = roles_of(protocol, renewed(sessions[protocol, backend]), data)
    opening = aggregator.start()
    for role in roles:
        aggregator.receive(role.name, role.respond(opening))
    aggregation, secret = aggregator.aggregation, roles[0]._context  # type: ignore[attr-defined]
    packing, parameters = aggregation.plan.packing, aggregation.plan.parameters
    pooled = sum((count(each, GRID) for each in data[1:]), count(data[0], GRID))
    groups = packing.groups
    masked = ~np.isin(groups, np.flatnonzero(np.bincount(groups[groups >= 0]) == 1))  # den stands in one slot
    multipliers, bare = [], []
    for which, prime in enumerate(parameters.plain_moduli):
        product = aggregation.product(aggregation.sums(which))
        for made in (aggregation.blinded(product, which) for _ in range(2)):
            slots = secret.decrypt(aggregation.context.dump_result(made), which)
            den = int(packing.totals(slots, prime)[0, -1])
            multipliers.append(den * pow(2 * pooled.positives * pooled.negatives, -1, prime) % prime)
            inverse = np.full(packing.slots, pow(multipliers[-1], -1, prime), np.uint64)
            bare.append(modular.multiply(slots, inverse, prime)[masked])
            noise = scaled_noise(secret, made.words, which)
            spread = np.std(np.array([each / prime for each in noise]) / 2.0**parameters.flooding_bits)
            assert spread == pytest.approx(1 / np.sqrt(3), rel=0.05)
    assert len(set(multipliers)) == 2 * len(parameters.plain_moduli)
    assert min(multipliers) > 1000  # a false alarm in 10^8
    for first, second in zip(bare[::2], bare[1::2], strict=True):
        assert (first != second).all()


def test_parties_that_were_given_different_results_decrypt_neither(sessions, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    session = renewed(sessions["verified", BACKENDS[0]])
    aggregator, roles = roles_of("verified", session, rows(3, 2))
    opening = aggregator.start()
    for role in roles:
        aggregator.receive(role.name, role.respond(opening))
    mine = aggregator.finish_round()
    assert mine is not None
    # Blinded anew, from the same submissions: both results are honest ones.
    aggregator.round -= 1
    other = aggregator._open_next(aggregator._close())  # type: ignore[attr-defined]
    assert other != mine
    for role, message in zip(roles, (mine, other, other), strict=True):
        aggregator.receive(role.name, role.respond(message))
    echoes = aggregator.finish_round()
    assert echoes is not None
    decrypted = []
    monkeypatch.setattr(type(roles[0]._context), "decrypt", lambda *_: decrypted.append(1))  # type: ignore[attr-defined]
    for role in roles:
        role.respond(echoes)
        with pytest.raises(VerificationError, match="was given another result"):
            role.result()
    assert not decrypted


@pytest.mark.parametrize("changed", [lambda echoes: echoes[:-1], lambda echoes: [*echoes, echoes[0]]])
def test_every_party_has_one_echo(changed, sessions) -> None:  # type: ignore[no-untyped-def]
    aggregator, roles = roles_of("verified", renewed(sessions["verified", BACKENDS[0]]), rows(3, 24))
    last = next(message for message in rounds(aggregator, roles) if aggregator.round == 3)
    parsed = Message.from_bytes(last, limit=2**20)
    echoes = decode(parsed.payload, list[bytes], "echoes")
    with pytest.raises(MessageError, match="echoes of"):
        roles[0].respond(msgspec.structs.replace(parsed, payload=encode(changed(echoes))).to_bytes())
    roles[0].respond(last)  # a message that was refused changes nothing
    assert has_result(roles[0])


def test_a_changed_echo_is_named_and_ends_in_no_number(sessions) -> None:  # type: ignore[no-untyped-def]
    aggregator, roles = roles_of("verified", renewed(sessions["verified", BACKENDS[0]]), rows(3, 3))
    for _ in rounds(aggregator, roles):
        if aggregator.round == 3:
            aggregator.round -= 1
            aggregator._echoes["site 1"] = bytes(32)  # type: ignore[attr-defined]
            changed = aggregator._open_next(aggregator._close())  # type: ignore[attr-defined]
            break
    roles[0].respond(changed)
    with pytest.raises(VerificationError, match="'site 1'"):
        roles[0].result()


def test_what_a_party_answers_last_does_not_depend_on_its_verdict(sessions) -> None:  # type: ignore[no-untyped-def]
    """Otherwise a lie that is right by luck would tell a count: an oracle."""
    session, data = sessions["verified", BACKENDS[0]], rows(3, 4)
    answers, accepted = [], []
    for attack in ("scale-all", "forge-num"):
        manifest = session.manifest
        plugin = PLUGINS["verified"]
        aggregator = registry.attacks("verified").aggregator(attack, manifest, session.aggregator_material, rows=100)
        roles = [plugin.party(manifest, session.party_material, each) for each in data]
        message: bytes | None = aggregator.start()
        while message is not None:
            last = [role.respond(message) for role in roles]
            for role, answer in zip(roles, last, strict=True):
                aggregator.receive(role.name, answer)
            message = aggregator.finish_round()
        answers.append(last)
        accepted.append(all(has_result(role) for role in roles))
    assert accepted == [True, False]
    assert answers[0] == answers[1]


def has_result(role: Party) -> bool:  # type: ignore[type-arg]
    try:
        role.result()
    except VerificationError:
        return False
    return True


def test_a_party_answers_every_round_once(sessions) -> None:  # type: ignore[no-untyped-def]
    aggregator, roles = roles_of("verified", renewed(sessions["verified", BACKENDS[0]]), rows(3, 5))
    opening = aggregator.start()
    roles[0].respond(opening)
    with pytest.raises(MessageError):
        roles[0].respond(opening)


def test_what_a_party_draws_itself_is_drawn_anew_and_all_else_is_derived(sessions) -> None:  # type: ignore[no-untyped-def]
    """S and μ: the other parties, who know all that is derived, would find r with them."""
    _, roles = roles_of("verified", renewed(sessions["verified", BACKENDS[0]]), rows(3, 18))
    task, secret = roles[0]._task, roles[0]._common_secret  # type: ignore[attr-defined]
    packing = task.plan.packing
    tags = np.isin(np.arange(packing.slots), np.arange(packing.used - 2 * packing.sums, packing.used))
    for block, ((_, first), (_, second)) in enumerate(zip(task.encode(secret), task.encode(secret), strict=True)):
        left = block % 2 == 0
        assert ((first != second) == (tags & left)).all()


def test_nothing_is_derived_from_a_secret_that_is_missing(sessions) -> None:  # type: ignore[no-untyped-def]
    """Everything else that secrets are derived from is public."""
    session = renewed(sessions["verified", BACKENDS[0]])
    task = ExactTask(session.manifest, rows(3, 19)[0])
    with pytest.raises(ValueError, match="32 bytes"):
        task.encode(b"")


def test_nobody_can_be_left_out(sessions) -> None:  # type: ignore[no-untyped-def]
    session = renewed(sessions["verified", BACKENDS[0]])
    aggregator, roles = roles_of("verified", session, rows(3, 6))
    opening = aggregator.start()
    for role in roles[1:]:
        aggregator.receive(role.name, role.respond(opening))
    with pytest.raises(TooFewPartiesError, match="'site 0'"):
        aggregator.finish_round()
    with pytest.raises(InputError, match="no party can be left out"):
        Verified().prepare(Request(parties=("a", "b", "c"), thresholds=GRID, min_parties=2))
    fewer = msgspec.structs.replace(session.manifest, min_parties=2)
    with pytest.raises(InputError, match="none can be left out"):
        Verified().party(fewer, session.party_material, rows(3, 6)[0])


@both_protocols
def test_more_parties_than_planned_are_refused(protocol: str, sessions) -> None:  # type: ignore[no-untyped-def]
    """The plan's noise is that of fewer, and so is its flooding."""
    session = sessions[protocol, BACKENDS[0]]
    manifest = msgspec.structs.replace(
        session.manifest, parties=(*session.manifest.parties, "site 3"), min_parties=len(session.manifest.parties) + 1
    )
    with pytest.raises(InputError, match="plan is for fewer parties"):
        PLUGINS[protocol].party(manifest, session.party_material, rows(3, 22)[0])
    with pytest.raises(InputError, match="plan is for fewer parties"):
        PLUGINS[protocol].aggregator(manifest, session.aggregator_material)


@both_protocols
@pytest.mark.parametrize("keys", ["sealed", pytest.param("joint", marks=needs_openfhe)])
def test_a_result_for_other_than_all_primes_is_refused(protocol: str, keys: str, sessions, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    whole = ExactAggregation.result
    monkeypatch.setattr(ExactAggregation, "result", lambda self: whole(self)[:-1])
    data = rows(3, 23)
    sealed = renewed(sessions[protocol, BACKENDS[0]])
    aggregator, roles = joint_roles(protocol, data) if keys == "joint" else roles_of(protocol, sealed, data)
    with pytest.raises(MessageError, match="a result of 1 ciphertexts, of 2" if protocol == "verified" else "of 0"):
        list(rounds(aggregator, roles))


def test_keys_of_another_session_or_for_another_plan_are_refused(sessions) -> None:  # type: ignore[no-untyped-def]
    session, exact = sessions["verified", BACKENDS[0]], sessions["exact", BACKENDS[0]]
    other = PLUGINS["verified"].prepare(
        Request(parties=session.manifest.parties, thresholds=GRID, backend=BACKENDS[0], max_rows=1000)
    )
    for material, why in ((other, "fingerprint mismatch"), (exact, "other parameters")):
        with pytest.raises(InputError, match=why):
            Verified().aggregator(session.manifest, material.aggregator_material)
        with pytest.raises(InputError, match="not those of the manifest"):
            Verified().party(session.manifest, material.party_material, rows(3, 25)[0])


def test_two_parties_cannot_have_one_index(sessions) -> None:  # type: ignore[no-untyped-def]
    manifest = sessions["verified", BACKENDS[0]].manifest
    with pytest.raises(InputError, match="no two whose names differ"):
        msgspec.structs.replace(manifest, parties=("site 0", "site 0", "site 2"))


@both_protocols
def test_submissions_of_another_session_with_the_same_keys_are_refused(protocol: str, sessions) -> None:  # type: ignore[no-untyped-def]
    session, data = sessions[protocol, BACKENDS[0]], rows(3, 7)
    earlier, first = roles_of(protocol, renewed(session), data)
    later, _ = roles_of(protocol, renewed(session), data)
    message = first[0].respond(earlier.start())
    later.start()
    with pytest.raises(MessageError, match="session"):
        later.receive("site 0", message)


def test_a_manifest_of_the_other_protocol_is_refused(sessions) -> None:  # type: ignore[no-untyped-def]
    exact, verified = sessions["exact", BACKENDS[0]], sessions["verified", BACKENDS[0]]
    with pytest.raises(InputError, match="not one for protocol 'verified'"):
        Verified().party(exact.manifest, exact.party_material, rows(3, 8)[0])
    with pytest.raises(InputError, match="not one for protocol 'exact'"):
        Exact().aggregator(verified.manifest, verified.aggregator_material)


def test_more_rows_than_the_session_may_have_are_refused() -> None:
    data = PartyData.from_arrays("big", [0, 1] * 600, [0.5] * 1200)
    with pytest.raises(InputError, match="'big' has more rows than the session's max_rows = 1,000"):
        federated_auc([data, *rows(1, 9)], protocol="exact", thresholds=GRID, max_rows=1000)


def test_more_rows_together_than_planned_are_an_error_or_right_but_never_wrong() -> None:
    data = rows(20, 10)
    found = federated_auc(data, protocol="exact", thresholds=GRID, max_rows=10_000)
    assert found.fraction == exact_fraction(data, GRID)[0]
    with pytest.raises(ResultCheckError, match="pooled rows are more than max_rows"):
        federated_auc(data, protocol="exact", thresholds=GRID, max_rows=61)


def test_far_more_rows_than_planned_never_give_a_wrong_fraction() -> None:
    """Where T is scarcely 2·D², one in eight would: each party alone has fewer than max_rows, so nobody can tell."""
    generator = np.random.default_rng(16)
    plan = plan_exact(thresholds=20, parties=40, backend="tenseal", max_rows=1_700_000, authenticated=False)
    primes = plan.parameters.plain_moduli
    for _ in range(500):
        positives, negatives = (int(each) for each in generator.integers(10**7, 3 * 10**7, 2))
        den = 2 * positives * negatives
        num = int(generator.random() * den)
        sums = [num, int(generator.random() * num), den]
        constant = [np.array([each % prime for each in sums], np.uint64) for prime in primes]
        with contextlib.suppress(ResultCheckError):
            assert result_check.fractions(constant, primes, plan.largest_den)[0] == Fraction(num, den)


@pytest.mark.parametrize(
    ("value", "why"), [(0, "from 1 to 5"), (9, "from 1 to 5"), ("3", "whole number"), (True, "whole number")]
)
def test_bad_numbers_of_decimals_are_refused(value: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        federated_auc(rows(2, 11), protocol="verified", round_scores=value)


@pytest.mark.parametrize("others", ["uniform:100", "quantile:20"])
def test_rounded_scores_have_their_own_thresholds(others: str) -> None:
    with pytest.raises(InputError, match="give no others"):
        federated_auc(rows(2, 12), protocol="verified", round_scores=3, thresholds=others)


def test_numbers_may_be_numpys() -> None:
    numbers = {"max_rows": np.int64(1000), "min_rows": np.uint8(2), "round_scores": np.int32(2)}
    found = federated_auc(rows(2, 12), protocol="verified", **numbers)  # type: ignore[arg-type]
    assert found.fraction == federated_auc(rows(2, 12), protocol="verified", round_scores=2).fraction
    with pytest.raises(InputError, match=r"max_rows must be an integer, got 2\.5"):
        federated_auc(rows(2, 12), protocol="verified", max_rows=2.5)  # type: ignore[arg-type]


@both_protocols
def test_results_warn_of_what_the_fraction_tells_and_of_thresholds_that_do_not_fit(protocol: str) -> None:
    coarse, released = federated_auc(rows(2, 12), protocol=protocol, thresholds=[2.0, 3.0]).warnings
    assert "half-width 0.5" in coarse
    assert "how many pooled rows have each label" in released
    assert "equal, nothing helps; where scores differ, take thresholds that fit them" in coarse
    alone = federated_auc(rows(1, 12), protocol=protocol, round_scores=3).warnings
    assert [warning[:23] for warning in alone] == ["there is only one party", "all digits of the AUC a"]


@both_protocols
def test_a_manifest_that_rounds_to_other_scores_than_its_thresholds_is_refused(protocol: str) -> None:
    """It would have a result over coarse thresholds say that it is the AUC of finely rounded scores."""
    plugin, parties = PLUGINS[protocol], ("site 0", "site 1")
    session = plugin.prepare(Request(parties=parties, options={"round_scores": 2}, thresholds=thresholds.decimals(2)))
    manifest = msgspec.structs.replace(session.manifest, options={"round_scores": 3})
    with pytest.raises(InputError, match="does not fit its round_scores"):
        plugin.party(manifest, session.party_material, rows(2, 15)[0])


@pytest.mark.parametrize("score", [1.5, 1.0000001, -1e-9])
def test_scores_outside_the_unit_interval_cannot_be_rounded(score: float) -> None:
    data = PartyData.from_arrays("odd", [0, 1], [0.5, score])
    with pytest.raises(InputError, match=f"'odd', row 1: score is {re.escape(repr(score))};"):
        federated_auc([data, *rows(1, 13)], protocol="verified", round_scores=2)


def test_nothing_secret_is_in_reprs(sessions) -> None:  # type: ignore[no-untyped-def]
    _, roles = roles_of("verified", renewed(sessions["verified", BACKENDS[0]]), rows(3, 14))
    task, secret = roles[0]._task, roles[0]._common_secret  # type: ignore[attr-defined]
    common = task.derived(secret)
    for item in (common, common.of_primes[0], common.pads(0, 0), task, roles[0]):
        text = repr(item)
        assert "array" not in text
        assert str(int(common.of_primes[0].point)) not in text
