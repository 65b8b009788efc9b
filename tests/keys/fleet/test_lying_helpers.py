"""A helper that runs other code: it leaves out whom it likes, and is alone with nobody."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.fleet import helper, tables
from fhe_auc_keys.fleet.session import LIST, OPENING, PADS, QUERY, Document, TableFile, blob_about, sealed
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.roles.blobs import secret_in
from fhe_auc_keys.roles.helper import new_pad_key
from fhe_auc_keys.trust.sealing import WRAPPED_BYTES
from fhe_auc_keys.trust.signed_documents import claimed_body, sign_document
from tests.support.fleet_sessions import Play

FLEET = {"number": 6, "least": 5}


def listed(play: Play) -> Document:
    return claimed_body(LIST, tables.read_file(play.place("blobs/list")), Document)


def opened(play: Play, opens: Sequence[int], claimed: int, counting: Collection[int], **other: Any) -> None:
    """Answer as a helper that opens the pads of the rows `opens`, and says what it likes of who counts."""
    session, computation, blobs = play.helper, play.helper.loaded.computation, play.table("blobs")
    digest, seeds, members = session.manifest.digest, list[tuple[int, bytes]](), blobs["member"].tolist()
    for row in opens:
        about = blob_about(digest, members[row], blobs["sketch_digest"][row].tobytes())
        secret = secret_in(blobs["blob"][row].tobytes(), session.identity, about=about)
        assert secret is not None
        seeds.append((members[row], secret[:SEED_BYTES]))
    made = new_pad_key(computation, computation.sum_of_pads(seeds))
    columns = {"member": blobs["member"], "row": blobs["row"], **other}
    columns["verdict"] = np.array([0 if row in counting else 2 for row in range(len(members))], np.uint8)
    columns["part"] = np.zeros((len(members), WRAPPED_BYTES), np.uint8)
    with tables.writing(str(play.file("answers")), tables.ANSWERS) as file:
        file.add(columns)
    files = (TableFile(play.listed.files[0].name, claimed, file.digest.value),)
    opening = sealed(session.announced.aggregator.encryption_key, made.pad_key, digest, PADS)
    body = Document(digest, listed(play).known_by, opening, files, (claimed, 0, 0, 0, 0), made.public)
    tables.write_file(play.place("answers/opening"), sign_document(OPENING, session.identity, body))


@pytest.mark.parametrize(
    ("members", "opens", "counting", "why"),
    [
        pytest.param(range(6), [3], [3], "counts others than it says", id="it claims more than its answers say"),
        pytest.param([3] * 5, [0] * 5, range(5), "counts others than it says", id="copies are one member"),
        pytest.param([3], [0], [0], "counts others than it says", id="more members than are listed"),
        pytest.param(range(6), range(5), range(5), "not about all blobs", id="about other records than it was given"),
    ],
)
def test_a_helper_that_claims_more_than_its_answers_say_gets_no_sum_of_one_device(
    play: Play, members: Sequence[int], opens: Sequence[int], counting: Sequence[int], why: str
) -> None:
    play.write([play.records[each] for each in members])
    play.collect()
    opened(play, opens, 5, counting, **({"row": np.array([0, 1, 2, 3, 4, 4], "<u4")} if "all" in why else {}))
    with pytest.raises(DeserialisationError, match=why):
        play.add()


def test_a_second_answer_is_not_added_up_also_after_collecting_again(play: Play) -> None:
    play.write()
    play.collect()
    opened(play, range(6), 6, range(6))
    play.add()
    before = tables.read_file(play.place("answers/opening")), play.file("answers").read_bytes()
    opened(play, range(5), 5, range(5))
    for again in (True, False):
        with pytest.raises(KeysError, match="a session has one"):
            play.add()
        if again:
            play.collect()
    tables.write_file(play.place("answers/opening"), before[0])
    play.file("answers").write_bytes(before[1])
    assert play.add()


class Interrupted(Workers):
    """After its tasks another process does something."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play, self.word = play, b""

    def map(self, function: Any, parts: Iterable[tuple[object, ...]], *shared: object) -> Iterator[Any]:
        yield from super().map(function, parts, *shared)
        with self.play.vault("trustee").open() as store:
            self.word = helper.end(self.play.helper, store, at=self.play.consortium.at)


def test_a_session_that_is_ended_while_it_is_opened_is_not_opened(play: Play) -> None:
    play.write()
    play.collect()
    play.at_hand = workers = Interrupted(play)
    answer = play.asked()
    assert (answer.opened, answer.document) == (False, workers.word)


def test_the_same_list_with_another_query_is_another_one_and_changes_no_answer(play: Play) -> None:
    play.write()
    play.collect()
    play.open()
    before = play.file("answers").read_bytes()
    key = sealed(play.helper.helper.encryption_key, bytes(32), play.announced.manifest.digest, QUERY)
    other = msgspec.structs.replace(listed(play), sealed=key)
    tables.write_file(play.place("blobs/list"), sign_document(LIST, play.aggregator.identity, other))
    with pytest.raises(KeysError, match="another list"):
        play.asked()
    assert play.file("answers").read_bytes() == before
