"""Where parties may be missing from a padded session, the key holder opens once, for those who count."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, TooFewPartiesError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.session_keys import aggregator_material, party_secrets, public_context
from fhe_auc_keys.errors import ExpiredError, KeysError, StoreError, TamperedError
from fhe_auc_keys.site import key_erasure, key_store_sites
from fhe_auc_keys.site.late_opening import ask_by_file, hold, is_late, open_late, read_opening, request
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_protocols.exact_auc.computations import ExactPaddedComputation
from tests.support.certified import DAY, NOW, STUDY
from tests.support.platforms import needs_unix_files
from tests.support.pooled import exact_auc
from tests.support.sealed_sessions import ADDER, HOLDER, Sealing
from tests.support.stored_sites import GRID as SITES_GRID
from tests.support.stored_sites import Consortium as Sites
from tests.support.wire import flipped

NAMES = ("north", "south", "east", "west")
GRID = np.linspace(0, 1, 16)
THREE = ("north", "east", "west")


class Late(NamedTuple):
    """A session of four parties that goes on with three, and the key holder's store."""

    consortium: Sealing
    session: Session
    announced: Announcement
    store: KeyStore

    def asked(self, *counted: str, by: Identity | None = None, **changes: Any) -> bytes:
        manifest = msgspec.structs.replace(self.announced.manifest, **changes)
        return request(by or self.consortium.identities[ADDER], manifest, counted)

    def opened(self, document: bytes, at: Any = NOW) -> bytes:
        return open_late(self.store, self.consortium.identities[HOLDER], self.consortium.trust(at), document, at=at)

    def read(self, opening: bytes, *counted: str, by: str = ADDER) -> bytes:
        identity, trust = self.consortium.identities[by], self.consortium.trust()
        return read_opening(opening, identity, trust, self.announced, counted, at=NOW)

    def ask(self, folder: Path) -> bytes:
        """As an aggregator that does not wait for the answer."""
        identity, trust = self.consortium.identities[ADDER], self.consortium.trust()
        return ask_by_file([folder], identity, trust, self.announced, 0.0, THREE, at=NOW)

    def assert_seeds(self, *, kept: bool) -> None:
        assert all((seed in everything(self.store)) == kept for seed in self.session.seeds.values())


def everything(store: KeyStore) -> bytes:
    """All that the store holds of sessions to be opened late, decrypted."""
    return b"".join(store.get("late", name) for name in store.names("late"))


@pytest.fixture(params=[pytest.param("exact", marks=pytest.mark.slow), "verified"])
def late(request: pytest.FixtureRequest, store: KeyStore) -> Late:
    return held(request.param, store, Sealing(*NAMES), most_away=1)


def held(
    protocol: str, store: KeyStore, consortium: Sealing, *, most_away: int, parties: tuple[str, ...] = NAMES
) -> Late:
    asked = Request(parties=parties, thresholds=GRID, min_parties=3, max_rows=1000)
    session = registry.load(protocol).prepare(asked)
    study = msgspec.structs.replace(STUDY, most_away=most_away)
    sealed = consortium.seal(session, lifetime=2 * DAY, study=study)
    announced = open_announcement(sealed.announcement, consortium.trust(), holder=HOLDER, at=NOW)
    hold(store, session, sealed.announcement, announced.not_after)
    return Late(consortium, session, announced, store)


def test_a_list_that_one_site_tells_from_that_of_all_or_of_another_session_is_not_opened(store: KeyStore) -> None:
    """Nor is a first one; and who asks again for those who were there is answered."""
    consortium = Sealing(*NAMES)
    first, second = (held("verified", store, consortium, most_away=0) for _ in range(2))
    with pytest.raises(KeysError, match=r"not opened: .* tell the counts of 'south'"):
        first.opened(first.asked(*THREE))
    first.opened(first.asked(*NAMES))
    agreed = held("verified", store, consortium, most_away=1)
    agreed.opened(agreed.asked(*THREE))
    turned = held("verified", store, consortium, most_away=0, parties=NAMES[::-1])
    for each in (second, turned):
        with pytest.raises(KeysError, match=r"not opened: .* tell the counts of 'south'"):  # which is back
            each.opened(each.asked(*each.announced.manifest.parties))


def test_no_opening_exists_before_it_is_known_who_counts_and_then_one_in_one_process_too(late: Late) -> None:
    manifest, material = late.session.manifest, late.session.aggregator_material
    assert is_late(late.announced.manifest)
    assert public_context(material)[1] == b""
    plugin = registry.load(manifest.protocol)
    party = plugin.party(manifest, late.session.party_material, PartyData.from_arrays("north", [0, 1], [0.2, 0.9]))
    with pytest.raises(EvaluationError, match="has submitted already"):  # without its seed none can submit
        party.respond(plugin.aggregator(manifest, material).start())
    with pytest.raises(InputError, match="has an opening before it is known who counts"):
        plugin.aggregator(manifest, aggregator_material(material, b"an opening for all"))
    open_late = late.session.delivery().open_late
    assert open_late is not None
    open_late(THREE)
    with pytest.raises(EvaluationError, match="for other parties has been made"):
        open_late(NAMES)


@pytest.mark.parametrize(
    ("ahead", "kept"),
    [
        ({0: 8, 1 / 24: 0, 1.9: 0}, True),  # 8 days ahead for an hour
        ({0: 8, 1: 8, 1.9: 0}, True),  # for a day, through which something looks
        ({0: 8, 1: 40}, False),  # and further ahead: that no clock tells from the end
        ({0: 300, 1: 300, 1.9: 0, 2.1: 0, 9.9: 0}, True),
        *(({hour / 4: days for hour in range(28)}, True) for days in (8, 56)),  # for a week
        ({2.1: 0, 10: 0}, True),
        ({2.1: 0, 10.2: 0}, False),
        ({2.1: 8, 3: 0, 10.9: 0}, True),  # eight days from the look that was right
        ({2.1: 8, 3: 0, 11: 0}, False),
        ({2.1: 0, 5: -300, 10.2: 0}, False),  # each boot starts in the past, before the session
        ({2.1: 0, 5: -300, 10: 0}, True),
    ],
)
def test_seeds_are_erased_once_the_end_was_seen_on_two_looks_at_the_clock_that_lie_8_days_apart(
    ahead: dict[float, float], kept: bool, late: Late, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day on which something opens the key store for a session, how far its clock is ahead; the end is on day 2."""
    for revoked in (HOLDER, "south"):  # whoever was revoked
        late.consortium.revoke(revoked)
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("long enough")
    passphrase.chmod(0o600)
    late.store.close()
    config = {"store": str(tmp_path / "store"), "passphrase-file": str(passphrase)}
    for day, days in ahead.items():
        monkeypatch.setattr(key_store_sites, "_now", lambda at=NOW + (day + days) * DAY: at)
        with key_store_sites._opened(config) as store:
            found = late._replace(store=store)
            if (day, days) != list(ahead.items())[-1]:
                found.assert_seeds(kept=True)
    found = late._replace(store=KeyStore(tmp_path / "store", "long enough"))
    found.assert_seeds(kept=kept)
    if kept:  # a clock that is set right is believed
        key_erasure.purge(found.store, at=NOW)
        assert key_erasure.noted_ends(found.store) == {}
    found.store.close()


def test_it_is_made_once_for_the_same_names_the_same_bytes_for_others_nothing(late: Late) -> None:
    late.assert_seeds(kept=True)
    assert party_secrets(late.session.party_material, late.session.manifest).common_secret not in everything(late.store)
    first = late.opened(late.asked(*THREE))
    late.assert_seeds(kept=False)  # before the opening leaves
    assert late.session.party_material not in everything(late.store)
    assert late.opened(late.asked(*THREE)) == first
    for others in (NAMES, NAMES[:3]):
        with pytest.raises(KeysError, match="for other parties"):
            late.opened(late.asked(*others))
    assert late.read(first, *THREE)
    with pytest.raises(TamperedError):
        late.read(first, *THREE, by="north")
    with pytest.raises(KeysError, match="the late opening is for another session, or for"):
        late.read(first, *NAMES)
    with pytest.raises(TamperedError):
        late.read(flipped(first, -1), *THREE)


def test_a_crash_before_it_is_written_down_leaves_nothing_opened(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(KeyStore, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            late.opened(late.asked(*NAMES))
    assert late.read(late.opened(late.asked(*THREE)), *THREE)  # for other names: nothing had left


def test_a_session_that_has_ended_is_not_opened_late_and_keeps_its_seeds_until_the_clock_is_sure(late: Late) -> None:
    key_erasure.purge(late.store, at=NOW + 3 * DAY)
    with pytest.raises(ExpiredError, match="outdated"):
        late.opened(late.asked(*THREE), NOW + 3 * DAY)
    late.assert_seeds(kept=True)
    assert late.read(late.opened(late.asked(*THREE)), *THREE)  # the clock was wrong


def test_nothing_is_opened_late_once_the_seeds_are_erased(late: Late) -> None:
    for days in (3, 11):
        key_erasure.purge(late.store, at=NOW + days * DAY)
    late.assert_seeds(kept=False)
    assert party_secrets(late.session.party_material, late.session.manifest).context not in everything(late.store)
    with pytest.raises(ExpiredError, match="its seeds are erased"):  # also where the clock is put back
        late.opened(late.asked(*THREE))


def test_a_damaged_list_of_ended_sessions_is_told_of_keeps_nobody_from_going_on_and_is_made_anew(late: Late) -> None:
    key_erasure.purge(late.store, at=NOW + 3 * DAY)
    (late.store.directory / "trust" / key_erasure.ENDS).write_bytes(b"damaged")
    assert f"trust/{key_erasure.ENDS}" in [each.entry for each in problems(late.store, at=NOW)]
    for days, kept in ((4, True), (11, True), (12, False)):
        key_erasure.purge(late.store, at=NOW + days * DAY)
        late.assert_seeds(kept=kept)


def test_an_opening_that_holds_a_seed_is_not_sent(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = late.session.seeds["west"]
    monkeypatch.setattr(ExactPaddedComputation, "opening", lambda *_: b"opening" + seed)
    with pytest.raises(KeysError, match="the aggregator's material holds secret key"):
        late.opened(late.asked(*THREE))
    assert seed in everything(late.store)  # nothing was written


def test_what_the_sessions_aggregator_has_not_asked_or_cannot_ask_is_refused(late: Late) -> None:
    people = late.consortium.identities
    north_twice, unordered = ("north", "north", "east"), ("east", "north", "west")
    asked = late.asked
    for document, error, why in (
        *(
            (asked(*counted), KeysError, "at least 3")
            for counted in (NAMES[:2], ("north",), (), north_twice, unordered, (*THREE, "stranger"))
        ),
        *((asked(*THREE, by=people[other]), KeysError, "not by 'coordinator'") for other in ("north", HOLDER)),
        (flipped(asked(*THREE), -1), TamperedError, None),
        # Another certificate of its own.
        (asked(*THREE, by=late.consortium.certified(people[ADDER])), TamperedError, "certificate of this session"),
        (asked(*THREE, session=bytes(16)), StoreError, "holds no seeds"),
        (asked(*NAMES[:2], min_parties=2), KeysError, "the request is for another session, or its"),
    ):
        with pytest.raises(error, match=why):
            late.opened(document)
    assert late.read(late.opened(asked(*THREE)), *THREE)


def test_aggregator_and_key_holder_may_be_on_different_machines_and_pass_files(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    """The aggregator waits for the file, as a run of Flower does; the key holder answers from its own key store."""
    consortium = Sites(site_rows, tmp_path / "c", "verified", min_parties=2)
    missing, *present = consortium.sites

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in present:
            yield name, consortium.answer(name, message)

    with consortium.made.meanwhile:
        record = conduct(consortium.aggregator(), exchange)
    assert (record.counted, record.missing) == (tuple(present), (missing,))
    truth = exact_auc([consortium.sites[name] for name in present], SITES_GRID)
    assert [found.auc for found in consortium.results.values()] == pytest.approx([truth] * len(present), abs=1e-15)


def test_too_few_parties_end_the_session_and_who_has_submitted_cannot_miss_the_echo(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Sites(site_rows, tmp_path / "c", "verified", min_parties=2)
    aggregator = consortium.aggregator()
    opening = aggregator.start()
    aggregator.receive("north", consortium.answer("north", opening))
    with pytest.raises(TooFewPartiesError, match="at least 2 are needed"):
        aggregator.finish_round()
    aggregator.receive("east", consortium.answer("east", opening))
    with consortium.made.meanwhile:
        result = aggregator.finish_round()
    aggregator.receive("north", consortium.answer("north", result))
    with pytest.raises(TooFewPartiesError, match="'east'"):
        aggregator.finish_round()


def test_an_aggregator_whose_key_holder_does_not_answer_says_what_to_do(late: Late, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="fhe-auc keys open-late"):
        late.ask(tmp_path)
    (request,) = tmp_path.glob("*.request")
    assert late.read(late.opened(request.read_bytes()), *THREE)


@needs_unix_files
def test_what_is_no_whole_opening_is_waited_out_and_said(late: Late, tmp_path: Path) -> None:
    """It may be half a copy, anything that others have put there, or another session's.

    What the clock says then does not matter: whom the aggregator trusts was settled when it opened the session.
    """
    opening = late.opened(late.asked(*THREE))
    file = tmp_path / f"{late.announced.manifest.session.hex()}.opening"
    for data in (opening[:100], flipped(opening, -1), None):
        if data is None:
            file.unlink()
            os.mkfifo(file)
        else:
            file.write_bytes(data)
        with pytest.raises(EvaluationError, match="by `fhe-auc keys open-late`; what is there does not count: "):
            late.ask(tmp_path)
    file.unlink()
    file.write_bytes(opening)
    assert late.ask(tmp_path) == late.read(opening, *THREE)
