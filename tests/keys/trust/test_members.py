"""The members' file: who is in, who signs the next one, and what is refused."""

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError, UnfitError
from fhe_auc_keys.trust import join_request, members
from fhe_auc_keys.trust.join_request import comparison, link, split_link
from fhe_auc_keys.trust.members import Change, Member, Members, countersign
from fhe_auc_keys.trust.published import Published, file_of
from fhe_auc_keys.trust.sealing import PrivateKeys
from tests.suite.memory_exchange import Memory

NOW = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
NAMES = ("north", "south", "west", "east")
KEYS = {name: PrivateKeys.generate() for name in NAMES}
LINES = {name: Member.of(name, keys) for name, keys in KEYS.items()}


def founded() -> Members:
    """One coordinator, north."""
    return members.found_consortium("north", KEYS["north"], days=300, at=NOW)


def draft(kept: Members, *signers: str, days: int = 300, at: datetime = NOW, **change) -> bytes:
    data = kept.next_version(Change(**change), days=days, at=at)
    for name in signers:
        data = countersign(data, KEYS[name])
    return data


def after(kept: Members, *signers: str, **change) -> Members:
    return kept.newer(draft(kept, *signers, **change))


def three() -> Members:
    """North, south, west; two of them sign."""
    admit, coordinators = [LINES["south"], LINES["west"]], ["north", "south", "west"]
    return after(founded(), "north", "west", admit=admit, coordinators=coordinators, threshold=2)


def altered(data: bytes, change) -> bytes:
    """A members' file whose signed part somebody without keys has changed."""
    text = json.loads(data)
    change(text)
    return json.dumps(text).encode()


def test_a_member_has_its_keys_and_who_is_left_out_of_the_next_file_is_out() -> None:
    kept = three()
    south = kept.named("south", NOW)
    assert (south.signing_key, south.encryption_key) == (KEYS["south"].signing_key, KEYS["south"].encryption_key)
    left = after(kept, "north", "west", remove=["south"])
    with pytest.raises(RevokedError, match=r"'south' is no member in version 3 .*north, west"):
        left.named("south", NOW)
    assert (left.coordinators, left.threshold, left.version) == (("north", "west"), 2, 3)


@pytest.mark.parametrize("signers", [(), ("north",), ("east",), ("north", "east"), ("north", "north")])
def test_two_of_three_must_sign(signers: tuple[str, ...]) -> None:
    kept = three()
    with pytest.raises(TamperedError, match="signatures of the coordinators of the version before, of 2"):
        after(kept, *signers, admit=[LINES["east"]])
    assert after(kept, "north", "south", admit=[LINES["east"]]).version == 3


def test_who_takes_over_must_be_named_by_who_was_there_and_sign_too() -> None:
    kept = after(founded(), "north", admit=[LINES["south"]])
    with pytest.raises(TamperedError, match="0 genuine signatures of its own coordinators, of 1"):
        after(kept, "north", coordinators=["south"])
    with pytest.raises(TamperedError, match="0 genuine signatures of the coordinators of the version before"):
        after(kept, "south", coordinators=["south"])
    handed = after(kept, "north", "south", coordinators=["south"])
    with pytest.raises(TamperedError):
        after(handed, "north", admit=[LINES["east"]])
    assert after(handed, "south", admit=[LINES["east"]]).version == 4


def test_an_older_file_the_same_one_and_one_too_new_are_refused() -> None:
    kept = three()
    last = after(kept, "north", "south", remove=["west"])
    for data in (kept.files[0], kept.files[1], last.files[2]):
        with pytest.raises(KeysError, match="not the next one after 3, which is here: an older one counts no more"):
            last.newer(data)
    with pytest.raises(KeysError, match=r"version 3 .* not the next one after 1.*: none is left out"):
        Members(kept.files[:1]).newer(last.files[2])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text["signed"]["members"]["lines"].pop(),
        lambda text: text["signed"].update(expires="2099-01-01T00:00:00Z"),
        lambda text: text["signed"]["roles"]["root"].update(threshold=1),
        lambda text: text["signed"]["members"].update(begins=0),
        lambda text: text["signatures"].pop(),
        lambda text: text["signatures"].append(text["signatures"][0]),
        lambda text: text.update(more=1),
        lambda text: text["signed"].update(_type="targets", targets={}),
        lambda text: text["signed"]["keys"].clear(),
        lambda text: text["signed"].pop("members"),
        lambda text: text["signed"].update(version="3"),
        lambda text: text["signed"]["roles"]["root"].update(threshold=0),
    ],
)
def test_what_somebody_has_changed_is_refused(change) -> None:
    kept = three()
    data = draft(kept, "north", "south", admit=[LINES["east"]])
    kept.newer(data)
    with pytest.raises((TamperedError, KeysError)):
        kept.newer(altered(data, change))


def test_other_bytes_and_a_first_file_that_its_own_coordinators_have_not_signed_are_refused() -> None:
    kept = founded()
    for data in (b"", b"{}", b"[]", b"[" * 100_000, b"\xff", b'{"signed": {"_type": "root"}}', b"null"):
        with pytest.raises(TamperedError):
            kept.newer(data)
    with pytest.raises(TamperedError):  # a name in it that is no UTF-8, where all else is a file's
        kept.newer(kept.files[0].replace(b'"keys":{"', b'"keys":{"\xff', 1))
    with pytest.raises(TamperedError, match="at most 33,554,432 bytes"):  # else no members' file
        kept.newer(bytes(members.MAX_BYTES + 1))
    with pytest.raises(TamperedError, match="0 genuine signatures"):
        Members(()).newer(altered(kept.files[0], lambda text: text["signatures"].clear()))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text["signed"].update(other=[{}] * 500_000),
        lambda text: text["signed"]["members"].update(lines=[["", "", "", ""]] * 11_000),
        lambda text: text["signed"].update(keys={str(each): {"keyval": {"public": ""}} for each in range(11_000)}),
    ],
)
def test_what_is_longer_than_what_it_says_is_refused_before_tuf_reads_it(
    change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 13 seconds and 860 MB of 24 MiB, at each look of each role."""
    kept, data = founded(), altered(draft(founded(), "north"), change)
    monkeypatch.setattr("tuf.api.metadata.Metadata.from_bytes", lambda _: pytest.fail("read"))
    with pytest.raises(KeysError, match=r"this is no members' file: of|at most 10,100 members"):
        kept.newer(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text["signed"].update(other=1.5),  # of which there are no canonical bytes
        lambda text: text["signed"]["members"].update(other=float("nan")),
        lambda text: text["signed"]["roles"]["root"].update(keyids=["of nobody"]),
        lambda text: text["signed"].update(keys={}),
    ],
)
def test_what_tuf_stumbles_over_is_refused_as_all_else_is(change) -> None:
    """Whoever writes into the exchange would keep all from every newer version, and from joining."""
    for kept, data in ((Members(()), founded().files[0]), (founded(), draft(founded(), "north"))):
        for signed in (True, False):
            with pytest.raises(KeysError):
                kept.newer(altered(data, change), signed=signed)


def signed_by_north(change) -> bytes:
    """What a coordinator with a tool of his own may make: the second file, changed, then signed."""
    data = draft(founded(), admit=[LINES["south"]])
    return countersign(altered(data, change), KEYS["north"])


def with_line(line: Member) -> bytes:
    """What he may make with one more line."""
    return signed_by_north(lambda text: text["signed"]["members"]["lines"].append(msgspec.to_builtins(line)))


def test_a_coordinator_cannot_make_a_member_of_who_did_not_sign_for_it() -> None:
    east = LINES["east"]
    for change in (
        {"name": "east"},
        {"encryption_key": east.encryption_key},
        {"signing_key": east.signing_key},
        {"signature": bytes(64)},
    ):
        with pytest.raises(TamperedError, match="is not signed with its own key"):
            founded().newer(with_line(msgspec.structs.replace(LINES["west"], **change)))
    assert founded().newer(with_line(LINES["west"])).version == 2


def test_names_that_look_alike_shared_keys_and_unfit_keys_are_refused() -> None:
    for name, match in (
        ("North", "look alike"),
        ("\N{FULLWIDTH LATIN SMALL LETTER S}outh", "look alike"),
        ("aggregator", "must not be"),
        (" x", "blank"),
    ):
        keys = PrivateKeys.generate()
        stated = (name, keys.signing_key, keys.encryption_key)
        line = Member(*stated, keys.sign(b"member 1", msgspec.msgpack.encode(stated)))
        with pytest.raises(UnfitError, match=match):
            founded().newer(with_line(line))
    fresh, (_, encryption) = PrivateKeys.generate(), KEYS["south"].components
    shared = Member.of("west", PrivateKeys.from_components(fresh.components[0], encryption))
    with pytest.raises(UnfitError, match="the same key"):
        founded().newer(with_line(shared))
    stated = ("west", KEYS["west"].signing_key, KEYS["west"].encryption_key[:-1])
    short = Member(*stated, KEYS["west"].sign(b"member 1", msgspec.msgpack.encode(stated)))
    with pytest.raises(UnfitError):
        founded().newer(with_line(short))


def test_one_coordinator_is_not_counted_twice_under_two_identifiers_and_one_who_is_no_member_not_at_all() -> None:
    """`tuf` alone would: findings/tuf-one-key-under-two-names-is-two-signers.sh."""

    def twice(text) -> None:
        (identifier,) = text["signed"]["roles"]["root"]["keyids"]
        text["signed"]["keys"]["0" * 64] = text["signed"]["keys"][identifier]
        text["signed"]["roles"]["root"] = {"keyids": [identifier, "0" * 64], "threshold": 2}

    def signed_twice(text) -> None:
        text["signatures"].append({"keyid": "0" * 64, "sig": text["signatures"][0]["sig"]})

    doubled = altered(signed_by_north(twice), signed_twice)
    with pytest.raises(UnfitError, match="has another identifier"):
        founded().newer(doubled)
    text = json.loads(draft(founded(), admit=[LINES["south"]], coordinators=["north", "south"]))
    del text["signed"]["members"]["lines"][1]
    with pytest.raises(UnfitError, match="no member"):
        founded().newer(countersign(json.dumps(text).encode(), KEYS["north"]))


def test_a_file_counts_from_its_begin_to_its_end() -> None:
    kept = founded()
    kept.named("north", NOW - timedelta(minutes=4))  # a clock that is a little slow
    for at, says in (  # the minute, where it is the matter; else a server would log each
        (NOW - timedelta(minutes=6), "2030-05-01 11:54"),
        (NOW + timedelta(days=300, seconds=1), "2031-02-25 12:00"),
        (NOW - timedelta(hours=3), "2030-05-01, after 09:00"),
    ):
        told = rf"2030-05-01 11:55 to 2031-02-25 12:00 UTC only, and the clock says {says} UTC.*coordinator \(north"
        with pytest.raises(ExpiredError, match=told):
            kept.named("north", at)
    renewed = after(kept, "north", at=NOW + timedelta(days=299))
    assert renewed.named("north", NOW + timedelta(days=500)).name == "north"
    for days, before in ((300, 30), (60, 15), (8, 2)):  # a quarter of its life, and at most a month
        short = members.found_consortium("north", KEYS["north"], days=days, at=NOW)
        soon = [short.ends_soon(NOW + timedelta(days=days - before, hours=hours)) for hours in (-1, 1)]
        assert (soon, short.ends_soon(NOW)) == ([False, True], False)
    with pytest.raises(ExpiredError, match="1 to 398 days, got 399"):
        draft(kept, days=399)
    with pytest.raises(ValueError, match="time zone"):
        kept.named("north", NOW.replace(tzinfo=None))


def test_what_was_signed_under_an_earlier_version_is_checked_by_it() -> None:
    kept = three()
    now = after(kept, "north", "west", remove=["south"], at=NOW + timedelta(days=10))
    assert now.signer("south", 2, NOW + timedelta(days=5)).signing_key == KEYS["south"].signing_key
    with pytest.raises(RevokedError):
        now.signer("south", 3, NOW + timedelta(days=12))
    with pytest.raises(ExpiredError):
        now.signer("south", 2, NOW + timedelta(days=301))
    with pytest.raises(KeysError, match="names version 4 of the members' file, and 3 is the newest here"):
        now.signer("north", 4, NOW)
    stolen = after(kept, "north", "west", remove=["south"], stolen=True)
    with pytest.raises(RevokedError, match="stolen"):
        stolen.signer("south", 2, NOW)
    with pytest.raises(UnfitError, match="stolen once"):
        after(stolen, "north", "west", admit=[LINES["south"]])
    again = PrivateKeys.generate()
    for before in (stolen, kept):
        back = after(before, "north", "west", admit=[Member.of("south", again)])
        assert back.named("south", NOW).signing_key == again.signing_key
    assert back.signer("south", 2, NOW).signing_key == KEYS["south"].signing_key


def test_who_has_left_out_a_coordinator_is_told_of_the_file_by_which_it_stops_who_is_behind() -> None:
    exchange, admitted = Memory(), [LINES["south"]]
    kept = after(founded(), "north", "south", admit=admitted, coordinators=["north", "south"], threshold=1)
    without = after(kept, "north", remove=["south"])
    for name in ("north", "south"):
        for version, data in enumerate(without.files, 1):
            exchange.put(file_of(name, version), data)
    published = Published(exchange)
    assert (published.newest(without, own="north"), published.wrong) == (without, [])
    exchange.put(file_of("south", 3), draft(kept, "south", remove=["north"], coordinators=["south"]))
    for known, own in ((kept, "west"), (without, "north")):
        assert published.newest(known, own=own) == known
        assert "several coordinators have signed a version 3" in published.wrong[0]


def test_a_change_that_cannot_work_is_refused_when_it_is_made() -> None:
    kept = three()
    with pytest.raises(RevokedError, match=r"'norht' is no member; did you mean 'north'\?"):
        draft(kept, remove=["norht"])
    with pytest.raises(UnfitError, match="2 of 1 coordinators cannot sign"):
        draft(kept, remove=["south", "west"])
    with pytest.raises(UnfitError, match="'east' is to be a coordinator and is no member"):
        draft(kept, coordinators=["north", "east"])


def test_the_link_names_one_first_file_alone() -> None:
    kept, other = founded(), founded()  # the same keys and times
    other = members.found_consortium("north", PrivateKeys.generate(), days=300, at=NOW)
    place, root = split_link(link("s3://bucket/auc", kept.root))
    assert (place, root) == ("s3://bucket/auc", kept.root)
    assert Members(()).newer(kept.files[0]).root == root != other.root
    with pytest.raises(KeysError, match="none is left out"):
        Members(()).newer(three().files[1])
    for text in ("s3://bucket/auc", "s3://bucket/auc#", "#" + "a" * 32, "x#" + "1" * 32, link("x", root)[:-1]):
        with pytest.raises(UnfitError, match="copy it whole"):
            split_link(text)


def test_the_comparison_is_long_dear_and_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 bits: 2^40 tries on both sides, of 128 MB and about half a second each: in test_wire_formats.py, one."""
    assert join_request._COST == 2**17
    monkeypatch.setattr(join_request, "_COST", 2**10)
    shown = {comparison(root, LINES[name]) for root in (founded().root, bytes(20)) for name in ("south", "west")}
    assert len(shown) == 4
    assert all([len(group) for group in each.split(" ")] == [4, 4, 4, 4] for each in shown)


def test_what_is_kept_is_read_without_tuf() -> None:
    program = (
        "import sys\nfrom datetime import datetime\nfrom fhe_auc_keys.trust.members import Members\n"
        "kept = Members(tuple(bytes.fromhex(each) for each in sys.argv[1:]))\n"
        "print(kept.named('south', datetime.fromisoformat('2030-05-01T12:00:00+00:00')).name, kept.coordinators)\n"
        "assert 'tuf' not in sys.modules and 'securesystemslib' not in sys.modules\n"
    )
    files = [each.hex() for each in three().files]
    shown = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, check=True).stdout
    assert shown == "south ('north', 'south', 'west')\n"
