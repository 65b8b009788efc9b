"""What does not belong into an exact session is refused by name, and nothing is lost; a lie ends in an error.

The party or the aggregator that has refused something goes on afterwards as if it had not come.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError, MessageError, VerificationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv import PublicContext
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc.sums.pads import pack, unpack
from fhe_auc.sums.proof import Authenticator
from fhe_auc_keys.bundles.session_keys import aggregator_material, public_context
from fhe_auc_protocols.exact_auc import computations
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
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
from tests.support.wire import LIMIT, flipped, payload_of

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


# --- Submissions ------------------------------------------------------------------------------------------------------


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
        (lambda parts: (b"\xff" * 6 + parts[0][6:],), "residue 0 is not below its prime"),
        (lambda parts: (parts[0][:-6] + b"\xff" * 5 + b"\x0f",), "residue .* is not below its prime"),
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


# --- Manifests and material -------------------------------------------------------------------------------------------


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


@both_backends
def test_keys_and_openings_of_another_session_are_refused(backend: str) -> None:
    play, other = (Play("verified", rows(3, seed), backend=backend) for seed in (36, 37))
    plugin, manifest = PLUGINS["verified"], play.manifest
    for material in (other.session.aggregator_material, public_context(other.session.aggregator_material)[0]):
        with pytest.raises(InputError, match="fingerprint mismatch"):
            plugin.aggregator(manifest, material)
    with pytest.raises(InputError, match="not those of the manifest"):
        plugin.party(manifest, material_of(other.session)["site 0"], play.sites[0])
    context, opening = public_context(play.session.aggregator_material)
    for spoilt in (public_context(other.session.aggregator_material)[1], opening[:-1], flipped(opening, 999), b"x"):
        with pytest.raises(DeserialisationError):
            plugin.aggregator(manifest, aggregator_material(context, spoilt))
    exact = Play("exact", rows(3, 36), backend=backend)
    with pytest.raises(DeserialisationError, match="for other sums"):
        plugin.aggregator(manifest, aggregator_material(context, public_context(exact.session.aggregator_material)[1]))


def test_an_aggregator_without_a_pad_key_is_not_made() -> None:
    play = Play("exact", rows(3, 38))
    context, _ = public_context(play.session.aggregator_material)
    with pytest.raises(DeserialisationError, match="not a pad key"):
        PLUGINS["exact"].aggregator(play.manifest, context)


# --- Results ----------------------------------------------------------------------------------------------------------


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


# --- Lies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lying", [None, 0, 1])
def test_what_a_party_answers_last_and_what_it_computes_do_not_depend_on_its_verdict(
    lying: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a lie that is right by luck would tell a count: an oracle. There are two primes, of which one fails."""
    play = Play("verified", rows(3, 46), max_rows=10**8)
    assert play.plan.primes == 2
    answers = play.answers(play.aggregator.start())
    if lying is not None:
        first = answers["site 0"]
        prime, size = play.plan.parameters.plain_moduli[lying], play.plan.computed.sketch.size

        def shift(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
            values = unpack(parts[lying], size, prime).copy()
            values[0] = (int(values[0]) + 1) % prime
            return tuple(pack(values, prime) if which == lying else part for which, part in enumerate(parts))

        answers["site 0"] = with_payload(first, shift)
    message = play.deliver(play.answers(play.deliver(answers)))  # type: ignore[arg-type]
    calls: list[str] = []
    for owner, name in ((Authenticator, "accepts"), (AnalysisSums, "read"), (computations, "released")):
        whole = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, whole=whole, name=name: calls.append(name) or whole(*a))
    last = play.parties[1].respond(message)
    assert calls == ["accepts", "accepts", "released", "released", "read"]
    assert Message.from_bytes(last, limit=LIMIT).payload == b""
    if lying is not None:
        with pytest.raises(VerificationError) as caught:
            play.parties[1].result()
        assert caught.value.check == "authenticator"
    else:
        assert found_in(play.parties[1].result()) == pairs_of(play.sites)
