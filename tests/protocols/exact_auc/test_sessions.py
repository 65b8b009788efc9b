"""Exact sessions with real encryption: AUC, half-width, P and N are those of the rows, as integers say."""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError, MessageError, ResultCheckError, VerificationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv import PublicContext
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rlwe.ciphertexts import kind_of
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.packing import pack, unpack
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request
from fhe_auc.sums.proof import Authenticator
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_protocols.exact_auc import result_check
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from tests.support import delong
from tests.support.exact_sessions import (
    GRID,
    PLUGINS,
    Play,
    both_backends,
    both_protocols,
    found_in,
    material_of,
    pairs_of,
    rows,
    slow,
    with_payload,
)
from tests.support.pooled import pooled, pooled_counts, sklearns_auc
from tests.support.wire import LIMIT, flipped, payload_of


@both_backends
def test_as_many_rows_as_there_may_be_come_out_however_the_model_orders_them(backend: str) -> None:
    """The difference is as large as the prime allows, of either sign; with one row more the planner takes another."""
    most = next(n for n in range(2**21, 2**22) if 2 * ((n + 1) ** 2 // 4) >= primes_above(2**41, 1, 8192)[0])
    labels = np.arange(most) < most // 2
    for scores in (labels, ~labels):
        data = [PartyData.from_arrays("site 0", labels, scores.astype(float))]
        (found,) = Play("verified", data, thresholds.uniform(2), max_rows=most, backend=backend).read()
        assert found_in(found) == (Fraction(int(scores[0])), 0, most // 2, most - most // 2)
        assert found.settings["primes"] == 1


@pytest.mark.parametrize(
    ("dataset", "grid"),
    [
        ("credit-default", "uniform:100"),
        *(slow(name, grid) for name in datasets.NAMES for grid in ("hybrid:1000", "hybrid:4000", None)),
    ],
)
def test_auc_and_error_are_near_those_of_rows_the_fraction_the_trapezoids(dataset: str, grid: str | None) -> None:
    parties = datasets.load(dataset)
    found, rows_ = federated_auc(parties, thresholds=grid), pooled(parties)
    assert (found.protocol, found.thresholds) == ("verified", int(grid.split(":")[1]) if grid else 5000)
    assert abs(found.auc - sklearns_auc(parties)) <= min(found.binning_error + 1e-12, 1 if grid else 1e-4)
    if grid is not None:  # by default values that ten rows have are bins of their own
        exact = trapezoid(pooled_counts(parties, thresholds.resolve(grid)))
        assert found.fraction == exact.fraction
        assert found.binning_error <= exact.binning_error
    if grid != "uniform:100":
        expected = delong.of_rows(rows_.y_score[rows_.y_true], rows_.y_score[~rows_.y_true])[1]
        assert found.standard_error == pytest.approx(expected, rel=5e-3 if grid == "hybrid:1000" else 1e-3)


@pytest.mark.parametrize(
    ("value", "why"), [(0, "from 1 to 5"), (9, "from 1 to 5"), ("3", "whole number"), (True, "whole number")]
)
def test_bad_numbers_of_decimals_other_thresholds_and_scores_beyond_0_to_1_are_refused(value: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        federated_auc(rows(2, 11), protocol="verified", round_scores=value)
    for others in ("uniform:100", "quantile:20"):
        with pytest.raises(InputError, match="give no others"):
            federated_auc(rows(2, 12), protocol="verified", round_scores=3, thresholds=others)
    for score in (1.5, 1.0000001, -1e-9):
        data = PartyData.from_arrays("odd", [0, 1], [0.5, score])
        with pytest.raises(InputError, match=f"'odd', row 1: score is {re.escape(repr(score))}, but"):
            federated_auc([data, *rows(1, 13)], protocol="verified", round_scores=2)


@both_protocols
def test_a_manifest_that_rounds_to_other_scores_than_its_thresholds_is_refused(protocol: str) -> None:
    """It would have a result over coarse thresholds say that it is the AUC of finely rounded scores."""
    play = Play(protocol, rows(2, 15), thresholds.decimals(2), options={"round_scores": 2})
    manifest = msgspec.structs.replace(play.manifest, options={"round_scores": 3})
    with pytest.raises(InputError, match="does not fit its round_scores"):
        play.party(play.sites[0], manifest)


@pytest.mark.parametrize(("protocol", "error"), [slow("exact", ResultCheckError), ("verified", VerificationError)])
def test_more_rows_together_give_no_number_and_just_as_many_do(protocol: str, error: type[Exception]) -> None:
    data = rows(20, 10)
    number = sum(len(each.y_true) for each in data)
    found = federated_auc(data, protocol=protocol, thresholds=GRID, max_rows=number)
    assert found_in(found) == pairs_of(data)
    with pytest.raises(error) as caught:  # between sites it is the result that tells
        Play(protocol, data, max_rows=number - 1).read()
    assert caught.value.check == "rows"  # type: ignore[attr-defined]
    assert f"{number:,} rows in all, 1 more than max_rows = {number - 1:,}; give --max-rows" in str(caught.value)
    # Twenty parties of ten rows each where ten are the most: the count would be the same modulo less.
    ten = [PartyData.from_arrays(f"site {number}", [0, 1] * 5, [0.1, 0.9] * 5) for number in range(20)]
    with pytest.raises(error, match="200 rows in all, 190 more than max_rows = 10;"):
        Play(protocol, ten, max_rows=10, min_rows=2).read()


@both_backends
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
def test_a_party_sends_as_many_bytes_as_planned_and_aggregator_s_keys_are_small(protocol: str, backend: str) -> None:
    play = Play(protocol, rows(2, 6), thresholds.hybrid(1000), backend=backend)
    parts = decode(payload_of(play.parties[0].respond(play.aggregator.start())), tuple[bytes, ...], "submission")
    assert [len(part) for part in parts] == [play.plan.submission_bytes]
    context = public_context(play.session.aggregator_material)[0]
    assert kind_of(context) == "public BFV context"
    polynomial = play.plan.parameters.submission_bytes
    (layout,) = play.plan.layouts
    # One half of a public key and of each ciphertext of the opening, and nothing else of their size.
    assert 0 < len(play.session.aggregator_material) - (1 + layout.ciphertexts) * polynomial < polynomial / 2
    names = tuple(f"site {party}" for party in range(100))
    request = Request(parties=names, thresholds=thresholds.hybrid(4000), backend=backend)
    assert len(Consortium(names).seal(play.plugin.prepare(request)).aggregator) <= 2_000_000


Spoil = Callable[[Any], Any]


def submission_of(play: Play) -> tuple[str, bytes]:
    """What the first party submits; the others' are in."""
    first, *others = play.answers(play.aggregator.start()).items()
    for name, submission in others:
        play.aggregator.receive(name, submission)
    return first


def goes_on(play: Play, name: str, submission: bytes) -> None:
    """Nothing has been lost."""
    play.aggregator.receive(name, submission)
    for found in play.read(play.aggregator.finish_round()):
        assert found_in(found) == pairs_of(play.sites, play.grid)


@pytest.mark.parametrize("protocol", ["exact", slow("verified")])
def test_a_malformed_submission_is_refused_by_name_and_changes_nothing(protocol: str) -> None:
    play = Play(protocol, rows(3, 30), GRID[:11])
    name, submission = submission_of(play)
    spoilt: list[tuple[Spoil, str]] = [
        (lambda parts: (parts[0][:-1],), "expected .* bytes of residues"),
        (lambda parts: (parts[0] + b"\0",), "expected .* bytes of residues"),
        (lambda parts: (b"",), "expected .* bytes of residues"),
        (lambda parts: (), "expected 1 parts, got 0"),
        (lambda parts: parts * 2, "expected 1 parts, got 2"),
        (lambda parts: (b"\xff" * 6 + parts[0][6:],), "residue 0 is not below its modulus"),
        (lambda parts: (parts[0][:-6] + b"\xff" * 5 + b"\x0f",), "residue .* is not below its modulus"),
        (lambda parts: [list(parts), 1], "submission"),
    ]
    if protocol == "exact":  # 22 residues of 42 bits
        spoilt.append(
            (lambda parts: (flipped(parts[0], -1)[:-1] + b"\xf0",), "bits behind the last residue are not zero")
        )
    for spoil, shown in spoilt:
        with pytest.raises(MessageError, match=f"'{name}' refused: .*{shown}"):
            play.aggregator.receive(name, with_payload(submission, spoil))
    goes_on(play, name, submission)


@both_protocols
def test_a_manifest_for_other_sums_or_another_protocol_is_refused(protocol: str) -> None:
    """What a party agrees to release stands in it: neither the key holder nor the aggregator adds to that."""
    play = Play(protocol, rows(3, 34))
    other = "exact" if protocol == "verified" else "verified"
    with pytest.raises(InputError, match=f"not one for protocol '{other}'"):
        PLUGINS[other].party(play.manifest, material_of(play.session)["site 0"], play.sites[0])
    content = msgspec.msgpack.decode(play.manifest.plan.content)
    for change, shown in (({"release": []}, "unknown field `release`"), ({"weights": []}, "unknown field `weights`")):
        plan = msgspec.structs.replace(play.manifest.plan, content=encode({**content, **change}))
        manifest = msgspec.structs.replace(play.manifest, plan=plan)
        for refusing in (play.party, lambda data, manifest: PLUGINS[protocol].aggregator(manifest, b"")):
            with pytest.raises(InputError, match=shown):
                refusing(play.sites[0], manifest)


@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
def test_a_result_of_other_parties_is_refused_and_the_right_one_is_read_then(protocol: str) -> None:
    play = Play(protocol, rows(3, 39))
    good = play.until(2)
    for counted, shown in (
        (("site 1", "site 2"), "'site 0' submitted does not count"),
        (("site 0", "site 1"), "2 parties counted, of 3"),
        ((), "'site 0' submitted does not count"),
        (("site 0", "mallory", "site 2"), "not some of the session's"),
        (("site 0", "site 1", "site 2", "mallory"), "not some of the session's"),
        (("site 1", "site 0", "site 2"), "not some of the session's"),
        (("site 0",) * 3, "not some of the session's"),
    ):
        with pytest.raises(MessageError, match=shown):
            play.parties[0].respond(with_result(good, counted=counted))
    assert [found_in(each) for each in play.read(good)] == [pairs_of(play.sites)] * 3


def test_a_ciphertext_that_cannot_be_the_result_is_refused_and_the_right_one_is_read_then() -> None:
    play, other = Play("exact", rows(3, 39)), Play("exact", rows(3, 39))
    good = play.until(2)
    (part,), foreign = (
        decode(decode(payload_of(message), Result, "").content, tuple[bytes, ...], "")
        for message in (good, other.until(2))
    )
    for content, shown in (
        ((), "a result of 0 ciphertexts, of 1"),
        ((part, b"x"), "a result of 2 ciphertexts, of 1"),
        ((part[:-1],), r"truncated|damaged"),
        (foreign, "another key"),
        ("x", "result"),
    ):
        with pytest.raises(MessageError, match=shown):
            play.parties[0].respond(with_result(good, content=encode(content)))
    with pytest.raises(MessageError, match="checksum"):  # of the message: a ciphertext has none of its own
        play.parties[0].respond(flipped(good, good.index(part) + 5000))
    assert [found_in(each) for each in play.read(good)] == [pairs_of(play.sites)] * 3


def with_result(message: bytes, **changes: Any) -> bytes:
    return with_payload(message, lambda result: msgspec.structs.replace(result, **changes), Result)


@both_backends
def test_a_result_with_another_number_of_primes_kept_is_refused(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play("exact", rows(3, 40), backend=backend)
    dump = PublicContext.dump_result
    with monkeypatch.context() as patched:
        patched.setattr(PublicContext, "dump_result", lambda self, ciphertext, kept=None: dump(self, ciphertext, 2))
        bad = play.until(2)
    party = play.parties[0]
    with pytest.raises(MessageError, match="at most"):
        party.respond(bad)
    party._side.download_limit *= 2
    with pytest.raises(MessageError, match="expected a result in 1 of 3 primes"):
        play.parties[0].respond(bad)


def test_messages_that_name_many_parties_of_the_longest_names_are_within_the_limits() -> None:
    """A character of these takes four bytes."""
    sites = [replace(data, name=f"{chr(0x10330) * 62}{number:02}") for number, data in enumerate(rows(16, 44))]
    play = Play("verified", sites)
    for message in play.messages():
        assert len(payload_of(message)) <= min(party.download_limit for party in play.parties)
    assert [found_in(party.result()) for party in play.parties] == [pairs_of(sites)] * len(sites)


@pytest.mark.parametrize("lying", [None, 0, 1])
def test_a_party_s_last_answer_and_work_tell_no_verdict(lying: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a lie that is right by luck would tell a count: an oracle. There are two primes, of which one fails."""
    play = Play("verified", rows(3, 46), max_rows=10**8)
    assert play.plan.primes == 2
    answers = play.answers(play.aggregator.start())
    if lying is not None:
        first = answers["site 0"]
        prime, size = play.plan.parameters.plain_moduli[lying], play.plan.sizes[lying]

        def shift(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
            values = unpack(parts[lying], size, prime).copy()
            values[0] = (int(values[0]) + 1) % prime
            return tuple(pack(values, prime) if which == lying else part for which, part in enumerate(parts))

        answers["site 0"] = with_payload(first, shift)
    message = play.deliver(play.answers(play.deliver(answers)))  # type: ignore[arg-type]
    calls: list[str] = []
    for owner, name in ((Authenticator, "accepts"), (AnalysisSums, "read_sums"), (result_check, "released")):
        whole = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, whole=whole, name=name: calls.append(name) or whole(*a))
    last = play.parties[1].respond(message)
    assert calls == ["accepts", "accepts", "released", "released", "read_sums"]
    assert Message.from_bytes(last, limit=LIMIT).payload == b""
    if lying is not None:
        with pytest.raises(VerificationError) as caught:
            play.parties[1].result()
        assert caught.value.check == "authenticator"
    else:
        assert found_in(play.parties[1].result()) == pairs_of(play.sites)
