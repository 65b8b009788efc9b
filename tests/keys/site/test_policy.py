"""A maker's sessions meet a site that has agreed to their study: lies wait for a person, crashes are harmless."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import InputError, MessageError
from fhe_auc.exchange.exchange import Folder
from fhe_auc.question.study import Study
from fhe_auc.report.studies import next_session
from fhe_auc.results.evaluation import CensoringCurve, Outcome
from fhe_auc.results.result_file import as_plain
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import KIND, _Body, announce, open_announcement
from fhe_auc_keys.cli import common, studies
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import making, policy
from fhe_auc_keys.site.key_store_sites import SiteStorage
from fhe_auc_keys.site.making import Made
from fhe_auc_keys.site.policy import Site, WaitsForPersonError, admit, agree
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.members import Change, Members, countersign
from fhe_auc_keys.trust.signed_documents import claimed_body, sign_document
from tests.support.certified import DAY, NOW, Consortium

SITES, ADDER, HELPER = ("north", "south", "west"), "adder", "registry"
KNOWN = Consortium(*SITES, ADDER, HELPER, "stranger")
DAILY = Study(
    **{"model": "net 2", "outcome": "sepsis", "cohort": "adults", "period": "2030", "every": "day"},
    **{"sites": SITES, "maker": "north", "aggregator": ADDER, "protocol": "dpauc-laplace", "epsilon": 1.0},
    **{"thresholds": "uniform:8", "until": (NOW + 20 * DAY).date()},
)
PLAIN = msgspec.structs.replace(DAILY, protocol="exact", epsilon=0.0, helper=HELPER)
CARD = msgspec.structs.replace(DAILY, protocol="verified", report=True)
_COUNTED = next_session(msgspec.structs.replace(CARD, epsilon=0.0), SITES, ())
assert _COUNTED is not None
_EXACT = registry.load(_COUNTED.protocol).prepare(_COUNTED.request).manifest
EXACT_COUNTS = {name: getattr(_EXACT, name) for name in ("protocol", "options", "plan")}


Stores: TypeAlias = Callable[[str], KeyStore]
"""Makes a member's store."""


@pytest.fixture
def store_of(tmp_path: Path) -> Iterator[Stores]:
    with ExitStack() as stores:

        def make(name: str) -> KeyStore:
            store = stores.enter_context(KeyStore.create(tmp_path / name, "four random words"))
            KNOWN.settle(store, name)
            return store

        yield make


def members(*left: str) -> Members:
    """Those of the consortium, without who has left."""
    if not left:
        return KNOWN.members
    data = KNOWN.members.next_version(Change(remove=left), days=365, at=NOW)
    return KNOWN.members.newer(countersign(data, KNOWN.office.keys))


@dataclass
class Maker:
    """North, which makes the sessions of one study."""

    store: KeyStore
    exchange: Folder

    def look(self, *left: str, at: datetime = NOW) -> Made:
        config = {"results": str(self.exchange.root.parent / "results")}
        clock: Any = SimpleNamespace(now=lambda: at)
        (stands,) = making.make_due(config, self.store, self.exchange, members(*left), clock)
        return stands

    @property
    def published(self) -> list[bytes]:
        """What announces sessions, in the order of their names."""
        return [path.read_bytes() for path in sorted(self.exchange.root.glob("*/*/session"))]


@pytest.fixture
def maker(tmp_path: Path, store_of: Stores) -> Maker:
    (tmp_path / "exchange").mkdir()
    made = Maker(store_of("north"), Folder(tmp_path / "exchange"))
    making.begin(made.store, DAILY)
    return made


def opened(document: bytes, at: datetime = NOW, holder: str = "north") -> Any:
    return open_announcement(document, KNOWN.members, holder=holder, at=at)


def test_a_maker_that_is_killed_at_any_put_makes_no_second_session(maker: Maker) -> None:
    making.begin(maker.store, PLAIN)
    put = maker.exchange.put
    for puts in itertools.count():
        left = [put] * puts
        maker.exchange.put = lambda name, data, left=left: left.pop()(name, data)  # type: ignore[method-assign]
        with suppress(IndexError):
            stands = maker.look()
            break
    assert puts == 3  # of four files: announcement, and a bundle for each party; the others were there
    (document,) = maker.published
    assert opened(document).manifest.session == stands.session
    assert not stands.new
    maker.exchange.put = put  # type: ignore[method-assign]
    for path in [*maker.exchange.root.glob("*/*/*")]:  # whatever is lost is put again
        data = path.read_bytes()
        path.unlink()
        assert maker.look() == stands
        assert path.read_bytes() == data


def test_each_turn_has_one_session_until_the_study_ends_and_what_is_over_leaves_store_and_exchange(
    maker: Maker,
) -> None:
    made = []
    for hours in range(0, 24 * 30, 7):
        at = NOW + timedelta(hours=hours)
        stands = maker.look(at=at)
        made += [stands.session] if stands.new else []
        assert stands.ended == (at.date() > NOW.date() + timedelta(days=20))
    assert len(set(made)) == len(made) == 21
    assert maker.store.names("made") == ()
    assert maker.published == []


def test_a_session_whose_place_is_obstructed_keeps_no_later_one_from_the_exchange(maker: Maker) -> None:
    maker.look()
    (file,) = maker.exchange.root.glob("*/*/session")
    file.unlink()
    file.mkdir()
    for day in (1, 2):
        with pytest.raises(OSError, match="directory"):
            maker.look(at=NOW + day * DAY)
    assert sum(path.is_file() for path in maker.exchange.root.glob("*/*/session")) == 2


def test_a_clock_that_goes_ahead_and_back_makes_no_second_session_of_any_turn(maker: Maker) -> None:
    turns = []
    for hours in (0, 1, 25, 2, 24, 25, 48, 24, 25, 49):
        stands = maker.look(at=NOW + timedelta(hours=hours))
        turns += [hours // 24] if stands.new else []
        assert ("is of a later turn than it is by the clock" in stands.wrong) == (hours // 24 < max(turns))
    assert turns == [0, 1, 2]
    assert len(maker.published) == 3


def test_a_clock_a_day_ahead_takes_back_nothing_that_is_still_answered(maker: Maker) -> None:
    making.begin(maker.store, msgspec.structs.replace(DAILY, every="", days=1))
    made = maker.look()
    maker.look(at=NOW + DAY + timedelta(minutes=5))
    assert [opened(each).manifest.session for each in maker.published] == [made.session]
    maker.look(at=NOW + 2 * DAY + timedelta(minutes=5))
    assert maker.published == []


def test_who_is_no_member_any_more_is_left_out_of_the_next_session_unless_the_study_cannot_go_on(maker: Maker) -> None:
    assert maker.look().new
    assert maker.look("south", at=NOW + DAY).new
    parties = [opened(each, NOW + DAY).manifest.parties for each in maker.published]
    assert sorted(parties) == [("north", "south", "west"), ("north", "west")]
    for left, why in (
        (ADDER, "no session is made: 'adder' is no member"),
        ("south west", "sites: 1 of the study's take part"),
    ):
        assert why in maker.look(*left.split(), at=NOW + 2 * DAY).wrong
    assert len(maker.published) == 2
    assert maker.look(at=NOW + 2 * DAY).new


def session(
    of: Study,
    at: datetime = NOW,
    parties: tuple[str, ...] = SITES,
    *,
    grid: Any = None,
    known: tuple[Outcome, ...] = (),
    **changes: Any,
) -> tuple[Any, bytes]:
    """A session as the maker, or who lies, announces it; with a `grid` step 2, at thresholds that step 1 found."""
    asked = next_session(of if grid is None else msgspec.structs.replace(of, thresholds=tuple(grid)), parties, known)
    assert asked is not None
    asked = asked if grid is None else replace(asked, step=2)
    manifest = asked.named(
        registry.load(asked.protocol).prepare(asked.request).manifest, changes.get("turn", of.turn(at))
    )
    manifest = msgspec.structs.replace(manifest, **changes.get("manifest", {}))
    roles = {"aggregator": ADDER, "helper": HELPER if of.helper else "", "days": of.days}
    study, holder = changes.get("study", of), changes.get("holder", "north")
    told = msgspec.structs.replace(study, **{name: changes.get(name, usual) for name, usual in roles.items()})
    document = announce(KNOWN.identities[holder], manifest, KNOWN.members, told, at=at)
    if told != study:  # who lies announces others than the study names
        body = claimed_body(KIND, document, _Body)
        lie = msgspec.structs.replace(Manifest.from_bytes(body.manifest), study=study)
        document = sign_document(KIND, KNOWN.identities[holder], msgspec.structs.replace(body, manifest=lie.to_bytes()))
    return opened(document, at, holder), document


ANY = Site(Path("."), None)


WAITS = "waits? for a person|wait already"


def waits(store: KeyStore, made: tuple[Any, bytes], why: str, at: datetime = NOW, site: Site = ANY) -> None:
    with pytest.raises(WaitsForPersonError, match=why):
        admitted(store, made, at, site)


def refused(store: KeyStore, made: tuple[Any, bytes], why: str, at: datetime = NOW, site: Site = ANY) -> None:
    with pytest.raises(KeysError, match=why):
        admitted(store, made, at, site)


def admitted(store: KeyStore, made: tuple[Any, bytes], at: datetime = NOW, site: Site = ANY) -> None:
    admit(store, made[0], site, made[1], at=at)


@pytest.mark.parametrize(
    ("study", "changes", "why"),
    [
        (DAILY, {"holder": "south"}, "signed by 'south', not by 'north'"),
        (DAILY, {"aggregator": "stranger"}, "aggregated by 'stranger', not by 'adder'"),
        (PLAIN, {"helper": "stranger"}, "helped by 'stranger', not by 'registry'"),
        (DAILY, {"parties": ("north", "south")}, "leaves out west, who is a member"),
        (DAILY, {"manifest": {"parties": ("south", "north", "west")}}, "parties are others than"),
        (DAILY, {"days": 8}, "can go on for more than the study's 7 days"),
        (DAILY, {"turn": DAILY.turn(NOW) - 1}, "turn is not that of its beginning"),
        (DAILY, {"turn": 0}, "turn is not that of its step"),
        (DAILY, {"manifest": {"step": 2}}, "has no result of step 1, which comes before it, step 2"),
        (DAILY, {"manifest": {"step": 0}}, "its study has no step 0"),
        (DAILY, {"manifest": {"options": {"epsilon": 2.0}}}, "but for other options"),
        (DAILY, {"manifest": {"grid": np.linspace(0, 1, 9).tobytes()}}, "but for other grid"),
        (CARD, {"manifest": EXACT_COUNTS}, "but for other protocol, plan"),
        (PLAIN, {"manifest": {"min_parties": 2}}, "but for other"),
        (DAILY, {"study": msgspec.structs.replace(DAILY, interval=0.9)}, "agreed to its study: .* is in interval"),
    ],
)
def test_a_session_that_the_study_does_not_make_waits_until_a_person_says_yes(
    store_of: Stores, study: Study, changes: dict[str, Any], why: str
) -> None:
    store, made = store_of("south"), session(study, **changes)
    site = Site(Path("."), (*SITES, ADDER))
    agree(store, study)
    waits(store, made, why, site=site)
    (waiting,) = policy.waiting(store).values()
    assert waiting.announcement == made[1]
    policy.decide(store, made[0], yes=False, at=NOW)
    refused(store, made, "a person has refused this session", site=site)
    policy.decide(store, made[0], yes=True, at=NOW)
    admitted(store, made, site=site)
    assert policy.waiting(store) == {}
    assert made[0].study in [each.study for each in policy.agreed(store)]


def test_a_yes_is_to_what_the_person_has_seen_and_to_no_other_session_of_the_same_id(
    store_of: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer ones of its maker take no place; but what is shown may be over meanwhile, and another of its id come."""
    store, seen = store_of("south"), session(DAILY)
    other = session(DAILY, study=msgspec.structs.replace(DAILY, by=("name=a,b",)), manifest=one_id(seen))
    late = [session(DAILY, NOW + timedelta(minutes=each)) for each in range(1, policy.MOST_WAITING + 1)]
    for made in (seen, *late):
        waits(store, made, WAITS, NOW + timedelta(minutes=30))
    refused(store, other, "another session of the same id, which waits", NOW + timedelta(minutes=30))
    assert policy.waiting(store)[seen[0].manifest.session.hex()].announcement == seen[1]
    after = session(DAILY, NOW + 10 * DAY, study=other[0].study, manifest=one_id(seen))
    waits(store, after, WAITS, NOW + 10 * DAY)
    monkeypatch.setattr(common, "now", lambda: NOW)
    vault: Any = SimpleNamespace(open=lambda: nullcontext(store))
    with pytest.raises(KeysError, match="another one than was shown: nothing was agreed to"):
        studies._decided(vault, seen[0].manifest.session.hex(), yes=True, seen=seen[1])
    assert policy.agreed(store) == ()
    policy.decide(store, seen[0], yes=True, at=NOW)
    waits(store, other, "it differs from one that is in by")
    policy.decide(store, other[0], yes=False, at=NOW)
    for made in (seen, other):
        refused(store, made, "a person has refused this session")


def test_odd_rows_wait_for_a_yes_of_their_own_once_for_each_study(store_of: Stores) -> None:
    """A yes to the session, before anybody had looked at rows, is none to these; no other study is asked about."""
    store, first, tomorrow = store_of("south"), session(DAILY), session(DAILY, NOW + DAY)

    def asked(made: Any, odd: str, at: datetime = NOW) -> None:
        policy.ask_about_rows(store, made[0], made[1], odd, at=at)

    asked(first, "of F alone")
    waits(store, first, WAITS)
    policy.decide(store, first[0], yes=True, at=NOW)
    admitted(store, first)
    for _ in range(2):
        with pytest.raises(WaitsForPersonError, match=r"its rows here: of F alone$"):
            asked(first, "of F alone")
    (waiting,) = policy.waiting(store).values()
    assert (waiting.announcement, waiting.why) == (first[1], "its rows here: of F alone")
    policy.decide(store, first[0], yes=True, at=NOW)
    asked(first, "of F alone")
    admitted(store, first)
    admitted(store, tomorrow, NOW + DAY)
    asked(tomorrow, "of wards 2 and 5 alone", NOW + DAY)  # a ward without patients on that day stops no series
    agree(store, msgspec.structs.replace(DAILY, interval=0.9))
    agree(store, DAILY)
    with pytest.raises(WaitsForPersonError):
        asked(tomorrow, "of 0 alone", NOW + DAY)
    policy.decide(store, tomorrow[0], yes=False, at=NOW + DAY)
    with pytest.raises(MessageError, match="a person has refused") as refusal:
        asked(tomorrow, "of 0 alone", NOW + DAY)
    assert refusal.value.field == "missed"


def one_id(made: Any) -> dict[str, Any]:
    return {"session": made[0].manifest.session}


def test_a_study_is_answered_once_a_turn_by_any_clock(store_of: Stores) -> None:
    store = store_of("south")
    agree(store, DAILY)
    first = session(DAILY)
    admitted(store, first)
    admitted(store, first)  # it may try again
    waits(store, session(DAILY, NOW + DAY / 4), r"took part in session .* of the same step and turn", NOW + DAY / 4)
    tomorrow = session(DAILY, NOW + DAY)
    refused(store, tomorrow, "by its clock it is too soon", NOW + DAY / 4)
    admitted(store, tomorrow, NOW + DAY)
    waits(store, session(DAILY, NOW + DAY / 3), "or a later one", NOW + 2 * DAY)
    late = NOW + 21 * DAY
    refused(store, session(DAILY, late), "its study ended on 2030-05-21", late)
    admitted(store, session(DAILY, NOW + 2 * DAY), NOW - DAY)  # a clock that was put back keeps nothing from going on


def test_parties_other_than_those_of_the_last_session_are_for_a_person_beyond_most_away(store_of: Stores) -> None:
    left = Site(Path("."), ("north", "south", ADDER))  # west is a member no more
    for most_away, name in ((0, "south"), (1, "west")):
        store, study = store_of(name), msgspec.structs.replace(DAILY, most_away=most_away)
        agree(store, study)
        admitted(store, session(study))
        fewer = session(study, NOW + DAY, ("north", "south"))
        if most_away:
            admitted(store, fewer, NOW + DAY, left)
            continue
        waits(store, fewer, r"differ from those of .* in 'west': two results would tell", NOW + DAY, left)
        policy.decide(store, fewer[0], yes=True, at=NOW)
        admitted(store, fewer, NOW + DAY, left)
        admitted(store, session(study, NOW + 2 * DAY, ("north", "south")), NOW + 2 * DAY, left)


def test_a_study_of_the_same_question_under_another_name_meets_the_same_last_parties(store_of: Stores) -> None:
    store, other = store_of("south"), msgspec.structs.replace(DAILY, cohort="all", sites=SITES[:2])
    for study in (DAILY, other):
        agree(store, study)
    admitted(store, session(DAILY))
    waits(store, session(other, parties=SITES[:2]), "in 'west': two results would tell")


def test_thresholds_of_the_rows_are_those_that_the_site_has_found_or_that_a_person_has_taken(
    store_of: Stores, tmp_path: Path
) -> None:
    store, study = store_of("south"), msgspec.structs.replace(PLAIN, thresholds="quantile:8")
    agree(store, study)
    site = Site(tmp_path, None)
    admitted(store, session(study), site=site)

    found = np.arange(8) / 8
    first = session(study, grid=found)
    waits(store, first, "has no result of step 1, which comes before it", site=site)
    policy.decide(store, first[0], yes=True, at=NOW)
    admitted(store, first, site=site)
    admitted(store, session(study, NOW + DAY, grid=found), NOW + DAY, site)
    waits(store, session(study, NOW + 2 * DAY, grid=np.arange(8) / 9), "but for other grid", NOW + 2 * DAY, site)
    helper, helps = store_of(HELPER), Site(None, None, helps=True)
    agree(helper, study)
    admitted(helper, session(study, grid=np.arange(8) / 9), site=helps)  # parties look after that


def test_weights_at_a_horizon_are_those_of_the_curve_that_the_site_knows_and_a_helper_leaves_that_to_the_sites(
    store_of: Stores, tmp_path: Path
) -> None:
    curve = CensoringCurve(
        protocol="", backend="", parties=3, security_bits=0, beyond=40, counts=np.array([[0, 3, 4, 2], [1, 6, 2, 8]])
    )
    times = {"time_column": "days", "event_column": "status", "horizon": (30.0,), "time_grid": 10.0}
    study = msgspec.structs.replace(PLAIN, **times)
    first, honest, lie = (session(study, known=known) for known in ((), (curve,), (replace(curve, beyond=39),)))
    site, helps = Site(tmp_path, None), Site(None, None, helps=True)
    for name in ("south", "west"):
        store = store_of(name)
        agree(store, study)
        admitted(store, first, site=site)
        result = tmp_path / f"1-{first[0].manifest.session.hex()}.json"
        result.unlink(missing_ok=True)
        waits(store, honest, "has no result of step 1, which comes before it", site=site)
        about = {"party": name, "session": "00", "version": "1", "time": NOW.isoformat()}
        result.write_text(json.dumps({**about, **as_plain(curve)}))
        if name == "west":
            waits(store, lie, "it is not what the study makes, but for other plan", site=site)
        else:
            admitted(store, honest, site=site)
    helper = store_of(HELPER)
    agree(helper, study)
    admitted(helper, first, site=helps)
    admitted(helper, lie, site=helps)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"step": 3}, "has no result of step 2, which comes before it, step 3"),
        ({"step": 1}, "but for other"),
        ({"step": 2, "options": {"epsilon": 9.0}}, "its plan"),
        ({"step": 2, "min_parties": 2}, "but for other min_parties"),
    ],
)
def test_a_helper_opens_what_the_study_makes_and_nothing_else_but_for_thresholds_that_it_cannot_know(
    store_of: Stores, changes: dict[str, Any], why: str
) -> None:
    helper, study = store_of(HELPER), msgspec.structs.replace(PLAIN, thresholds="quantile:8")
    agree(helper, study)
    turn = 0 if changes["step"] == 1 else study.turn(NOW)
    odd = session(study, grid=np.arange(8) / 8, turn=turn, manifest=changes)
    waits(helper, odd, why, site=Site(None, None, helps=True))


def test_who_announces_many_sessions_hides_nobody_else_s_and_those_that_are_over_do_not_wait(store_of: Stores) -> None:
    store, most = store_of("south"), policy.MOST_WAITING
    honest = session(msgspec.structs.replace(DAILY, maker="west"), holder="west")
    waits(store, honest, WAITS)
    for number in range(most + 3):
        at = NOW + timedelta(minutes=number)
        told = "nobody here has agreed to its study" if number < most else "10 sessions of its maker wait already"
        waits(store, session(DAILY, at), told, at)
    found = policy.waiting(store)
    assert honest[0].manifest.session.hex() in found
    ends = [each.ends for each in found.values() if each.maker == "north"]
    assert (len(found), len(ends)) == (most + 1, most)
    assert min(ends) == (NOW + timedelta(days=7)).timestamp()
    late = NOW + 10 * DAY
    waits(store, session(DAILY, late), WAITS, late)
    assert len(policy.waiting(store)) == 1


def test_a_maker_whose_store_is_put_back_makes_no_second_session_of_a_turn_and_where_it_is_lost_people_are_asked(
    tmp_path: Path, store_of: Stores, maker: Maker
) -> None:
    south = store_of("south")
    agree(south, DAILY)
    shutil.copytree(maker.store.directory, tmp_path / "backup")
    made = maker.look()
    (document,) = maker.published
    admitted(south, (opened(document), document))

    def put_back(name: str) -> KeyStore:
        shutil.copytree(tmp_path / "backup", tmp_path / name)
        return KeyStore(tmp_path / name, "four random words")

    with put_back("once") as maker.store:
        for _ in range(2):
            assert maker.look() == replace(made, new=False)
        assert maker.published == [document]
        assert maker.look(at=NOW + DAY).new
        maker.look(at=NOW + 30 * DAY)  # it takes out of the exchange what it has found there, too
        assert maker.published == []
    with put_back("twice") as maker.store:
        assert maker.look().session != made.session
        (document,) = maker.published
        waits(south, (opened(document), document), f"took part in session {made.session.hex()} of the same step")
        first = maker.look()
        making.begin(maker.store, DAILY, again=True)
        assert maker.look().session != first.session  # as a person has asked


def test_a_study_that_another_site_makes_or_that_cannot_be_is_not_begun(store_of: Stores) -> None:
    with pytest.raises(KeysError, match="the study's maker is 'north', and this is the store of 'south'"):
        making.begin(store_of("south"), DAILY)
    with pytest.raises(InputError, match=r"^epsilon:"):
        making.begin(store_of("north"), msgspec.structs.replace(DAILY, protocol="verified"))


def test_the_manifest_of_a_step_is_within_its_bounds() -> None:
    manifest = session(DAILY)[0].manifest
    with pytest.raises(InputError, match="a session is step 1 to 100 of its study"):
        Manifest.from_bytes(msgspec.structs.replace(manifest, step=101).to_bytes())


def test_a_site_looks_for_the_columns_that_its_studies_name(store_of: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """No labels where times take their place."""
    times = {"epsilon": 0.0, "time_column": "days", "event_column": "status=2,1", "horizon": (30.0,)}
    weighed = {"epsilon": 0.0, "weight_column": "ipw=5", "score_columns": ("a", "b"), "by": ("sex=F,M",)}
    store = store_of("south")
    monkeypatch.setattr(SiteStorage, "_opened", lambda self, config: nullcontext(store))
    for changes, numbers, others in ((times, ["days"], ["status"]), (weighed, ["a", "b", "ipw"], ["y_true", "sex"])):
        agree(store, msgspec.structs.replace(PLAIN, **changes))  # in place of the one before
        assert SiteStorage().columns({}) == (numbers, others)
