"""What those who work together learn with a helper, and which lies pass: rows of docs/security/promises.md."""

import hashlib
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv, ckks
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import decode, encode, frame, unframe
from fhe_auc.ckks.encoding import coefficients
from fhe_auc.question.analysis import PLAIN
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import centred
from fhe_auc.rlwe.packing import unpack
from fhe_auc.rlwe.polynomials import coefficients_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request, Session
from fhe_auc.sums.expansion import monomials
from fhe_auc.sums.layout import Layout
from fhe_auc.sums.pads import _MAGIC, _digest, _Stored
from fhe_auc.sums.proof import Authenticator
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material, party_secrets, public_context
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles import blobs
from fhe_auc_keys.roles.blobs import blob_info
from fhe_auc_keys.roles.helped import HelpedSecrets, HelpedSubmission, Told
from fhe_auc_keys.roles.helper import HelperMaterial, Response, about_of, response_of
from fhe_auc_keys.trust.sealing import PrivateKeys, unseal_under
from fhe_auc_protocols.exact_auc.computations import ExactComputation
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from tests.support.bfv_contexts import unflooded
from tests.support.exact_sessions import GRID, Play, all_keys, both_protocols, found_in, material_of, pairs_of, rows
from tests.support.pooled import exact_auc
from tests.support.wire import changed, payload_of

SITES = rows(4, 7)
NAMES = tuple(data.name for data in SITES)
BINS = len(GRID)
MADE_UP = [PartyData.from_arrays(name, [0] * 30 + [1] * 30, [0.05] * 30 + [0.95] * 30) for name in NAMES]


def helped(protocol: str = "exact", sites: Sequence[PartyData] = SITES, **request: Any) -> Play:
    return Play(protocol, sites, keys="helper", min_parties=2, **request)


def counts_of(data: PartyData) -> list[int]:
    """A party's negatives in each bin, then its positives."""
    found: list[int] = AnalysisSums(PLAIN, BINS, interval=False).sketch(data, GRID, 1000, 2**40).tolist()
    return found


def submitted(play: Play) -> dict[str, HelpedSubmission]:
    """What the parties have sent, as the aggregator has it."""
    return dict(play.aggregator._side.submissions)


def sketches_sent(play: Play) -> list[Any]:
    """The parties' padded sketches, as residues modulo the first prime."""
    computation = ExactComputation(play.manifest)
    return [unpack(each.parts[0], computation.sizes[0], computation.primes[0]) for each in submitted(play).values()]


def read_by(identity: PrivateKeys, play: Play, sent: dict[str, HelpedSubmission]) -> dict[str, list[int]]:
    """Every party's counts, from what it sent and the helper's private key."""
    computation, prime = ExactComputation(play.manifest), play.plan.parameters.plain_moduli[0]
    found = {}
    for index, name in enumerate(NAMES):
        info = blob_info(about_of(play.manifest.digest, name))
        secret = identity.unseal(sent[name].blob, info=info)
        pads = computation.pads([index], [secret[:32]])[0][0]
        padded = unpack(sent[name].parts[0], computation.sizes[0], prime)
        found[name] = modular.subtract(padded, pads, prime)[: 2 * BINS].tolist()
    return found


def private_key(play: Play) -> PrivateKeys:
    return PrivateKeys.from_components(*decode(play.delivery.helper, HelperMaterial, "").keys)


def common_secret(play: Play) -> bytes:
    return decode(play.material[NAMES[0]], HelpedSecrets, "").common_secret


@both_protocols
def test_what_the_aggregator_gets_is_uniform_and_of_one_length_whatever_the_rows_are(protocol: str) -> None:
    lengths = set()
    for sites in (SITES, MADE_UP):
        play = helped(protocol, sites)
        list(play.messages())
        prime = play.plan.parameters.plain_moduli[0]
        for padded, sent in zip(sketches_sent(play), submitted(play).values(), strict=True):
            assert stats.kstest(padded / prime, "uniform").pvalue > 1e-8
            lengths.add(tuple(len(each) for each in (*sent.parts, sent.blob)))
        lengths.add(len(decode(play.aggregator._side._response, Response, "").sealed))
    assert len(lengths) == 2  # of submissions, of responses


def test_a_party_s_blob_is_the_same_whatever_its_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn with the same random numbers: nothing that the helper is given before it opens depends on a row."""
    play = helped()
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(size))
    monkeypatch.setattr(blobs, "seal", lambda key, text, **_: hashlib.sha512(key + text).digest() + text)
    opening = play.aggregator.start()
    answers = (payload_of(play.party(data).respond(opening)) for data in (SITES[0], MADE_UP[0]))
    one, other = (decode(answer, HelpedSubmission, "") for answer in answers)
    assert (one.blob, one.signature) == (other.blob, other.signature)
    assert one.parts != other.parts


def test_the_helper_decrypts_slots_that_are_uniform_but_for_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the aggregator's mask it would read pooled counts: slots hold V·M', and it knows the pads' sum M."""
    masks, mask = [], Layout.mask

    def recording(self: Layout, *given: Any) -> Any:
        masks.append(mask(self, *given))
        return masks[-1]

    play = helped()
    monkeypatch.setattr(Layout, "mask", recording)
    result = decode(payload_of(play.until(3)), Result, "")
    keys = play.helper._side._computation.secret(play.helper._side._kept.context)
    (prime,), (layout,) = play.plan.parameters.plain_moduli, play.plan.layouts
    (part,) = decode(result.content, tuple[bytes, ...], "")
    slots = keys.decrypt(part, 0, play.plan.kept)
    several = np.repeat(layout.widths, layout.widths) > 1
    assert stats.kstest(slots[: len(several)][several] / prime, "uniform").pvalue > 1e-7
    negatives, positives = np.split(np.sum([counts_of(data) for data in SITES], axis=0), 2)
    assert set(layout.totals([slots], prime)[2:4].tolist()) == {negatives.sum(), positives.sum()}
    sent = sum(sketch[: 2 * BINS].astype(object) for sketch in sketches_sent(play))
    counts = np.concatenate([negatives, positives]).astype(object)
    pads = (sent - counts) % prime
    unmasked = modular.subtract(slots, masks[0], prime)[layout.widths[0] :].tolist()  # of the sum "ties"
    wide_bins = BINS - 1  # the last has scores of 1 alone
    of_positives = pads[BINS:][:wide_bins]
    read = [slot * pow(-int(pad), -1, prime) % prime for slot, pad in zip(unmasked, of_positives, strict=False)]
    found = [(each - int(pad)) % prime for each, pad in zip(read, pads[:BINS], strict=False)]
    assert found == negatives[:wide_bins].tolist()


def test_what_the_helper_decrypts_besides_the_released_sums_is_uniform() -> None:
    """The values of the authenticators' polynomials beyond z = 0, over common secrets that it lacks."""
    play = helped("verified")
    (prime, *_), plan = play.plan.parameters.plain_moduli, play.plan
    ((computed,), (values,)) = plan.computed, play.plugin.task(play.manifest, SITES[0]).sketches()
    found = []
    for number in range(100):
        secret = hashlib.sha256(number.to_bytes(4, "big")).digest()
        authenticator = Authenticator(plan.release, secret, bytes(32), 0, prime)
        sketch = authenticator.sketch(0, values, KeyStream(hashlib.sha256(secret).digest()))
        found.append(computed.totals(sketch, prime))
    for each, column in zip(computed.sums, np.array(found).T, strict=True):
        if each.name.endswith(" at 0"):
            assert len(set(column.tolist())) == 1, each.name
        else:
            assert stats.kstest(column / prime, "uniform").pvalue > 1e-7, each.name


def test_a_party_that_listens_opens_no_other_one_s_blob_or_result() -> None:
    play = helped()
    given = decode(payload_of(play.until(4)), Told, "")
    response = decode(given.content, Response, "")
    session = play.manifest.digest
    mine = PrivateKeys.from_components(*decode(play.material[NAMES[1]], HelpedSecrets, "").keys)
    blob = submitted(play)[NAMES[0]].blob
    for name in NAMES[:2]:
        with pytest.raises(TamperedError):
            mine.unseal(blob, info=blob_info(about_of(session, name)))
    associated = response_of(session, given.word.counted, ())
    key = play.parties[1]._side._response_key
    assert unseal_under(key, response.parts[1], response.sealed, associated=associated)
    with pytest.raises(TamperedError):
        unseal_under(key, response.parts[0], response.sealed, associated=associated)


@both_protocols
def test_the_aggregator_and_the_helper_read_every_party_s_counts(protocol: str) -> None:
    play = helped(protocol)
    play.until(2)
    assert read_by(private_key(play), play, submitted(play)) == {data.name: counts_of(data) for data in SITES}


def test_who_recorded_a_session_and_gets_the_helper_s_key_later_reads_every_party_s_counts() -> None:
    """The helper has erased the seeds, but its certificate's key still opens the blobs."""
    play = helped()
    play.read()
    recorded = submitted(play)
    assert play.helper.ended
    assert play.helper._side._kept == type(play.helper._side._kept)()
    assert read_by(private_key(play), play, recorded) == {data.name: counts_of(data) for data in SITES}
    with pytest.raises(TamperedError):
        read_by(PrivateKeys.generate(), play, recorded)


def test_the_aggregator_and_a_party_read_a_few_pooled_counts_of_their_choice() -> None:
    """The aggregator has the pads of some bins decrypted in the place of a sum; four small counts fit into one."""
    play, chosen = helped(), [2, 5, 11, 17]
    play.until(3)
    opening, (prime,), (layout,) = play.aggregator._side.keys, play.plan.parameters.plain_moduli, play.plan.layouts
    public = opening.public
    sent = sum(sketch[: 2 * BINS].astype(object) for sketch in sketches_sent(play))
    # The sum "ties" takes positives and negatives: first −positives, then −negatives, of all pads.
    weights, start = np.zeros(layout.slots, np.uint64), sum(layout.widths[:1])
    totals = np.zeros(len(layout.widths), np.uint64)
    for power, each in enumerate(chosen):
        weights[start + each] = 1 << 10 * power
    totals[1] = sum(int(sent[(each + BINS) % (2 * BINS)]) << 10 * power for power, each in enumerate(chosen)) % prime
    asked = public.sum_of_products(0, opening.ciphertexts[0][:1], [weights])
    flooded = public.flood(asked, layout.mask(KeyStream(bytes(32)), totals, prime))
    lie = Result(NAMES, encode((public.dump_result(flooded, play.plan.kept),)))
    about = play.manifest.protocol, play.manifest.session, 3, "aggregator", play.manifest.digest
    answer = play.helper.respond(Message(*about, encode(lie), (), 0, b"").to_bytes())
    response = decode(payload_of(answer), Response, "")
    key, associated = play.parties[0]._side._response_key, response_of(play.manifest.digest, NAMES, ())
    text = unseal_under(key, response.parts[0], response.sealed, associated=associated)
    (sums,) = decode(text, tuple[bytes, ...], "")
    found = int(np.frombuffer(sums, "<u8")[1])
    pooled = np.sum([counts_of(data) for data in SITES], axis=0)
    assert [found >> 10 * power & 1023 for power in range(len(chosen))] == np.roll(pooled, BINS)[chosen].tolist()
    assert len(sums) == 8 * len(play.plan.computed[0].sums)  # and there are no more than that


@pytest.mark.parametrize("liar", ["aggregator", "helper"])
def test_to_whom_a_party_gives_the_common_secret_any_sums_pass(liar: str) -> None:
    play = helped("verified")
    moduli, plan = play.plan.parameters.plain_moduli, play.plan
    forged = []
    for which, prime in enumerate(moduli):
        authenticator = Authenticator(plan.releases[which], common_secret(play), play.manifest.digest, which, prime)
        made_up = (play.plugin.task(play.manifest, data).sketches()[which] for data in MADE_UP)
        sketches = [
            authenticator.sketch(party, each, KeyStream(bytes([party]) * 32)) for party, each in enumerate(made_up)
        ]
        forged.append(plan.computed[which].totals(modular.total(np.array(sketches), prime, axis=0), prime))
    message = play.until(3)
    if liar == "helper":
        play.helper._side._computation.decrypt = lambda keys, result: forged
    else:
        public = play.aggregator._side.keys.public
        masks = (
            layout.mask(KeyStream(bytes(32)), *own) for layout, *own in zip(plan.layouts, forged, moduli, strict=True)
        )
        nothing = [public.sum_of_products(which, [], []) for which in range(len(moduli))]
        encrypted = map(public.flood, nothing, masks)
        parts = tuple(public.dump_result(each, plan.kept) for each in encrypted)
        message = changed(message, payload=encode(Result(NAMES, encode(parts))))
    for found in play.read(message):
        assert found_in(found) == pairs_of(MADE_UP)
        assert found.verified


def counting(play: Play, *, without: tuple[str, ...]) -> Any:
    """A party's result of a session in which these answer nothing."""
    list(play.messages(without))
    return next(party for party in play.parties if party.name not in without).result()


def test_parties_that_collude_count_for_the_least_number_and_so_may_be_alone_with_one() -> None:
    """Two must count: with one of them in the aggregator's hands, the pool is the other."""
    found = counting(helped(), without=NAMES[2:])
    assert found.positives - int(SITES[0].y_true.sum()) == int(SITES[1].y_true.sum())


def test_two_sessions_whose_lists_differ_in_a_party_tell_how_many_rows_of_each_label_it_has() -> None:
    (everybody, *_), others = helped().read(), counting(helped(), without=NAMES[3:])
    assert everybody.positives - others.positives == int(SITES[3].y_true.sum())
    assert everybody.negatives - others.negatives == int((~SITES[3].y_true).sum())


def test_a_party_that_the_helper_leaves_out_is_named_and_the_others_read_what_is_right_without_it() -> None:
    play = helped("verified")
    secrets_of = play.helper._side.secret_in
    play.helper._side.secret_in = lambda blob: None if blob.party == NAMES[2] else secrets_of(blob)
    list(play.messages())
    record = play.aggregator.result()
    assert (record.missing, set(dict(record.refused))) == ((NAMES[2],), {NAMES[2]})
    for number in (0, 1, 3):
        found = play.parties[number].result()
        assert found_in(found) == pairs_of([*SITES[:2], SITES[3]])
        assert found.parties == 3


def test_a_helper_that_had_a_digest_of_a_padded_sketch_would_find_the_row_of_a_party_with_one_row() -> None:
    """It knows the pad, so it tries all rows. It is given no such digest."""
    row = PartyData.from_arrays(NAMES[0], [1], [0.55])
    play = helped("exact", [row, *SITES[1:]])
    question = play.until(2)
    sent = submitted(play)[NAMES[0]]
    digest = hashlib.sha256(encode(sent.parts)).digest()
    computation = ExactComputation(play.manifest)
    info = blob_info(about_of(play.manifest.digest, NAMES[0]))
    seed = private_key(play).unseal(sent.blob, info=info)[:32]

    def digest_of(label: int, score: float) -> bytes:
        guess = PartyData.from_arrays(NAMES[0], [label], [score])
        parts = computation.under_pad(0, seed, play.plugin.task(play.manifest, guess).encode(b"")).parts
        return hashlib.sha256(encode(parts)).digest()

    tried = [(label, score / 100) for label in (0, 1) for score in range(101)]
    found = [each for each in tried if digest_of(*each) == digest]
    assert (1, 0.55) in found  # and few others of its bin, that have the same signs in all draws
    assert len(found) < 9 == sum(GRID[6] <= score < GRID[7] for label, score in tried if label)
    assert digest not in question


SUMS = AnalysisSums(PLAIN, len(GRID), interval=False)


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
        found = np.array(list(map(float, centred(list(coefficients_of(half, phase)), half.moduli))))
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
    computation, (release,) = ExactComputation(play.manifest), play.plan.computed
    own = party_secrets(encode(play.session.common), play.manifest)
    secret, (layout,) = bfv.load_secret(own.context), play.plan.layouts
    pads = computation.sketches(computation.sum_of_pads(enumerate(map(play.session.seeds.get, NAMES))))
    (pad,), (prime,) = pads, play.plan.parameters.plain_moduli
    tags = Authenticator(play.plan.release, own.common_secret, play.manifest.digest, 0, prime)
    slope, at = more * pow(tags._point.item(), -1, prime), release.evaluate(pad, prime)
    vectors = [monomials(total, at, prime) for total in release.sums]
    for total, numbers in zip(release.sums, vectors, strict=True):
        if total.name.startswith("difference at "):
            shift = modular.residues([more - int(total.name[-1]) * slope], prime)
            numbers[-1] = modular.add(numbers[-1], shift, prime)
    ciphertexts = tuple([secret.encrypt(each, 0) for each in layout.monomials(vectors)])
    false = frame(_MAGIC, _Stored(_digest([release]), (ciphertexts,)))
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
    return list(map(unpack, parts, computation.sizes, computation.primes))


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
    stored, layout = unframe(_MAGIC, opening, _Stored, ""), play.plan.layouts[0]
    prime, bins = secret.parameters.plain_moduli[0], len(GRID)
    slots = [
        secret.decrypt(public.dump_result(unflooded(public, public.read_submission(each, 0)), 1), 0, 1)
        for each in stored.ciphertexts[0]
    ]
    # The sum "ties" takes positives and negatives: first −positives, then −negatives, of all pads.
    start, width = sum(layout.widths[:1]), layout.widths[1]
    ties = np.concatenate([each[start : start + width] for each in slots])
    minus_pads = np.concatenate([ties[bins : 2 * bins], ties[:bins]])
    pooled = sum(sent[name][0][: 2 * bins].astype(object) for name in NAMES) + minus_pads.astype(object)
    assert (pooled % prime).tolist() == np.sum(sketches, axis=0)[: 2 * bins].tolist()


def test_what_the_aggregator_and_a_party_have_fits_other_rows_of_every_other_party_as_well() -> None:
    """Two others' sketches change places: under other pads, of the same sum, what was sent and opened is the same."""
    play, sent, sketches = started()
    computation, seeds = ExactComputation(play.manifest), play.session.seeds
    for number, prime in enumerate(play.plan.parameters.plain_moduli):
        told = [modular.residues(np.array(each), prime) for each in sketches]
        pads = [computation.pads([party], [seeds[name]])[number][0] for party, name in enumerate(NAMES)]
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
        pad = computation.pads([party], [play.session.seeds[name]])[0][0]
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
