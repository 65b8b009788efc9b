"""Sessions of fleets: the exact fraction of the rows of all that count, each once, whatever files and devices do."""

import hashlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.fleet import Fleet
from fhe_auc.results.intervals import HANLEY_MCNEIL
from fhe_auc.rlwe.modular import subtract
from fhe_auc.rlwe.packing import unpack
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.cli.fleet import fleet as command
from fhe_auc_keys.errors import KeysError, TamperedError, UnfitError
from fhe_auc_keys.fleet import aggregator, record_checks, tables
from fhe_auc_keys.fleet.device import Device, Floor, Record, write_records
from fhe_auc_keys.fleet.fleet_session import LIST, OPENING, RESULT, UNOPENED, Verdict, loaded, sketch_info
from fhe_auc_keys.store import known_members
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signatures import has_signed
from fhe_auc_keys.trust.signed_documents import claimed_body
from tests.support.certified import NOW
from tests.support.fleet_sessions import (
    CAP,
    GRID,
    Play,
    convened,
    fraction_of,
    info_of,
    padded,
    resealed,
    sending,
    signed,
)
from tests.support.keys_commands import ok_of, store_of
from tests.support.keys_folder import ADDER, SITES, at
from tests.support.stores import trail_of
from tests.support.wire import flipped


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Play:
    made = Play(tmp_path_factory.mktemp("fleet") / "f", 8)
    assert made.submitted
    return made


@pytest.fixture
def play(made: Play, tmp_path: Path) -> Iterator[Play]:
    with made.copied(tmp_path) as copied:
        yield copied


@pytest.mark.parametrize("proofs", [True, False], ids=["proved", "not proved"])
@pytest.mark.parametrize("number", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_devices_have_the_exact_fraction_of_all_their_rows(tmp_path: Path, number: int, proofs: bool) -> None:
    with Play(tmp_path, number, least=number - 10, interval=0.9, proofs=proofs) as play:
        play.write(play.records[:12], play.records[12:])
        collected, verdicts = play.to_the_end()
        assert (collected.records, verdicts) == (number, {"counts": number})
        for index in (0, number // 2, number - 1):
            found = play.read(index)
            assert found.fraction == fraction_of(play.rows)
            assert (found.parties, found.keys) == (number, "helper")
            assert found.as_dict()["verified"] == {"aggregation": False, "parties": proofs and "row caps"}
            assert found.interval is not None
            assert found.interval.method == HANLEY_MCNEIL + WIDENED  # at twelve thresholds


@pytest.mark.parametrize(("members", "caps", "most"), [(10**5, 20, 8500), (10**6, 20, 9500), (10**6, None, 4200)])
def test_a_record_is_small_at_100_thresholds_though_a_seal_takes_1136_bytes(
    members: int, caps: int | None, most: int
) -> None:
    known = np.random.default_rng(0).integers(0, 256, (100, 32)).astype(np.uint8)
    fleet = msgspec.structs.replace(Fleet.of(known, row_cap=20), members=members)
    request = Request(
        parties=(), fleet=fleet, thresholds=thresholds.uniform(100), max_rows=20 * members, min_parties=2,
        keys="helper", row_caps=caps,
    )  # fmt: skip
    session = loaded(registry.load("exact").prepare(request).manifest.to_bytes())
    inside = sum(session.computation.part_bytes) + session.computation.plan.proof_bytes
    assert 4 + 32 + inside + 64 + 64 + 2 * 1136 <= most


def test_a_device_shows_no_secret(play: Play) -> None:
    assert repr(play.submitted[0].response_key) not in repr(play.submitted[0])


# --- What does not count, and does the rest no harm -------------------------------------------------------------------


def test_what_is_written_for_devices_is_read_again_however_long_their_records_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 records with proofs at 1,000 thresholds are more than a row group may have."""
    monkeypatch.setattr(tables, "_MOST_BYTES", 2**20)
    records = [Record(index, bytes(32), index.to_bytes(31_124, "big"), bytes(112), bytes(64)) for index in range(100)]
    write_records(str(tmp_path / "records.parquet"), records)
    parts, refused = tables.parts_of(str(tmp_path), tables.RECORDS)
    assert not refused
    assert [Record(*row) for part in parts for row in tables.rows_of(part, tables.RECORDS)] == records


def test_a_file_of_more_than_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "list").open("wb") as file:
        file.truncate(2**30 + 1)  # takes no room on the disk
    with pytest.raises(InputError, match=r"'.*list' is longer than 1,073,741,824 bytes"):
        tables.read_file(str(tmp_path / "list"))


def test_a_small_file_takes_little_memory_and_few_tasks(tmp_path: Path) -> None:
    """It may say a long value once, for all its rows; and have thousands of row groups."""
    for number, (rows, sketch, group) in enumerate(((100, bytes(2**20), 100), (2000, b"", 1))):
        columns = [range(rows), *([sketch if name == "sketch" else b""] * rows for name in tables.RECORDS.names[1:])]
        made = pa.table(columns, schema=tables.RECORDS)
        pq.write_table(made, tmp_path / f"{number}.parquet", row_group_size=group, dictionary_pagesize_limit=2**22)
    (part,), refused = tables.parts_of(str(tmp_path), tables.RECORDS)
    assert [*refused.values()] == ["not a whole file of records: it has more than 1,024 row groups"]
    usual = pa.default_memory_pool()
    try:
        pa.set_memory_pool(own := pa.proxy_memory_pool(usual))
        assert sum(len(row[2]) for row in tables.rows_of(part, tables.RECORDS)) == 100 * 2**20
    finally:
        pa.set_memory_pool(usual)
    assert own.max_memory() < 2**24


def test_records_that_are_not_whole_are_named_and_the_others_count(play: Play) -> None:
    records = play.records
    whole, inside = records[3], len(records[3].sketch) - sealing.OVERHEAD
    too_large = sending(play, 3, b"\xff" * inside)
    spoilt = [
        (too_large, record_checks.NO_SKETCH),
        (whole._replace(session=bytes(32)), record_checks.OTHER_SESSION),
        (whole._replace(member=8), record_checks.NO_MEMBER),
        (whole._replace(sketch=whole.sketch[1:]), record_checks.OTHER_LENGTH),
        (whole._replace(blob=whole.blob + b"\0"), record_checks.OTHER_LENGTH),
        (whole._replace(sketch=bytes(len(whole.sketch))), record_checks.NOT_SEALED),
        (whole._replace(member=4), record_checks.NOT_SEALED),
    ]
    play.write([*(record for record, _ in spoilt), *records[:3]], records[4:])
    collected, _ = play.to_the_end()
    assert collected.refusals.counts == Counter(why for _, why in spoilt)
    assert collected.refusals.examples[record_checks.NO_MEMBER][0].endswith("row group 0, row 2: member 8")
    assert play.reads(0, play.rows[:3] + play.rows[4:])


def test_blobs_that_do_not_open_are_left_out_and_the_others_count(play: Play) -> None:
    """A foreign key, another's blob, a changed blob, a changed sketch, and a blob that is signed but none."""
    records = play.records
    records[0] = resealed(play, records[0], Identity.create("a stranger"))
    records[1] = records[1]._replace(blob=records[2].blob, signature=records[2].signature)
    records[3] = records[3]._replace(blob=flipped(records[3].blob, -1))
    records[4] = records[4]._replace(sketch=play.device(4).submit(play.rows[4], b"").record.sketch)
    own = padded(play, 7)
    sent = sending(play, 7, own)
    records[7] = signed(sent, flipped(sent.blob, -1), play.identities[7], own.proof[:64])
    play.write(records)
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 3, Verdict.UNSIGNED.sentence: 4, Verdict.UNOPENED.sentence: 1}
    assert play.reads(2, [play.rows[each] for each in (2, 5, 6)])
    assert set(play.responses()) == {2, 5, 6}


def test_of_a_member_s_records_the_first_counts_that_opens(play: Play) -> None:
    """So nobody takes a member's place by a record of their own, in whichever file it comes first."""
    records, again = play.records, [play.device(index).submit(data, b"") for index, data in enumerate(play.rows)]
    stranger = resealed(play, records[5], Identity.create("a stranger"))
    play.write([stranger, records[5]._replace(sketch=again[5].record.sketch)],
               [*records, again[5].record, records[6]])  # fmt: skip
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 8, Verdict.UNSIGNED.sentence: 2, Verdict.AGAIN.sentence: 2}
    assert play.reads(5, play.rows)
    with pytest.raises(DeserialisationError, match="not sealed to member 5"):
        play.read(5, again[5].response_key)


def test_a_file_that_is_cut_off_or_of_another_kind_is_named_and_the_others_count(play: Play, tmp_path: Path) -> None:
    records = play.records
    play.write(records[:2], records[2:4], records[4:])
    cut = tmp_path / "records" / "1.parquet"
    cut.write_bytes(cut.read_bytes()[:-100])
    pq.write_table(pa.table({"member": [1]}), tmp_path / "records" / "other.parquet")
    whole = (tmp_path / "records" / "0.parquet").read_bytes()
    (tmp_path / "records" / "no text.parquet").write_bytes(whole.replace(b"sketch", b"\xffketch"))
    collected, _ = play.to_the_end()
    assert collected.refusals.counts == {aggregator.UNREADABLE: 3}
    named = "".join(collected.refusals.examples[aggregator.UNREADABLE])
    assert "1.parquet" in named
    assert "other.parquet" in named
    assert "no text.parquet" in named
    assert play.reads(0, play.rows[:2] + play.rows[4:])


# --- Devices: what they refuse, and what one can do that runs other code ----------------------------------------------


def test_a_device_with_more_rows_than_the_cap_sends_nothing(play: Play) -> None:
    many = PartyData.from_arrays("many", [0, 1] * 7, [0.5] * 14)
    with pytest.raises(InputError, match="member 3 has 14 rows, more than a device's cap, 12"):
        play.device(3).submit(many, b"")


@pytest.mark.parametrize("shift", [(-1, 1), (1, 0), (-100, 100)], ids=["below zero", "a row too many", "moved"])
def test_counts_below_zero_or_of_other_rows_than_there_are_do_not_leave(play: Play, shift: tuple[int, int]) -> None:
    session = loaded(play.announced.manifest.to_bytes())
    task = session.task(session.manifest, play.rows[0])
    encoded = task.encode(b"")
    task.check_counts(encoded)
    empty = int(np.flatnonzero(encoded[0][: 2 * len(GRID)] == 0)[0])
    for values, prime in zip(encoded, session.computation.plan.parameters.plain_moduli, strict=True):
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
    """Which records count is the server's choice: two sums that differ in one device tell its counts."""

    def another(number: int) -> Device:
        return play.device(0, announced=play.opened(convened(play, play.known[:number])))

    rows = play.rows[0]
    memory = play.device(0).submit(rows, b"").memory
    turned = PartyData.from_arrays("other", rows.y_true[::-1], rows.y_score[::-1])
    for device in (play.device(0), another(8), another(7), another(4)):
        with pytest.raises(EvaluationError, match="member 0 has answered"):
            device.submit(turned, memory)
    changed = PartyData.from_arrays("mine", [*rows.y_true, True], [*rows.y_score, 0.5])
    again = another(7).submit(changed, memory).memory
    for known in (rows, changed):
        device = another(6)
        with pytest.raises(EvaluationError, match="member 0 has answered"):
            device.submit(known, again)
    device = play.device(0)
    with pytest.raises(DeserialisationError, match="device's memory"):
        device.submit(rows, flipped(memory, -1))


def test_a_device_answers_once_for_the_scores_of_a_model_whatever_other_models_are_asked_for(play: Play) -> None:
    """A session of two models, one of which it has answered, is about the same rows."""
    rows = play.rows[0]
    memory = play.device(0).submit(rows, b"").memory
    announced = play.opened(convened(play, play.known[:7], analysis=Analysis(models=("old", "new"))))
    device = play.device(0, announced=announced)
    new, newer = (PartyData.from_arrays("mine", rows.y_true, (rows.y_score + 1) / by).y_score for by in (3, 4))
    for scores in ((rows.y_score, new), (new, rows.y_score)):
        with pytest.raises(EvaluationError, match="member 0 has answered for the same rows"):
            device.submit(PartyData("mine", rows.labels, scores), memory)
    assert device.submit(PartyData("mine", rows.labels, (new, newer)), memory).memory


def test_members_whom_the_members_file_does_not_name_are_refused_by_all(play: Play) -> None:
    """Else the convener could name a fleet of which it plays all members but one."""
    sybils = np.random.default_rng(0).integers(0, 256, (8, 32)).astype(np.uint8)
    sybils[0] = play.known[0]
    theirs = convened(play, sybils)
    play.opened(theirs)
    play.enlist(play.fleet)
    why = "does not name the fleet's 8 members"
    with pytest.raises(KeysError, match=why):
        play.opened(theirs)
    for fleet in (Fleet.of(sybils, row_cap=CAP), msgspec.structs.replace(play.fleet, members=9)):
        with pytest.raises(KeysError, match=why.replace("8", str(fleet.members))):
            convened(play, fleet)
    play.opened(play.announcement)


# --- What the helper sees, and does once ------------------------------------------------------------------------------


def counts_in(play: Play, sketch: bytes, seed: bytes, index: int) -> list[int]:
    """What a device has counted, from its padded sketch and its pad's seed."""
    plan, pad = play.computation.plan, play.computation.pads([index], [seed])[0][0]
    (prime,) = plan.parameters.plain_moduli
    padded = unpack(sketch[: play.computation.part_bytes[0]], play.computation.sizes[0], prime)
    submitted = subtract(padded, pad[: len(padded)], prime)
    counts: list[int] = plan.proved.sketch_of(submitted).tolist()
    return counts


def test_who_reads_everything_but_the_aggregator_s_store_reads_no_device_s_counts(play: Play, tmp_path: Path) -> None:
    """With the helper's store it knows all pads, and yet no sketch opens; nor with a device's.

    The helper is given no sketch, and of a sealed one the digest, which is another one each time.
    """
    play.write()
    play.to_the_end()
    record, info = play.records[5], sketch_info(play.announced.manifest.digest, 5)
    seed = play.helper.identity.unseal(record.blob, info=info_of(record))[:32]
    for identity in (play.helper.identity, play.identities[4], play.identities[5]):
        with pytest.raises(TamperedError):
            identity.unseal(record.sketch, info=info)
    inside = play.aggregator.identity.unseal(record.sketch, info=info)
    every_file = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
    assert inside[:32] not in every_file
    assert record.sketch in every_file
    given = b"".join(path.read_bytes() for path in sorted((tmp_path / "blobs").iterdir()))
    for sent in (record.blob, hashlib.sha256(record.sketch).digest()):
        assert sent in given
    for kept in (record.sketch[:32], inside[:32], hashlib.sha256(inside).digest()):
        assert kept not in given
    assert sum(counts_in(play, inside, seed, 5)[: 2 * len(GRID)]) == play.rows[5].rows  # so the seal alone keeps them


def test_what_helper_and_aggregator_send_each_other_opens_for_the_other_alone(play: Play) -> None:
    opening, _ = play.until_opened()
    query = claimed_body(LIST, tables.read_file(play.place("blobs/list")), aggregator.BlobList).key
    pads = claimed_body(OPENING, opening, aggregator.Opened).opening
    result = claimed_body(RESULT, play.add(opening)[0], aggregator.FleetResult).ciphertext
    for kind, sealed, recipient, sender in (
        (LIST, query, play.helper, play.aggregator),
        (OPENING, pads, play.aggregator, play.helper),
        (RESULT, result, play.helper, play.aggregator),
    ):
        assert recipient.unseal(kind, sealed)
        with pytest.raises(TamperedError):
            sender.unseal(kind, sealed)


def test_asked_again_the_helper_gives_the_same_bytes_and_refuses_another_list_to_which_no_answer_fits(
    play: Play, tmp_path: Path
) -> None:
    answer, verdicts = play.until_opened()
    assert play.open() == (answer, verdicts)
    (tmp_path / "blobs").rename(tmp_path / "first")
    play.write(play.records[1:])
    play.adders.remove("list", play.announced.manifest.session.hex())  # as who has lost it, or lies
    play.collect()
    with pytest.raises(KeysError, match="another list"):
        play.open()
    with pytest.raises(KeysError, match="other blobs"):
        play.add(answer)
    assert play.open("first")[0] == answer


def test_the_helper_decrypts_one_result_and_then_has_no_key(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash before the responses are written costs nothing: the same result gives the same bytes."""
    opening, _ = play.until_opened()
    result, other = play.add(opening)[0], play.add(opening)[0]
    put, times = play.store.put, itertools.count()

    def full(*given: Any, **named: Any) -> None:
        if next(times):
            raise OSError("no space left")  # where the key is to be erased
        put(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(play.store, "put", full)
        with pytest.raises(OSError, match="no space left"):
            play.decrypt(result, "lost")
    with pytest.raises(KeysError, match="another result has been decrypted"):
        play.decrypt(other)
    play.decrypt(result)
    for name in ("sums", "responses-000000.parquet"):
        assert tables.read_file(play.place(f"lost/{name}")) == tables.read_file(play.place(f"responses/{name}"))
    with pytest.raises(KeysError, match="have been written"):
        play.decrypt(result)
    kept = play.store.get("fleet", play.announced.manifest.session.hex())
    assert not any(each.response_key in kept for each in play.submitted)
    assert play.open()[0] == opening


def test_a_blob_a_list_members_or_an_answer_that_is_changed_is_refused(play: Play, tmp_path: Path) -> None:
    play.write()
    play.collect()
    tables.write_members(play.place("others"), play.known[::-1].copy())
    changed = r"not the file that the aggregator has listed|genuine|damaged"
    for name, bad, error, why in (
        ("blobs/blobs-000000.parquet", None, DeserialisationError, changed),
        ("blobs/list", None, TamperedError, changed),
        ("members.parquet", (tmp_path / "others").read_bytes(), InputError, "not the members of the session's fleet"),
        ("members.parquet", b"nonsense", InputError, "is not a file of members"),
    ):
        whole = (file := tmp_path / name).read_bytes()
        file.write_bytes(bad or flipped(whole, -1))
        with pytest.raises(error, match=why):
            play.open()
        file.write_bytes(whole)
    opening, _ = play.open()
    with pytest.raises(TamperedError):
        play.add(flipped(opening, -1))
    result, _ = play.add(opening)
    with pytest.raises(TamperedError):
        play.decrypt(flipped(result, -1))


def test_each_step_is_for_its_role_and_a_result_comes_after_an_opening(play: Play) -> None:
    with pytest.raises(EvaluationError, match="no pads of this session have been opened"):
        play.decrypt(b"")
    play.write()
    play.aggregator, play.helper = play.helper, play.aggregator
    for step in (play.collect, play.open, lambda: play.add(b""), lambda: play.decrypt(b"")):
        with pytest.raises(KeysError, match="is not, with the keys that it has now"):
            step()


@pytest.mark.parametrize("left", [(4,), (4, 7), (4, 8, 1)], ids=["gone", "changed", "more"])
def test_records_that_change_between_the_steps_are_told(play: Play, tmp_path: Path, left: tuple[int, ...]) -> None:
    opening, _ = play.until_opened(play.records[:4], play.records[4:])
    shutil.rmtree(tmp_path / "records")
    play.write(*(play.records[first:end] for first, end in zip((0, 4, 0), left, strict=False)))
    with pytest.raises(EvaluationError, match="put back what has gone"):
        play.add(opening)


# --- Sessions, devices, commands --------------------------------------------------------------------------------------


def test_what_cannot_be_with_a_fleet_is_refused(play: Play) -> None:
    with pytest.raises(InputError, match="no secret in common, which verified takes: give --protocol exact"):
        registry.load("verified").prepare(play.request)
    with pytest.raises(InputError, match="see `fhe-auc fleet`"):
        registry.load("exact").aggregator(play.announced.manifest, b"")
    for index in (8, -1):
        with pytest.raises(InputError, match=f"has members 0 to 7, and no {index}"):
            Device(play.announced, index, play.identities[0], Floor(members=4, share=0.25))
    # Whoever a token was shown to could be the member.
    tokens = play.announced.manifest.to_bytes().replace(b"known_by\xa4keys", b"known_by\xa6tokens")
    with pytest.raises(DeserialisationError, match=r"'tokens' - at `\$\.fleet\.known_by`"):
        Manifest.from_bytes(tokens)
    # Who says who the members are could name a fleet of which it plays all members but one.
    for role in (play.consortium.aggregator, play.consortium.helper):
        with pytest.raises(UnfitError, match="neither its aggregator nor helper"):
            convened(play, play.fleet, by=role)


def test_places_may_be_urls(play: Play, tmp_path: Path) -> None:
    play.write()
    play.place = lambda name: f"file://{tmp_path}/{name}"  # type: ignore[method-assign]
    play.to_the_end()
    assert play.reads(0, play.rows)
    with pytest.raises(InputError, match="cannot be opened"):
        tables.read_file("nonsense://bucket/file")


def test_the_commands_play_a_session_between_key_stores(play: Play, consortium: Path) -> None:
    del play.submitted  # which is of another session
    convener, trustee = SITES
    told = {each: each for each in ("model", "outcome", "cohort", "period")} | {"protocol": "exact"}
    told |= {"thresholds": "uniform:12", "aggregator": ADDER, "helper": trustee}
    study = "min-parties = 5\n" + "".join(f'{name} = "{text}"\n' for name, text in told.items())
    Path("study.toml").write_text(study)
    Path("unproved.toml").write_text(f"proofs = false\n{study}")

    def run(who: str, *arguments: str, status: int = 0) -> Any:
        done = CliRunner().invoke(command, [*arguments, *at(who), "--json"], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return json.loads(done.stdout)

    names = "session.fleet", "members.parquet", "records", "blobs", "opening", "result", "responses"
    session, members, records, blobs, opening, result, responses = map(play.place, names)
    ok_of("members", "renew", "north/config.toml", "--fleet", members)
    for name in (trustee, ADDER):
        ok_of("members", "show", f"{name}/config.toml")
    run(convener, "convene", members, "study.toml", "--row-cap", "12", "--out", session)
    with store_of(convener) as store:
        known = known_members.stored(store)
    by, unproved = ("--holder", convener), play.place("unproved.fleet")
    run(convener, "convene", members, "unproved.toml", "--row-cap", "12", "--out", unproved)
    play.announced = open_announcement(Path(unproved).read_bytes(), known, holder=convener, at=NOW)
    assert play.computation.proofs is None
    few = [play.device(index).submit(play.rows[index], b"").record for index in range(4)]
    write_records(play.place("few/0.parquet"), few)
    run(ADDER, "collect", unproved, play.place("few"), play.place("few-blobs"), *by)
    told = run(trustee, "open", unproved, play.place("word"), members, play.place("few-blobs"), *by, status=1)
    assert (told["opened"], told["records"]) == (False, {"counts": 4})
    assert run(trustee, "open", unproved, play.place("again"), "--nothing", *by)["opened"] is False
    assert Path(play.place("word")).read_bytes() == (word := Path(play.place("again")).read_bytes())
    helper_key = play.announced.helper.signing_key  # type: ignore[union-attr]
    assert has_signed(helper_key, UNOPENED, play.announced.manifest.digest, word)
    play.announced = open_announcement(Path(session).read_bytes(), known, holder=convener, at=NOW)
    play.write(play.records[:7])
    assert run(ADDER, "collect", session, records, blobs, *by)["records"] == 7
    run(trustee, "open", session, opening, members, blobs, *by)
    run(ADDER, "add", session, records, blobs, opening, result, *by)
    assert run(trustee, "decrypt", session, result, responses, *by)["devices"] == 7
    assert play.reads(6, play.rows[:7])
    assert play.read(6).inputs_proved == "row caps"
    for name in SITES:
        assert len(trail_of(Path(name, "store"))) == 2 + 2 * (name == trustee)


@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.slow), ("--no-proofs",)])
def test_simulate_plays_a_session_and_says_whether_it_is_exact(tmp_path: Path, more: tuple[str, ...]) -> None:
    arguments = ["simulate", "--parties", "40", "--thresholds", "uniform:20", "--folder", str(tmp_path / "new"), *more]
    found = json.loads(CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert (found["equal"], found["counted"], found["fraction"]) == (True, 40, found["expected"])
    assert set(found["cpu_seconds"]) == {"devices", "aggregator", "helper"}
    assert (found["record_bytes"] < 3000) == bool(more)
