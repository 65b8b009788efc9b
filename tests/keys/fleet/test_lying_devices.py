"""Devices that run other code: where counts are proved, each is left out and counted, and the others are exact."""

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES, SEED_BYTES
from fhe_auc.rlwe.modular import add, subtract
from fhe_auc.rlwe.packing import unpack
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.fleet import aggregator, tables
from fhe_auc_keys.fleet.aggregator import NO_PROOF, NOT_SEALED
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.session import LIST, QUERY, UNSIGNED, VERDICTS, Document, answers_cipher, next_answers, sealed
from fhe_auc_keys.roles.blobs import bytes_of, totals_of
from fhe_auc_keys.trust.signed_documents import claimed_body, sign_document
from tests.support.fleet_sessions import CAP, GRID, Play, convened, lying, padded, query_listed, sending

FLEET = {"number": 5, "least": 4}
HONEST = 8  # the first devices of a session
FALSE = LIES["party-negative"]


def another(play: Play) -> Announcement:
    return play.opened(convened(play, play.known))


TOLD: dict[str, tuple[Callable[[Play, int], Record], str]] = {
    **{
        name: (partial(lying, lie=lie), NO_PROOF if lie.unbound else NOT_PROVED)
        for name, lie in LIES.items()
        if not (lie.spoils_tags or lie.no_proof)
    },
    "of another session": (
        lambda play, at: play.device(at, announced=another(play)).submit(play.rows[at], b"").record,
        NOT_SEALED,
    ),
    "no proof": (
        lambda play, at: sending(play, at, padded(play, at).parts[0].ljust(play.helper.loaded.inside, b"\0")),
        NO_PROOF,
    ),
    "other parts signed than sent": (
        lambda play, at: sending(play, at, own := padded(play, at), own.proof[:RANDOMNESS_BYTES][::-1]),
        VERDICTS[UNSIGNED],
    ),
    # On its way somebody exchanges its sketch of wrong counts for one of right ones.
    "changed": (
        lambda play, at: lying(play, at, FALSE)._replace(sketch=sending(play, at, padded(play, at)).sketch),
        VERDICTS[UNSIGNED],
    ),
}
"""By a lie's name, what makes the record, and why it does not count."""


def test_every_lie_is_left_out_under_its_reason_and_the_others_have_their_exact_fraction(tmp_path: Path) -> None:
    play = Play(tmp_path, HONEST + len(TOLD), least=HONEST, per_file=20)
    lies = (made(play, index) for index, (made, _) in enumerate(TOLD.values(), HONEST))
    play.write([*(each.record for each in play.submitted[:HONEST]), *lies])
    collected, verdicts = play.to_the_end()
    assert verdicts.pop("counts") == HONEST
    assert play.reads(1, play.rows[:HONEST])
    refused = {why: number for why, (number, _) in collected.refused.items()}
    assert refused | verdicts == Counter(why for _, why in TOLD.values())


def listed_anew(play: Play, *, key: bytes | None = None, **row: bytes) -> bytes:
    """Sign the list of blobs as an aggregator that has another key in it, or something else of member 3.

    Returns the list's digest.
    """
    columns, place = play.table("blobs"), play.place("blobs/list")
    for name, cell in row.items():
        columns[name] = columns[name].copy()
        columns[name][3] = np.frombuffer(cell, np.uint8)
    with tables.writing(str(play.file("blobs")), tables.blobs(play.aggregator.loaded)) as file:
        file.add(columns)
    body = claimed_body(LIST, tables.read_file(place), Document)
    files = (msgspec.structs.replace(body.files[0], digest=file.digest.value),)
    changed = msgspec.structs.replace(body, files=files, sealed=body.sealed if key is None else key)
    tables.write_file(place, sign_document(LIST, play.aggregator.identity, changed))
    return changed.known_by


def test_a_server_can_make_an_honest_proof_fail_and_the_sentence_says_so(play: Play) -> None:
    play.write()
    play.collect()
    hidden = play.table("blobs")["answers"]
    for spoilt in (lambda own: bytes(1) + own[1:], lambda own: own[:SEED_BYTES].ljust(len(own), b"\xff")):
        cipher = partial(answers_cipher, query_listed(play), play.announced.manifest.digest, play.file("").name)
        shown = next_answers(cipher(), hidden).copy()
        shown[3] = np.frombuffer(spoilt(shown[3].tobytes()), np.uint8)
        listed_anew(play, answers=next_answers(cipher(), shown)[3].tobytes())
        assert play.open() == {"counts": 4, NOT_PROVED: 1}
        play.lose("trustee", "fleet")
    assert "or a server made the proof fail" in NOT_PROVED


def test_a_list_without_the_key_of_the_query_is_refused(play: Play) -> None:
    play.write()
    play.collect()
    to, digest = play.helper.helper.encryption_key, play.announced.manifest.digest
    other, of_other_length = (sealed(to, bytes(length), digest, QUERY) for length in (32, 31))
    for key, error in ((b"", TamperedError), (of_other_length, DeserialisationError)):
        listed_anew(play, key=key)
        with pytest.raises(error):
            play.open()
    listed_anew(play, key=other)
    answer = play.asked()
    assert (answer.verdicts, answer.opened) == ({NOT_PROVED: 5}, False)


def test_a_device_and_the_server_together_pass_any_counts(play: Play) -> None:
    """As in Prio: the helper is given answers about other counts than the device has submitted, under the same pad."""
    shown, claimed = padded(play, 3), PartyData.from_arrays("made up", [1] * 30, [1.0] * 30)
    submitted = np.zeros(play.computation.plan.proved.statement.digits, np.uint64)
    length = int(play.computation.plan.proved.statement.lengths[0])
    submitted[(2 * len(GRID) - 1) * length] = claimed.rows  # all in one digit
    false = padded(play, 3, Lie("", digits=lambda digits, _: submitted.reshape(digits.shape)))
    sent = sending(play, 3, false, shown.proof[:RANDOMNESS_BYTES])
    play.write([*play.records[:3], sending(play, 3, shown), play.records[4]])
    play.collect()
    digest = hashlib.sha256(sent.sketch).digest()
    listed = listed_anew(play, sketch_digest=digest, blob=sent.blob, signature=sent.signature)
    assert play.open() == {"counts": 5}
    kept = aggregator._FORMAT.unframe(play.kept("adder"))
    (total,) = totals_of(msgspec.msgpack.decode(kept.total))
    (prime,), (size,) = play.computation.primes, play.computation.sizes
    honest, other = (unpack(each.parts[0], size, prime) for each in (shown, false))
    total = add(subtract(total, honest, prime), other, prime)
    with play.vault("adder").open() as store:
        made = aggregator._FORMAT.frame(aggregator._Added(listed, encode(bytes_of([total])), kept.records))
        store.put("fleet", play.announced.manifest.session.hex(), made, replace=True)
    play.decrypt(play.add())
    assert claimed.rows > CAP
    assert play.reads(0, [*play.rows[:3], claimed, play.rows[4]])
