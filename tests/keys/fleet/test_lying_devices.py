"""Devices that run other code: where counts are proved, each is left out and counted, and the others are exact."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.aggregator import BlobList
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.fleet_session import LIST, AnswersSeal, Verdict
from fhe_auc_keys.fleet.record_checks import NO_PROOF, NOT_SEALED
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.signed_documents import claimed_body
from tests.support.fleet_sessions import CAP, GRID, Play, convened, padded, sending
from tests.support.wire import flipped

HONEST = 8  # the first devices of a session


def lying(play: Play, index: int, lie: Lie) -> Record:
    """What a device sends whose program lies as a party may, of which `lying_parties` has the lies."""
    return sending(play, index, padded(play, index, lie))


def a_record_of_another_session(play: Play, index: int) -> Record:
    announced = play.opened(convened(play, play.known))
    record = play.device(index, announced=announced).submit(play.rows[index], b"").record
    return record._replace(session=play.announced.manifest.digest)


def no_proof(play: Play, index: int) -> Record:
    inside = len(play.submitted[index].record.sketch) - sealing.OVERHEAD
    return sending(play, index, padded(play, index).parts[0].ljust(inside, b"\0"))


def other_parts_signed_than_sent(play: Play, index: int) -> Record:
    own = padded(play, index)
    return sending(play, index, own, own.proof[32:64] + own.proof[:32])


def changed_on_its_way(play: Play, index: int) -> Record:
    """Its counts are wrong, and somebody exchanges its sketch for one that is right."""
    sketch = sending(play, index, padded(play, index)).sketch
    return lying(play, index, LIES["party-negative"])._replace(sketch=sketch)


TOLD: dict[str, tuple[Callable[[Play, int], Record], str]] = {
    **{
        name: (partial(lying, lie=lie), NO_PROOF if lie.unbound else NOT_PROVED)
        for name, lie in LIES.items()
        if not (lie.spoils_tags or lie.no_proof)
    },
    "a record of another session": (a_record_of_another_session, NOT_SEALED),
    "no proof": (no_proof, NO_PROOF),
    "other parts signed than sent": (other_parts_signed_than_sent, Verdict.UNSIGNED.sentence),
    "changed on its way": (changed_on_its_way, Verdict.UNSIGNED.sentence),
}
"""By a lie's name, what makes the record, and why it does not count."""


def refused(play: Play, *lies: str) -> dict[str, int]:
    """Play a session in which the devices after the honest ones tell these lies; how many are left out for what."""
    records = [play.submitted[index].record for index in range(HONEST)]
    play.write([*records, *(TOLD[lie][0](play, index) for index, lie in enumerate(lies, HONEST))])
    collected, verdicts = play.to_the_end()
    assert verdicts.pop("counts") == HONEST
    assert play.reads(1, play.rows[:HONEST])
    return {**collected.refusals.counts, **verdicts}


def test_every_lie_is_left_out_under_its_reason_and_the_others_have_their_exact_fraction(tmp_path: Path) -> None:
    with Play(tmp_path, HONEST + len(TOLD), least=HONEST) as play:
        assert refused(play, *TOLD) == Counter(why for _, why in TOLD.values())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Play:
    made = Play(tmp_path_factory.mktemp("fleet") / "f", 5, least=4)
    assert made.submitted
    return made


@pytest.fixture
def play(made: Play, tmp_path: Path) -> Iterator[Play]:
    with made.copied(tmp_path) as copied:
        yield copied


def test_of_a_member_s_records_the_first_counts_whose_proof_holds_in_whichever_file(play: Play) -> None:
    lie = lying(play, 2, LIES["party-negative"])
    play.write([lie, *play.records], [lie])
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 5, NOT_PROVED: 2}
    assert play.reads(2, play.rows)


def listed_anew(play: Play, *, key: bytes | None = None, **row: bytes) -> None:
    """Sign the list of blobs as an aggregator that has another key in it, or something else of member 3."""
    place, listed = play.place("blobs/blobs-000000.parquet"), play.place("blobs/list")
    table = tables.rows_in(tables.read_file(place), tables.BLOBS).to_pydict()
    for column, cell in row.items():
        table[column][3] = cell
    tables.write_file(place, data := tables.as_file(list(table.values()), tables.BLOBS))
    body = claimed_body(LIST, tables.read_file(listed), BlobList)
    files = (msgspec.structs.replace(body.files[0], digest=hashlib.sha256(data).digest()),)
    changed = msgspec.structs.replace(body, files=files, key=body.key if key is None else key)
    tables.write_file(listed, play.aggregator.sign(LIST, changed))


def answers_listed(play: Play, changed: Callable[[bytes], bytes]) -> bytes:
    """The aggregator's, about member 3, sealed again once they are changed."""
    table = tables.rows_in(tables.read_file(play.place("blobs/blobs-000000.parquet")), tables.BLOBS)
    seal = AnswersSeal(query_listed(play), play.announced.manifest.digest, "blobs-000000.parquet")
    return seal.seal(3, 3, changed(seal.unseal(3, 3, table.column("answers")[3].as_py())))


def query_listed(play: Play) -> bytes:
    """The key of the query, which the helper alone can unseal."""
    return play.helper.unseal(LIST, claimed_body(LIST, tables.read_file(play.place("blobs/list")), BlobList).key)


def test_a_server_can_make_an_honest_proof_fail_and_the_sentence_says_so(play: Play) -> None:
    play.write()
    play.collect()
    listed_anew(play, answers=answers_listed(play, lambda answers: flipped(answers, 0)))
    _, verdicts = play.open()
    assert verdicts == {"counts": 4, NOT_PROVED: 1}
    assert "or a server made the proof fail" in NOT_PROVED


def test_a_list_without_a_key_or_with_answers_that_are_none_is_refused(play: Play) -> None:
    play.write()
    play.collect()
    right = claimed_body(LIST, tables.read_file(play.place("blobs/list")), BlobList).key
    for key, error in (
        (b"", TamperedError),
        (play.aggregator.seal(LIST, play.helper.helper, bytes(31)), DeserialisationError),
        (play.aggregator.seal(LIST, play.helper.helper, bytes(32)), DeserialisationError),
    ):
        listed_anew(play, key=key)
        with pytest.raises(error):
            play.open()
    play.store.remove("fleet", play.announced.manifest.session.hex())
    listed_anew(play, key=right)
    listed_anew(play, answers=answers_listed(play, lambda answers: answers[1:]))
    with pytest.raises(DeserialisationError, match=r"expected .* bytes"):
        play.open()


def test_a_device_and_the_server_together_pass_any_counts(play: Play) -> None:
    """As in Prio: the helper is given answers about other counts than the device has submitted, under the same pad."""
    shown, claimed = padded(play, 3), PartyData.from_arrays("made up", [1] * 30, [1.0] * 30)
    submitted = np.zeros(play.computation.plan.proved.statement.digits, np.uint64)
    submitted[(2 * len(GRID) - 1) * play.computation.plan.proved.statement.length] = claimed.rows  # all in one digit
    lie = Lie("", digits=lambda digits, _: submitted.reshape(digits.shape))
    sent = sending(play, 3, padded(play, 3, lie), shown.proof[:RANDOMNESS_BYTES])
    play.write([*play.records[:3], sending(play, 3, shown), play.records[4]])
    play.collect()
    digest = hashlib.sha256(sent.sketch).digest()
    listed_anew(play, sketch_digest=digest, blob=sent.blob, signature=sent.signature)
    opening, verdicts = play.open()
    assert verdicts == {"counts": 5}
    play.write([*play.records[:3], sent, play.records[4]])
    play.decrypt(play.add(opening)[0])
    assert claimed.rows > CAP
    assert play.reads(0, [*play.rows[:3], claimed, play.rows[4]])
