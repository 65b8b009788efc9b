"""Sessions that add up vectors, with each kind of keys: exact sums, nothing else for anybody, no lie that passes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError, VerificationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import pack
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import name_of
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc.session.vector_computation import VectorPlan
from fhe_auc.sums.proof import CommonShares
from fhe_auc.sums.vector_sums import _LABEL, MODULUS
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material, public_context
from fhe_auc_keys.roles.helped import HelpedSecrets
from tests.support import random_sites
from tests.support.exact_histogram import rows_by_bin
from tests.support.vector_sessions import GRID, KEYS, VectorPlay
from tests.support.wire import payload_of, told, with_told

SITES = random_sites.sites(3, rows=40, seed=7)
NAMES = tuple(data.name for data in SITES)
WIDE = {"thresholds": np.linspace(0, 1, 400)}
all_keys = pytest.mark.parametrize("keys", KEYS)


def read(outcome: Any) -> Any:
    return np.stack([outcome.histogram.positives, outcome.histogram.negatives])


@all_keys
def test_every_party_is_told_that_sums_are_verified_and_sends_and_gets_what_the_plan_says(keys: str) -> None:
    """Beside names, signatures and envelopes: some 100 bytes more per party."""
    play = VectorPlay(SITES, keys=keys)
    outcomes, plan = play.outcomes(play.until_result()), play.computation.plan
    for found in outcomes.values():
        assert (found.verified, found.backend, found.rounds) == (True, "one-time pads", 2)
        assert found.soundness == pytest.approx(3 / MODULUS**2)
        assert found.as_dict()["verified"]["aggregation"] is True
        assert 0 <= found.upload_bytes_per_party - plan.submission_bytes < 500
        assert 0 <= found.download_bytes_per_party - plan.download_bytes < 1200
    secret = common_secret_of(play)
    for party in play.parties.values():
        shown = " ".join(repr(each) for each in (party, *vars(party).values()) if not isinstance(each, bytes))
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


MOVED = {2: -1, 3: 1}
"""A row from one bin to the next: the number of rows stays."""


def entries(play: VectorPlay, packed: bytes) -> Residues:
    return play.computation.unpacked(0, packed)[0]


def lied(play: VectorPlay, message: bytes, changes: Mapping[int, int] = MOVED) -> bytes:
    """The message with something added to its sum."""
    total = entries(play, told(message, Result).content).copy()
    for place, amount in changes.items():
        total[place] = (int(total[place]) + amount) % MODULUS
    return with_told(message, Result, content=pack(total, MODULUS))


NOISY: dict[str, Any] = {"protocol": "histogram-distributed-dp", "options": {"epsilon": 1.0}, "max_rows": 10**4}


@pytest.mark.parametrize(
    ("asked", "changes"),
    [
        ({"protocol": "boundaries-federated", "options": {"bins": 4}}, MOVED),
        ({**NOISY, "keys": "sealed"}, {4: 3}),
        *(pytest.param({**NOISY, "keys": keys}, {4: 3}, marks=pytest.mark.slow) for keys in KEYS[1:]),
    ],
)
def test_thresholds_and_noisy_counts_are_proved_like_counts_and_a_lie_is_read_by_nobody(
    asked: dict[str, Any], changes: dict[int, int]
) -> None:
    """800 counts of 6,000 rows: not all have no noise, nor outweighs it a class, but for a chance of 10^-12."""
    sites, noisy = SITES, "max_rows" in asked
    if noisy:
        sites, asked = random_sites.sites(3, rows=2000, seed=7), asked | WIDE
    play, lied_to = VectorPlay(sites, **asked), VectorPlay(sites, **asked)
    found = list(play.outcomes(play.until_result()).values())
    assert all(each.verified for each in found)
    message = lied(lied_to, lied_to.until_result(), changes)
    assert all(isinstance(each, VerificationError) for each in lied_to.outcomes(message).values())
    if noisy:
        assert all(np.array_equal(read(each), read(found[0])) for each in found)
        assert not np.array_equal(read(found[0]), sum(rows_by_bin(data, WIDE["thresholds"]) for data in sites))


@all_keys
def test_a_party_s_last_answer_does_not_tell_what_it_found_and_sessions_of_the_same_rows_are_not_alike(
    keys: str,
) -> None:
    play, lied_to = VectorPlay(SITES, keys=keys), VectorPlay(SITES, keys=keys)
    right = play.answers(play.until_result())
    wrong = lied_to.answers(lied(lied_to, lied_to.until_result()))
    assert {payload_of(each) for each in (*right.values(), *wrong.values())} == {b""}
    words = [{tuple(entries(role, each)[:4]) for each in role.sent.values()} for role in (play, lied_to)]
    assert not words[0] & words[1]


def test_the_pads_of_other_parties_than_those_that_count_make_no_number() -> None:
    play = VectorPlay(SITES)
    pads = play.computation.sum_of_pads([(at, play.session.seeds[name]) for at, name in enumerate(NAMES[:2])])
    of_two = play.computation.pad_key(None, pads)
    for bad in (b"short", bytes(len(of_two) - 1) + b"\xff"):  # nor is what is no pad key taken
        with pytest.raises(DeserialisationError):
            play.plugin.aggregator(play.manifest, aggregator_material(b"", bad))
    play.aggregator = play.plugin.aggregator(play.manifest, aggregator_material(b"", of_two))
    outcomes = play.outcomes(play.until_result())
    assert all(isinstance(each, VerificationError) for each in outcomes.values())


@pytest.mark.parametrize("protocol", ["histogram-federated", "verified", "exact"])
def test_with_sealed_keys_all_must_submit_where_parties_pad_and_else_a_helper_opens(protocol: str) -> None:
    """No role takes a manifest that lets parties be away; nor is a session begun without the pad key."""
    plugin: Any = registry.load(protocol)
    request = Request(parties=NAMES, thresholds=GRID, keys="sealed", max_rows=5000)
    for ask in (plugin.plan, plugin.prepare):
        with pytest.raises(InputError, match=r"all parties must submit.* take a helper: .*--keys helper"):
            ask(replace(request, min_parties=2))
    session = plugin.prepare(request)
    fewer = msgspec.structs.replace(session.manifest, min_parties=2)
    material, own = session.delivery().aggregator, session.delivery().parties[NAMES[0]]
    for made in (lambda: plugin.aggregator(fewer, material), lambda: plugin.party(fewer, own, SITES[0])):
        with pytest.raises(InputError, match="all parties must submit"):
            made()
    context, _ = public_context(material)
    with pytest.raises(DeserialisationError):
        plugin.aggregator(session.manifest, context)


def common_secret_of(play: VectorPlay) -> bytes:
    shape: Any = HelpedSecrets if play.manifest.keys == "helper" else PartySecrets
    (secret,) = {decode(own, shape, "").common_secret for own in play.delivery.parties.values()}
    assert len(secret) == 32
    return bytes(secret)


def looks_uniform(words: Residues) -> bool:
    """Seven deviations of the mean of uniform residues: fails by chance once in 10^11."""
    return bool(abs(words.mean() / MODULUS - 0.5) < 7 / np.sqrt(12 * len(words)))


@all_keys
def test_who_lacks_a_party_s_pad_or_the_common_one_sees_uniform_numbers_and_who_has_both_reads_everything(
    keys: str,
) -> None:
    """The aggregator lacks both; a party has the common pads, and whoever opens the key, a helper, has the others.

    That the aggregator and the key holder, or it, the helper and any party, must not collude the documents say.
    """
    play = VectorPlay(SITES, keys=keys, **WIDE)
    seeds: dict[str, bytes] = dict(play.session.seeds) if keys == "sealed" else {}
    if keys == "helper":
        honest = play.helper._side.secret_in
        play.helper._side.secret_in = lambda signed: seeds.setdefault(signed.party, honest(signed))
    result = told(play.until_result(), Result)
    assert set(seeds) == set(NAMES)
    assert looks_uniform(entries(play, result.content))
    size = play.computation.sizes[0]
    shares = CommonShares(common_secret_of(play), play.manifest.digest, _LABEL, "pad", modulus=MODULUS, size=size)
    for index, (name, data) in enumerate(zip(NAMES, SITES, strict=True)):
        sent, own, common = entries(play, play.sent[name]), play.pad(name, seeds[name]), shares.total([index])
        assert looks_uniform(sent)
        assert all(looks_uniform(modular.subtract(sent, pad, MODULUS)) for pad in (own, common))
        bare = modular.subtract(sent, modular.add(own, common, MODULUS), MODULUS)
        np.testing.assert_array_equal(bare[:-2], rows_by_bin(data, WIDE["thresholds"]).ravel())


def test_all_parties_but_one_subtract_their_own_counts() -> None:
    one, two, three = (rows_by_bin(data, GRID) for data in SITES)
    np.testing.assert_array_equal(read(VectorPlay(SITES).first_reads()) - one - two, three)


@pytest.mark.parametrize("protocol", ["histogram-federated", "verified"])
@pytest.mark.parametrize("keys", ["sealed", "helper"])
def test_a_common_secret_that_the_manifest_does_not_name_is_refused_with_every_protocol_and_kind_of_keys(
    protocol: str, keys: str
) -> None:
    """Whoever deals it could give one party another, by which the values that check a result tell its own counts."""
    plugin: Any = registry.load(protocol)
    session = plugin.prepare(Request(parties=NAMES, thresholds=GRID, keys=keys, max_rows=5000))
    material = session.delivery().parties[NAMES[0]]
    shape = HelpedSecrets if keys == "helper" else PartySecrets
    assert name_of(decode(material, shape, "").common_secret) == session.manifest.common_secret
    other = encode(msgspec.structs.replace(decode(material, shape, ""), common_secret=bytes(32)))
    with pytest.raises(InputError, match="the parties' common secret is not that of the manifest"):
        plugin.party(session.manifest, other, SITES[0])


def test_a_million_rows_in_every_bin_fit() -> None:
    """So do ten thousand parties of them, and a hundred of 10^10; what does not fit is refused."""
    for parties, rows in ((100, 10**6), (10_000, 10**8), (100, 10**10)):
        plan = VectorPlan(keys="sealed", thresholds=1000, entries=2000, parties=parties, max_total=rows)
        assert plan.submission_bytes == 10_511
    with pytest.raises(InputError, match="--max-rows"):
        VectorPlan(keys="sealed", thresholds=1000, entries=2000, parties=100, max_total=10**11)
    with pytest.raises(InputError, match="entries must be at least 1"):
        VectorPlan(keys="sealed", thresholds=1000, entries=0, parties=100, max_total=1)


def test_a_manifest_with_a_malformed_analysis_or_of_other_entries_than_are_counted_is_refused_by_every_role() -> None:
    play = VectorPlay(SITES, protocol="boundaries-federated", options={"bins": 4})
    for analysis in ("[]", "{}", "null", "5", '{"models": [1]}', '{"models": []}', '{"cluster": "id"}', "x"):
        hostile = msgspec.structs.replace(play.manifest, options={"bins": 4, "analysis": analysis})
        for call in (play.plugin.analysis_of, lambda manifest: play.plugin.task(manifest, SITES[0])):
            with pytest.raises(InputError, match="malformed way what is counted"):
                call(hostile)
    # A plan of other entries would have a helper expand as many residues as somebody likes.
    play = VectorPlay(SITES, keys="helper")
    plan = msgspec.structs.replace(play.computation.plan, entries=2**20)
    hostile = msgspec.structs.replace(play.manifest, plan=EncodedPlan(plan.kind, encode(plan)))
    for role in (
        lambda: play.plugin.aggregator(hostile, b""),
        lambda: play.plugin.helper(hostile, play.delivery.helper),
        lambda: play.plugin.party(hostile, play.delivery.parties[NAMES[0]], SITES[0]),
    ):
        with pytest.raises(InputError, match="not one for score histograms"):
            role()


def test_no_encryption_library_is_loaded(run_child: Any) -> None:
    code = """
import json, sys
sys.modules["openfhe"] = sys.modules["_sealapi_cpp"] = None  # importing either fails
from tests.keys.roles.test_vector_sessions import KEYS, SITES, VectorPlay
print(json.dumps([len(VectorPlay(SITES, keys=keys).until_result()) > 0 for keys in KEYS]))
"""
    assert run_child(code) == [True, True]
