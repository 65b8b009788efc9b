"""What those who work together learn, and which lies pass: promises that no other test plays."""

import math
import secrets
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fhe_auc import bfv, ckks
from fhe_auc.base.serialise import decode, encode, frame, unframe
from fhe_auc.ckks.encoding import coefficients
from fhe_auc.question.analysis import PLAIN
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import combined
from fhe_auc.rlwe.polynomials import coefficients_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, Session
from fhe_auc.sums.pads import _MAGIC, _digest, _Stored, unpack
from fhe_auc.sums.proof import Authenticator
from fhe_auc.sums.terms import Layout, monomials
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material, party_secrets, public_context
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.computations import ExactComputation
from tests.support.exact_sessions import GRID, Play, all_keys, material_of, pairs_of, rows
from tests.support.pooled import exact_auc
from tests.support.wire import changed, payload_of

NAMES = ("site 0", "site 1", "site 2", "site 3")
SITES = rows(len(NAMES), 7)
SUMS = AnalysisSums(PLAIN, len(GRID), interval=False)
MADE_UP = [PartyData.from_arrays(name, [0] * 30 + [1] * 30, [0.05] * 30 + [0.95] * 30) for name in NAMES]


def prepared(protocol: str, **options: Any) -> Session:
    return registry.load(protocol).prepare(Request(parties=NAMES, thresholds=GRID, max_rows=2000, options=options))


def first_round(session: Session, given: bytes, parts: dict[str, bytes], sites: list[PartyData]) -> tuple[Any, Any]:
    """An aggregator and parties; these have submitted."""
    plugin = registry.load(session.manifest.protocol)
    aggregator = plugin.aggregator(session.manifest, given)
    parties = [plugin.party(session.manifest, parts[data.name], data) for data in sites]
    opening = aggregator.start()
    for party in parties:
        aggregator.receive(party.name, party.respond(opening))
    return aggregator, parties


def read(aggregator: Any, parties: list[Any], message: bytes | None) -> list[float]:
    """Play on from an aggregator's message; what every party finds."""
    while message is not None:
        for party in parties:
            aggregator.receive(party.name, party.respond(message))
        message = aggregator.finish_round()
    return [party.result().auc for party in parties]


def test_whoever_gets_at_its_contents_reads_another_one_s_ckks_submission() -> None:
    """The aggregator does, which opens its seal, with any party's material or with the key holder's."""
    session = prepared("semi-honest")
    plugin = registry.load("semi-honest")
    opening = plugin.aggregator(session.manifest, session.aggregator_material).start()
    overheard = plugin.party(session.manifest, encode(session.common), SITES[0]).respond(opening)
    own = party_secrets(encode(session.common), session.manifest)
    public, secret = ckks.load_public(session.aggregator_material), ckks.load_secret(own.context)
    expected = plugin.task(session.manifest, SITES[0]).encode(own.common_secret)
    for block, values in zip(decode(payload_of(overheard), tuple[bytes, ...], ""), expected, strict=True):
        half = secret.mask_shape
        phase, second = np.split(public.read_submission(block), 2)
        half.add_in_place(phase, half.multiply(second, secret.secret_words))
        modulus, whole = math.prod(half.moduli), combined(list(coefficients_of(half, phase)), half.moduli)
        found = np.array([float(each - modulus if 2 * each > modulus else each) for each in whole])
        assert np.abs(found / public.parameters.scale - coefficients(values)).max() < 1e-9
        assert np.abs(values).max() >= 1


@pytest.mark.parametrize("protocol", ["malicious", "verified"])
def test_the_aggregator_with_one_party_s_material_passes_off_any_auc(protocol: str) -> None:
    """It plays all parties under the session's keys, with made-up rows, and hands out that result."""
    session = prepared(protocol)
    aggregator, parties = first_round(session, session.aggregator_material, material_of(session), SITES)
    own = party_secrets(encode(session.common), session.manifest)
    context, opening = public_context(session.aggregator_material)
    seeds = {name: secrets.token_bytes(32) for name in NAMES}
    if opening:  # pads of its own, and an opening to match
        computation = ExactComputation(session.manifest)
        pads = computation.sum_of_pads(enumerate(seeds.values()))
        opening = computation.pad_key(computation.secret(own.context), pads)
    parts = {
        name: encode(PartySecrets(own.context, own.common_secret, seeds[name] if opening else b"")) for name in NAMES
    }
    liar, _ = first_round(session, aggregator_material(context, opening), parts, MADE_UP)
    forged = payload_of(liar.finish_round())
    honest = aggregator.finish_round()
    found = read(aggregator, parties, changed(honest, payload=forged))
    assert found == pytest.approx([1.0] * len(NAMES), abs=1e-4)
    assert exact_auc(SITES, GRID) < 0.9
    assert all(party.result().verified for party in parties)


def test_a_key_holder_that_encrypts_a_false_opening_shifts_the_auc_and_every_party_accepts() -> None:
    """It has dealt the pads and the common secret: so it adds to D at z = 0, and nothing at the point of the tags."""
    play, more = Play("verified", SITES), 100
    computation, release = ExactComputation(play.manifest), play.plan.computed
    own = party_secrets(encode(play.session.common), play.manifest)
    secret, layout = bfv.load_secret(own.context), Layout.of(release, play.plan.parameters.slots)
    pads = computation.sketches(computation.sum_of_pads(enumerate(map(play.session.seeds.get, NAMES))))
    ciphertexts: list[bytes] = []
    for which, (pad, prime) in enumerate(zip(pads, play.plan.parameters.plain_moduli, strict=True)):
        tags = Authenticator(play.plan.release, own.common_secret, play.manifest.digest, which, prime)
        slope, at = more * pow(int(tags._point), -1, prime), release.evaluate(pad, prime)
        vectors = [[each for term in total.terms for each in monomials(term, at, prime)] for total in release.sums]
        for total, numbers in zip(release.sums, vectors, strict=True):
            if total.name.startswith("difference at "):
                shift = modular.residues([more - int(total.name[-1]) * slope], prime)
                numbers[-1] = modular.add(numbers[-1], shift, prime)
        ciphertexts += [secret.encrypt(each, which) for each in layout.place(vectors)]
    false = frame(_MAGIC, _Stored(_digest(release), tuple(ciphertexts)))
    context, _ = public_context(play.session.aggregator_material)
    play.aggregator = play.plugin.aggregator(play.manifest, aggregator_material(context, false))
    assert len(list(play.messages())) == play.aggregator.rounds
    _, _, positives, negatives = pairs_of(SITES)
    for party in play.parties:
        found = party.result()
        assert found.fraction == pairs_of(SITES)[0] + Fraction(more, 2 * positives * negatives)
        assert (found.verified, found.positives, found.negatives) == (True, positives, negatives)


def padded(play: Play, name: str) -> list[Any]:
    """A party's submission, as the aggregator has it: residues modulo each prime."""
    computation = ExactComputation(play.manifest)
    message = next(party for party in play.parties if party.name == name).respond(play.opening)  # type: ignore[attr-defined]
    parts = decode(payload_of(message), tuple[bytes, ...], "")
    return [unpack(part, computation.size, prime) for part, prime in zip(parts, computation.primes, strict=True)]


def started() -> tuple[Play, dict[str, list[Any]], list[list[int]]]:
    """A session of `exact`, all padded sketches, and the sketches themselves."""
    play = Play("exact", SITES)
    play.opening = play.aggregator.start()  # type: ignore[attr-defined]
    sketches = [play.plugin.task(play.manifest, data).sketches()[0].tolist() for data in SITES]
    return play, {data.name: padded(play, data.name) for data in SITES}, sketches


def test_the_aggregator_and_a_party_decrypt_the_pooled_sketch_from_the_opening() -> None:
    play, sent, sketches = started()
    context, opening = public_context(play.session.aggregator_material)
    own = party_secrets(encode(play.session.common), play.session.manifest)
    public, secret = bfv.load_public(context), bfv.load_secret(own.context)
    stored, layout = unframe(_MAGIC, opening, _Stored, ""), Layout.of(play.plan.computed, secret.parameters.slots)
    prime, bins = secret.parameters.plain_moduli[0], len(GRID)
    slots = [
        secret.decrypt(public.dump_result(public.ciphertext(public.read_submission(each, 0), 0)), 0)
        for each in stored.ciphertexts[: layout.ciphertexts]
    ]
    # The sum "ties" takes the products of positives and negatives: first −negatives, then −positives, of all pads.
    start, width = sum(layout.widths[:1]), layout.widths[1]
    ties = np.concatenate([each[start : start + width] for each in slots])
    minus_pads = ties[: 2 * bins]
    pooled = sum(sent[name][0][: 2 * bins].astype(object) for name in NAMES) + minus_pads.astype(object)
    assert (pooled % prime).tolist() == np.sum(sketches, axis=0)[: 2 * bins].tolist()


def test_what_the_aggregator_and_a_party_have_fits_other_rows_of_every_other_party_as_well() -> None:
    """Two others' sketches change places: under other pads, of the same sum, what was sent and opened is the same."""
    play, sent, sketches = started()
    computation, seeds = ExactComputation(play.manifest), play.session.seeds
    for number, prime in enumerate(play.plan.parameters.plain_moduli):
        told = [modular.residues(np.array(each), prime) for each in sketches]
        pads = [computation.pads(party, seeds[name])[number] for party, name in enumerate(NAMES)]
        for name, sketch, pad in zip(NAMES, told, pads, strict=True):
            assert np.array_equal(modular.add(sketch, pad, prime), sent[name][number])
        swapped = [told[1], told[0], *told[2:]]
        others = [modular.subtract(sent[name][number], each, prime) for name, each in zip(NAMES, swapped, strict=True)]
        assert not np.array_equal(others[0], pads[0])
        total, same = (sum(each.astype(object) for each in these) % prime for these in (pads, others))
        assert total.tolist() == same.tolist()
    for name, own in material_of(play.session).items():
        assert [other for other, seed in seeds.items() if seed in own] == [name]


def test_the_aggregator_and_the_key_holder_read_every_party_s_sketch() -> None:
    play, sent, sketches = started()
    computation = ExactComputation(play.manifest)
    prime = play.plan.parameters.plain_moduli[0]
    for party, (name, sketch) in enumerate(zip(NAMES, sketches, strict=True)):
        pad = computation.pads(party, play.session.seeds[name])[0]
        assert modular.subtract(sent[name][0], pad, prime).tolist() == sketch


@all_keys
def test_all_parties_but_one_learn_how_many_rows_of_each_label_it_has(keys: str) -> None:
    found: Any = Play("exact", SITES, keys=keys).read()[0]
    others = np.concatenate([data.y_true for data in SITES[1:]])
    assert found.positives - int(others.sum()) == int(SITES[0].y_true.sum())
    assert found.negatives - int((~others).sum()) == int((~SITES[0].y_true).sum())


@pytest.mark.parametrize("protocol", ["dpauc-laplace", "dpauc-rr", "ustat-krr"])
def test_counts_that_the_aggregator_makes_up_are_not_noticed(protocol: str) -> None:
    """In place of one party's; which counts it has taken nobody but that party could see, and it is not told."""
    session = prepared(protocol, epsilon=32.0)  # and many rows, so that noise decides nothing
    liar = [*SITES[:3], PartyData.from_arrays(NAMES[3], [0] * 9000 + [1] * 9000, [0.05] * 9000 + [0.95] * 9000)]
    plugin = registry.load(protocol)
    lying, _ = first_round(session, b"", dict.fromkeys(NAMES, b""), liar)
    aggregator, parties = first_round(session, b"", dict.fromkeys(NAMES, b""), SITES)
    honest = aggregator.finish_round()
    assert plugin.encrypts is False
    found = read(aggregator, parties, changed(honest, payload=payload_of(lying.finish_round())))
    assert min(found) > 0.9 > exact_auc(SITES, GRID)


def test_an_aggregator_of_exact_reads_off_the_published_auc_what_share_of_negatives_lies_below_a_bin() -> None:
    """It adds 900,000 positives in one bin to the sum: of all rows' AUC hardly anything is left. No role helps it."""
    bins, chosen = len(GRID), 6
    play = Play("exact", SITES, max_rows=1_000_000)
    prime = play.plan.parameters.plain_moduli[0]

    def change(words: list[Any]) -> None:
        words[0][0, bins + chosen] = (int(words[0][0, bins + chosen]) + 900_000) % prime

    play.lie(change)
    published = play.read()[0].auc
    negatives = np.sum([SUMS.sketch(data, GRID, 1000, 2**40) for data in SITES], axis=0)[:bins]
    below = negatives[:chosen].sum() + negatives[chosen] / 2
    assert published == pytest.approx(below / negatives.sum(), abs=1e-4)
    assert abs(published - exact_auc(SITES, GRID)) > 0.01
