"""Sessions of fleets: the exact fraction of the rows of all that count, each once, whatever files and devices do."""

import hashlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES
from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.fleet import Fleet, FleetList, KeyFile
from fhe_auc.results.intervals import HANLEY_MCNEIL
from fhe_auc.rlwe.modular import subtract
from fhe_auc.rlwe.packing import unpack
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES
from fhe_auc_keys.errors import KeysError, TamperedError, UnfitError
from fhe_auc_keys.fleet import aggregator, helper, session, tables
from fhe_auc_keys.fleet.device import Device, Floor
from fhe_auc_keys.fleet.session import AGAIN, UNOPENABLE, UNSIGNED, VERDICTS, FleetSession, loaded, sketch_info
from fhe_auc_keys.roles.blobs import blob_info
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change
from fhe_auc_keys.trust.signed_documents import claimed_body
from tests.support.fleet_sessions import GRID, Play, about, convened, fraction_of, lying, padded, sending, signed
from tests.support.wire import flipped

FLEET = {"number": 8, "per_file": 4}
STRANGER = Ed25519PrivateKey.generate()


@pytest.mark.parametrize("proofs", [True, False], ids=["proved", "not proved"])
@pytest.mark.parametrize("number", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_devices_have_the_exact_fraction_of_all_their_rows(tmp_path: Path, number: int, proofs: bool) -> None:
    play = Play(tmp_path, number, least=number - 10, interval=0.9, proofs=proofs, per_file=16)
    if not proofs:  # places may be URLs
        play.place = lambda name: f"file://{tmp_path}/{name}"  # type: ignore[method-assign]
    play.write()
    collected, verdicts = play.to_the_end()
    assert (collected.records, verdicts) == (number, {"counts": number})
    for index in (0, number // 2, number - 1):
        found = play.read(index)
        assert found.fraction == fraction_of(play.rows)
        assert (found.parties, found.keys) == (number, "helper")
        assert found.as_dict()["verified"] == {"aggregation": False, "parties": proofs and "row caps"}
        assert found.interval is not None
        assert found.interval.method == HANLEY_MCNEIL + WIDENED  # at twelve thresholds


@pytest.mark.parametrize(("members", "caps", "most"), [(10**5, 20, 7700), (10**6, 20, 8500), (10**6, None, 4200)])
def test_a_record_is_small_at_100_thresholds_though_a_seal_takes_1136_bytes(
    members: int, caps: int | None, most: int
) -> None:
    fleet = Fleet(members, bytes(32), row_cap=20)
    request = Request(
        parties=(), fleet=fleet, thresholds=thresholds.uniform(100), max_rows=20 * members, min_parties=2,
        keys="helper", row_caps=caps,
    )  # fmt: skip
    table = tables.records(loaded(registry.load("exact").prepare(request).manifest.to_bytes()))
    assert 4 + sum(each.type.byte_width for each in table if each.name != "member") <= most


def test_records_and_files_that_are_not_whole_are_named_and_the_others_count(play: Play) -> None:
    sent = play.records
    whole = sent[3]
    spoilt = [
        (sending(play, 3, b"\xff" * play.helper.loaded.inside), aggregator.NO_SKETCH),
        (whole._replace(member=8), aggregator.OTHER_FILE),
        (sent[5], aggregator.OTHER_FILE),  # else it could count twice
        (whole._replace(sketch=bytes(len(whole.sketch))), aggregator.NOT_SEALED),
        (whole._replace(member=2), aggregator.NOT_SEALED),
    ]
    tables.write_records(str(play.file("records")), [*(record for record, _ in spoilt), *sent[:3]])
    play.file("records", 1).write_bytes(play.file("records").read_bytes()[:-100])
    shutil.copy(play.file("records"), play.place("records/\u202eother.parquet"))
    refused = play.to_the_end()[0].refused
    number, files = refused.pop(aggregator.UNREADABLE)
    assert (number, "000001.parquet: not a whole file" in "".join(files)) == (2, True)
    assert any("\\u202eother.parquet" in each for each in files)  # and not what a terminal obeys
    assert {why: number for why, (number, _) in refused.items()} == Counter(why for _, why in spoilt)
    assert refused[aggregator.OTHER_FILE][1][0].endswith("000000.parquet, row 1: member 8")
    assert play.reads(0, play.rows[:3])


def test_no_folder_is_written_over_that_is_read(play: Play) -> None:
    play.write()
    Path(play.place("linked")).symlink_to(play.place("records"))
    before = play.file("records").read_bytes()
    for same in ("records", "linked"):
        with pytest.raises(InputError, match="a folder of its own"):
            play.collect(same)
    play.collect()
    for same in ("blobs", "keys"):
        with pytest.raises(InputError, match="a folder of its own"):
            play.asked(answers=same)
    assert play.file("records").read_bytes() == before


def test_blobs_that_do_not_open_are_left_out_and_the_others_count(play: Play) -> None:
    """A foreign key, another's blob, a changed blob, a changed sketch, and a blob that is signed but none."""
    sent = play.records
    sent[0] = signed(play, sent[0], STRANGER)
    sent[1] = sent[1]._replace(blob=sent[2].blob, signature=sent[2].signature)
    sent[3] = sent[3]._replace(blob=flipped(sent[3].blob, -1))
    sent[4] = sent[4]._replace(sketch=play.device(4).submit(play.rows[4], b"").record.sketch)
    own = padded(play, 7)
    to = play.announced.aggregator.encryption_key
    sent[7] = signed(play, sending(play, 7, own), play.keys[7], own.proof[:RANDOMNESS_BYTES], to=to)
    play.write(sent)
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 3, VERDICTS[UNSIGNED]: 4, VERDICTS[UNOPENABLE]: 1}
    assert play.reads(2, [play.rows[each] for each in (2, 5, 6)])
    assert set(play.parts()) == {2, 5, 6}


@pytest.mark.parametrize("batch", [2, 1024])
def test_of_a_member_s_records_the_first_counts_that_opens_and_whose_proof_holds(
    play: Play, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """So nobody takes a member's place by a record of their own; also where they are in batches of their own."""
    monkeypatch.setattr(tables, "BATCH", batch)
    sent, again = play.records, play.device(5).submit(play.rows[5], b"")
    stranger, lie = signed(play, sent[5], STRANGER), lying(play, 5, LIES["party-negative"])
    records = [stranger, lie, sent[5]._replace(sketch=again.record.sketch), *sent, again.record, sent[6], lie]
    play.write(records)
    in_another_file = [sent[2], *(each for each in records if each.member > 3)]
    tables.write_records(str(play.file("records", 1)), in_another_file)
    collected, verdicts = play.to_the_end()
    assert [*collected.refused] == [aggregator.OTHER_FILE]
    assert verdicts == {"counts": 8, VERDICTS[UNSIGNED]: 2, VERDICTS[AGAIN]: 2, NOT_PROVED: 2}
    assert play.reads(5, play.rows)
    with pytest.raises(DeserialisationError, match="not sealed to member 5"):
        play.read(5, again.response_key)


def test_a_device_shows_no_secret_and_with_more_rows_than_the_cap_sends_nothing(play: Play) -> None:
    assert repr(play.submitted[0].response_key) not in repr(play.submitted[0])
    many = PartyData.from_arrays("many", [0, 1] * 7, [0.5] * 14)
    with pytest.raises(InputError, match="member 3 has 14 rows, more than a device's cap, 12"):
        play.device(3).submit(many, b"")


@pytest.mark.parametrize("shift", [(-1, 1), (1, 0), (-100, 100)], ids=["below zero", "a row too many", "moved"])
def test_counts_below_zero_or_of_other_rows_than_there_are_do_not_leave(play: Play, shift: tuple[int, int]) -> None:
    made = loaded(play.announced.manifest.to_bytes())
    task = made.task(made.manifest, play.rows[0])
    encoded = task.encode(b"")
    task.check_counts(encoded)
    empty = int(np.flatnonzero(encoded[0][: 2 * len(GRID)] == 0)[0])
    for values, prime in zip(encoded, made.computation.plan.parameters.plain_moduli, strict=True):
        for place, change in zip((empty, empty - 1), shift, strict=True):
            values[place] = (int(values[place]) + change) % prime
    with pytest.raises(InputError, match=f"does not count its {play.rows[0].rows} rows, so nothing is"):
        task.check_counts(encoded)


def test_a_device_takes_no_part_in_a_session_below_its_floor(play: Play) -> None:
    """Of 1,000 members 20 might be enough, and who convenes plays 19: the floor is the device's own."""
    with pytest.raises(InputError, match="the fleet has 8 members, fewer than this device's floor, 9"):
        play.device(0, Floor(members=9, share=0.25))
    with pytest.raises(InputError, match="2 of 8 members are enough for the session, a smaller share than"):
        play.device(0, Floor(members=8, share=0.5))
    for members, share in ((1, 0.5), (2, 0.0), (2, 1.1), (2, float("nan"))):
        with pytest.raises(InputError, match="a floor has 2 members or more"):
            Floor(members, share)


def test_a_device_answers_once_for_its_rows_however_many_members_there_are(play: Play) -> None:
    """Which records count is the server's choice: two sums that differ in one device tell its counts.

    A session of two models, one of which it has answered, is about the same rows.
    """

    def another(number: int, **request: Any) -> Device:
        return play.device(0, announced=play.opened(convened(play, play.known[:number], **request)))

    rows, memory = play.rows[0], play.submitted[0].memory
    turned = PartyData.from_arrays("other", rows.y_true[::-1], rows.y_score[::-1])
    changed = PartyData.from_arrays("mine", [*rows.y_true, True], [*rows.y_score, 0.5])
    again = another(7).submit(changed, memory).memory
    two = another(7, analysis=Analysis(models=("old", "new")))
    new, newer = (PartyData.from_arrays("mine", rows.y_true, (rows.y_score + 1) / by).y_score for by in (3, 4))
    refused = [(each, turned, memory) for each in (play.device(0), another(8), another(7), another(4))]
    refused += [(another(6), known, again) for known in (rows, changed)]
    for scores in ((rows.y_score, new), (new, rows.y_score)):
        refused.append((two, PartyData("mine", rows.labels, scores), memory))
    for device, data, known in refused:
        with pytest.raises(EvaluationError, match="member 0 has answered"):
            device.submit(data, known)
    assert two.submit(PartyData("mine", rows.labels, (new, newer)), memory).memory
    with pytest.raises(DeserialisationError, match="device's memory"):
        play.device(0).submit(rows, flipped(memory, -1))


def test_members_whom_the_members_file_does_not_name_are_refused_by_all(play: Play) -> None:
    """Else the convener could name a fleet of which it plays all members but one."""
    sybils = np.random.default_rng(0).integers(0, 256, (8, 32)).astype(np.uint8)
    sybils[0] = play.known[0]
    theirs = convened(play, sybils)
    play.opened(theirs)
    play.consortium.change(Change(fleets=[play.listed]))
    why = "does not name the fleet's 8 members"
    with pytest.raises(KeysError, match=why):
        play.opened(theirs)
    others = msgspec.structs.replace(play.fleet, keys=bytes(32)), msgspec.structs.replace(play.fleet, members=9)
    for fleet in others:
        with pytest.raises(KeysError, match=why.replace("8", str(fleet.members))):
            convened(play, fleet)
    play.opened(play.announcement)


def test_who_reads_everything_but_the_aggregator_s_store_reads_no_device_s_counts(play: Play, tmp_path: Path) -> None:
    """With the helper's store it knows all pads, and yet no sketch opens; nor with a device's.

    The helper is given no sketch, and of a sealed one the digest, which is another one each time. And the sum of all
    sketches, beside that of those that count, would be the sketch of a device that does not.
    """
    play.write([*play.records[:5], signed(play, play.records[5], STRANGER), *play.records[6:]])
    play.to_the_end()
    record, info = play.records[5], sketch_info(play.announced.manifest.digest, 5)
    seed = play.helper.identity.unseal(record.blob, info=blob_info(about(play, record)))[:32]
    with pytest.raises(TamperedError):
        play.helper.identity.unseal(record.sketch, info=info)
    inside = play.aggregator.identity.unseal(record.sketch, info=info)
    every_file = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
    total = msgspec.msgpack.decode(aggregator._FORMAT.unframe(play.kept("adder")).total)[0]
    for hidden in (inside[:32], total[:32]):
        assert hidden not in every_file
    assert record.sketch in every_file
    given = b"".join(path.read_bytes() for path in sorted((tmp_path / "blobs").iterdir()))
    assert hashlib.sha256(record.sketch).digest() in given
    for kept in (record.sketch[:32], inside[:32], hashlib.sha256(inside).digest()):
        assert kept not in given
    computation, (prime,), (size,) = play.computation, play.computation.primes, play.computation.sizes
    pad, shown = computation.pads([5], [seed])[0][0, :size], unpack(inside[: computation.part_bytes[0]], size, prime)
    counts = computation.plan.proved.sketch_of(subtract(shown, pad, prime)).tolist()
    assert sum(counts[: 2 * len(GRID)]) == play.rows[5].rows  # so the seal alone keeps them
    assert play.reads(0, play.rows[:5] + play.rows[6:])


def test_what_helper_and_aggregator_send_each_other_opens_for_the_other_alone(play: Play) -> None:
    play.until_opened()
    query, opening = (tables.read_file(play.place(each)) for each in ("blobs/list", "answers/opening"))
    for kind, document, what, recipient, sender in (
        (session.LIST, query, session.QUERY, play.helper, play.aggregator),
        (session.OPENING, opening, session.PADS, play.aggregator, play.helper),
        (session.RESULT, play.add(), session.SUMS, play.helper, play.aggregator),
    ):
        given = claimed_body(kind, document, session.Document).sealed, play.announced.manifest.digest, what
        assert session.unsealed(recipient.identity, *given)
        with pytest.raises(TamperedError):
            session.unsealed(sender.identity, *given)


def test_no_member_that_counts_makes_other_sums_though_it_knows_their_key(play: Play) -> None:
    play.write()
    play.to_the_end()
    digest, member, helper_s = play.announced.manifest.digest, play.submitted[3], play.helper.identity
    content_key = session.opened_part(member.response_key, play.parts()[3], digest, 3)
    for forger, key, why in (
        (Identity.create("member 3"), content_key, "not signed by the session's helper"),
        (play.aggregator.identity, content_key, "not signed by the session's helper"),
        (helper_s, bytes(32), "sealed under another key"),
    ):
        with pytest.raises(DeserialisationError, match=why):
            play.read(0, sums=session.sealed_sums(forger, key, 8, [np.zeros(4, np.uint64)], digest))
    with pytest.raises(DeserialisationError, match="not sealed to member 0"):  # that of another member
        play.read(0, member.response_key)


def test_asked_again_the_helper_gives_the_same_bytes_and_refuses_another_list_to_which_no_answer_fits(
    play: Play, tmp_path: Path
) -> None:
    play.until_opened()
    play.open(answers="again")
    said, again = ((tmp_path / name).iterdir() for name in ("answers", "again"))
    assert {each.name: each.read_bytes() for each in said} == {each.name: each.read_bytes() for each in again}
    (tmp_path / "blobs").rename(tmp_path / "first")
    play.write(play.records[1:])
    play.lose("adder", "list")
    play.collect()
    for step, why in ((play.open, "another list"), (play.add, "other blobs")):
        with pytest.raises(KeysError, match=why):
            step()
    play.open("first")


def test_the_helper_decrypts_one_result_and_then_has_no_key(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash before the key is erased costs nothing: the same result gives the same bytes."""
    play.until_opened()
    content_key, put = helper._FORMAT.unframe(play.kept()).content_key, KeyStore.put
    result, other = play.add(), play.add()

    def full(store: KeyStore, kind: Any, name: str, data: bytes, *, replace: bool = False) -> None:
        if not helper._FORMAT.unframe(data).material:
            raise OSError("no space left")  # where the key is to be erased
        put(store, kind, name, data, replace=replace)

    with monkeypatch.context() as patch:
        patch.setattr(KeyStore, "put", full)
        with pytest.raises(OSError, match="no space left"):
            play.decrypt(result, "lost")
    with pytest.raises(KeysError, match="another result has been decrypted"):
        play.decrypt(other)
    play.decrypt(result)
    assert tables.read_file(play.place("lost/sums")) == tables.read_file(play.place("answers/sums"))
    with pytest.raises(KeysError, match="have been written"):
        play.decrypt(result)
    kept = play.kept()
    assert not any(each in kept for each in (content_key, *(own.response_key for own in play.submitted)))
    play.open()


def test_a_file_of_keys_blobs_or_answers_or_a_document_that_is_another_one_is_refused_by_name(play: Play) -> None:
    play.write([*play.records[:7], signed(play, play.records[7], STRANGER)])
    play.collect()
    listed = r"{}(' is not the file that is listed|: not a whole file)"

    def refused(step: Any, name: str, error: type[Exception], why: str, bad: bytes = b"") -> None:
        whole = (file := play.folder / name).read_bytes()
        for changed in (bad, whole[:-100]) if bad else (flipped(whole, len(whole) // 2), flipped(whole, -1)):
            file.write_bytes(changed)
            with pytest.raises(error, match=why):
                step()
        file.write_bytes(whole)

    name = play.file("").name
    other = {folder: play.file(folder, 1).read_bytes() for folder in ("keys", "blobs")}
    for folder in ("keys", "blobs"):
        refused(play.open, f"{folder}/{name}", DeserialisationError, listed.format(f"{folder}/{name}"), other[folder])
    refused(play.open, "blobs/list", TamperedError, "genuine|damaged")
    play.open()
    why = listed.format(f"answers/{play.file('', 1).name}")
    refused(play.add, f"answers/{play.file('', 1).name}", DeserialisationError, why, play.file("answers").read_bytes())
    refused(play.add, "answers/opening", TamperedError, "genuine|damaged")
    result = play.add()
    with pytest.raises(TamperedError):
        play.decrypt(flipped(result, -1))


def test_a_member_that_stands_twice_in_the_files_of_keys_is_refused_by_coordinator_and_helper(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one file, or in two: by the helper though they are listed, as by a coordinator that has not looked."""
    play.write()
    play.collect()
    for number, keys in ((0, [0, 1, 2, 2]), (1, [3, 4, 5, 6]), (1, [5, 4, 6, 7])):
        whole = (file := play.file("keys", number)).read_bytes()
        with tables.writing(str(file), tables.KEYS) as written:
            written.add({"key": play.known[keys]})
        with pytest.raises(InputError, match=f"{file.name}': keys do not ascend"):
            tables.listed(play.place("keys"))
        files = [*play.listed.files]
        files[number] = KeyFile(file.name, 4, hashlib.sha256(play.known[keys].tobytes()).digest())
        with monkeypatch.context() as patch:
            patch.setattr(FleetSession, "ranges", FleetList(tuple(files)).ranges)
            with pytest.raises(InputError, match="keys do not ascend"):
                play.open()
        file.write_bytes(whole)


def test_each_step_is_for_its_role_and_a_result_comes_after_an_opening(play: Play) -> None:
    with pytest.raises(EvaluationError, match="no pads of this session have been opened"):
        play.decrypt(b"")
    play.aggregator, play.helper = play.helper, play.aggregator
    for step in (play.collect, play.open, play.add, lambda: play.decrypt(b"")):
        with pytest.raises(KeysError, match="is not, with the keys that it has now"):
            step()


def test_records_that_change_before_some_are_taken_off_are_told_by_file(play: Play) -> None:
    sent = [*play.records[:7], signed(play, play.records[7], STRANGER)]
    play.until_opened(sent)
    for left in ([*sent[:4]], [*sent[:7], sent[6]._replace(member=7)], [*sent[:4], *sent[5:]]):
        shutil.rmtree(play.place("records"))
        play.write(left)
        if len(left) == 4:
            play.file("records", 1).write_bytes(b"")
        with pytest.raises(EvaluationError, match=r"000001\.parquet' has other records than were collected"):
            play.add()
    play.write(sent)
    play.decrypt(play.add())
    assert play.reads(0, play.rows[:7])


def test_what_cannot_be_with_a_fleet_is_refused(play: Play) -> None:
    with pytest.raises(InputError, match="no secret in common, which verified takes: give --protocol exact"):
        registry.load("verified").prepare(play.request)
    with pytest.raises(InputError, match="see `fhe-auc fleet`"):
        registry.load("exact").aggregator(play.announced.manifest, b"")
    for index in (8, -1):
        with pytest.raises(InputError, match=f"has members 0 to 7, and no {index}"):
            Device(play.announced, index, play.keys[0], Floor(members=4, share=0.25))
    # Who says who the members are could name a fleet of which it plays all members but one.
    for role in (play.consortium.aggregator, play.consortium.helper):
        with pytest.raises(UnfitError, match="neither its aggregator nor helper"):
            convened(play, play.fleet, by=role)


def test_a_small_file_takes_little_memory_and_a_long_document_or_nonsense_is_not_read(tmp_path: Path) -> None:
    """It may say a long value once, for all its rows."""
    schema, place = tables.table("member", sketch=2**13), str(tmp_path / "0.parquet")
    made = pa.table([np.arange(20_000, dtype=np.uint32), [bytes(2**13)] * 20_000], schema=schema)
    pq.write_table(made, place, row_group_size=20_000, dictionary_pagesize_limit=2**22)
    del made
    usual = pa.default_memory_pool()
    try:
        pa.set_memory_pool(own := pa.proxy_memory_pool(usual))
        assert sum(columns["sketch"].size for columns in tables.batches(place, schema)) == 20_000 * 2**13
    finally:
        pa.set_memory_pool(usual)
    assert own.max_memory() < 2**26
    with (tmp_path / "list").open("wb") as file:
        file.truncate(2**28 + 1)  # takes no room on the disk
    with pytest.raises(InputError, match=r"'.*list' is longer than 268,435,456 bytes"):
        tables.read_file(str(tmp_path / "list"))
    with pytest.raises(InputError, match="cannot be opened"):
        tables.read_file("nonsense://bucket/file")
