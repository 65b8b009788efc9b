"""What a result that says "verified" covers: every number in it is proved, or says that it is not."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.quantities import chance_text
from fhe_auc.machines import outcomes, site_state
from fhe_auc.machines.site_state import site_storage
from fhe_auc.results import estimates, evaluation, heterogeneity, intervals
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.rlwe import modular
from fhe_auc.rows.party_data import CountedBefore, PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.exact_auc.precision_sum import PrecisionSum
from tests.support.exact_sessions import GRID, Play, rows
from tests.support.pooled import pooled
from tests.support.stored_sites import Consortium

PROVED, DERIVED, PUBLIC, NOT_VERIFIED = "proved", "derived from proved and public numbers", "public", "not verified"
"""Proved: the theorem of docs/security/verified.md covers the integer. Public: agreed, or counted by the party itself;
the aggregator does not compute it."""


def sorted_as(proved: str = "", derived: str = "", public: str = "", not_verified: str = "") -> dict[str, str]:
    kinds = {PROVED: proved, DERIVED: derived, PUBLIC: public, NOT_VERIFIED: not_verified}
    return {name: kind for kind, fields in kinds.items() for name in fields.split()}


_OUTCOME = sorted_as(
    proved="parties",  # the theorem is of the sums of just these
    public="protocol backend security_bits keys rounds upload_bytes_per_party download_bytes_per_party "
    "seconds settings study verified soundness",  # with epsilon, what follows from the budget too
    # Text, of the session before as well; and what both servers of a session with proofs say
    not_verified="warnings unproved_parties",
)
SORTED: Mapping[type, Mapping[str, str]] = {
    Evaluation: _OUTCOME
    | sorted_as(
        proved="positives negatives histogram",  # the last by two tags; None with verified
        # D, P and N; ties; Q10 and Q01; average precision: a proved sum, of entries
        # that were divided by proved counts of the same rows
        derived="auc binning_error fraction binning_error_fraction standard_error interval average_precision estimates "
        "comparisons sites",
        public="numerical_error thresholds inputs_proved inputs_not_proved decimals",  # 0, None, or the plan's
    ),
    QuantileThresholds: _OUTCOME | sorted_as("rows_above counted", "grid", "session own_rows_above"),
    estimates.GroupEstimate: sorted_as(
        "positives negatives", "auc standard_error binning_error interval fraction missing", "model group contrast"
    ),
    estimates.Comparison: sorted_as(
        derived="difference binning_error standard_error standard_error_off interval p_value p_at_most p_holm missing",
        public="first second",
    ),
    heterogeneity.SiteSummary: sorted_as(
        "both_classes usable",
        "within within_interval one_class mean i2 tau2 prediction random_mean random_interval",
        "model",
    ),
    intervals.Interval: sorted_as(derived="low high", public="level method"),
}


def names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set(kind._fields)


@pytest.mark.parametrize("kind", SORTED, ids=lambda kind: kind.__name__)
def test_every_field_of_a_result_is_proved_derived_public_or_said_to_be_not_verified(kind: type) -> None:
    assert names(kind) == set(SORTED[kind])


PROOFS = Path(__file__).parents[3] / "proofs"


def test_the_proofs_page_says_of_every_field_which_theorem_covers_it_or_that_none_does() -> None:
    rows = re.findall(r"^\| `(\w+)`: ([^|]+) \| ([^|]+) \|$", (PROOFS / "README.md").read_text("utf-8"), re.MULTILINE)
    told = {(kind, name): text for kind, fields, text in rows for name in re.findall(r"`(\w+)`", fields)}
    theorems = set(re.findall(r"^Print Assumptions (\w+)\.", (PROOFS / "Check.v").read_text("utf-8"), re.MULTILINE))
    beginnings = {PROVED: "`", DERIVED: "from `", PUBLIC: "not covered: ", NOT_VERIFIED: "not covered: "}
    sorts = {(kind.__name__, name): sort for kind, fields in SORTED.items() for name, sort in fields.items()}
    for (kind, name), sort in sorts.items():
        text = told.get((kind, name), "")
        assert text.startswith(beginnings[sort]), (
            f"proofs/README.md, last table: add `{name}` to a row of `{kind}` that begins with {beginnings[sort]!r} "
            f"(here it is {sort}): a theorem of Check.v, or why none covers it; found {text!r}"
        )
        assert sort in (PUBLIC, NOT_VERIFIED) or theorems & set(re.findall(r"`(\w+)`", text)), (kind, name, text)
    assert set(told) == set(sorts), "proofs/README.md, last table: it names fields that no result has"


def test_what_tables_and_json_call_by_other_names_is_sorted_too() -> None:
    renamed = {
        "n",
        "events",
        "minus",
        "variable",
        "confidence",
    }  # rows; the first model; a group's; an interval's level
    sorted_ones = {name for each in SORTED.values() for name in each}
    assert {*evaluation._OF_AUCS, *evaluation._OF_DIFFERENCES} - renamed <= sorted_ones - {
        "average_precision",
        "histogram",
    }
    found = played_honestly()
    assert set(found.as_dict()) <= set(SORTED[Evaluation])
    assert all(set(each) - renamed <= set(SORTED[estimates.GroupEstimate]) for each in found.as_dict()["estimates"])


def played_honestly() -> Evaluation:
    sites = rows(5, 11)
    request = Request(parties=tuple(data.name for data in sites), thresholds=GRID, max_rows=2000, interval=0.95)
    return one_process.run(registry.evaluating("verified"), request, sites, quiet)


def quiet(*_: object) -> None:
    """Report no progress."""


def test_a_verified_result_has_no_number_that_nobody_proves() -> None:
    """Beside warnings, which are text, and names."""
    not_verified = {name for name, sort in SORTED[Evaluation].items() if sort == NOT_VERIFIED}
    assert not_verified == {"warnings", "unproved_parties"}
    found = played_honestly()
    assert found.verified
    assert found.as_dict()["verified"] == {"aggregation": True, "parties": False}


def sites_of(number: int = 5) -> list[PartyData]:
    rng = np.random.default_rng(3)
    found = []
    for at in range(number):
        labels = rng.random(300) < 0.2
        scores = np.clip(rng.normal(0.25 + 0.25 * labels, 0.12), 0, 1).round(2)
        found.append(PartyData.from_arrays(f"site {at}", labels, scores))
    return found


SITES = sites_of()
NAMES = tuple(data.name for data in SITES)
_PLUGIN = registry.evaluating("verified")
_FIRST, _SECOND = _PLUGIN.staged(Request(parties=NAMES, thresholds=np.empty(0), max_rows=10**4), 40)


@pytest.fixture(scope="module")
def before() -> dict[str, QuantileThresholds]:
    """What parties have found in an honest session."""
    return one_process.played(registry.finding("boundaries-federated"), _FIRST, SITES, quiet)


def evaluated(
    before: Mapping[str, QuantileThresholds],
    sites: Sequence[PartyData] = SITES,
    named: Mapping[str, QuantileThresholds] | None = None,
) -> list[Evaluation]:
    """What each site reads that knows this of the session before; the manifest names that one, or another."""
    first = next(iter((named or before).values()))
    asked = dataclasses.replace(_SECOND, thresholds=before[NAMES[0]].grid, before=first.session_before)
    return list(one_process.played(_PLUGIN, asked, sites, quiet, None, before).values())


def none_there(found: Sequence[Evaluation]) -> None:
    """No site has an average precision; all else is verified."""
    for each in found:
        assert each.average_precision is None
        assert any(warning.startswith("there is no average precision") for warning in each.warnings)
        assert each.verified


def test_average_precision_is_that_of_the_rows_and_covered_by_the_theorem(
    before: dict[str, QuantileThresholds],
) -> None:
    from sklearn.metrics import average_precision_score

    pool, (found, *_) = pooled(SITES), evaluated(before)
    binned = np.searchsorted(before[NAMES[0]].grid, pool.y_score, side="right")
    assert found.average_precision == pytest.approx(average_precision_score(pool.y_true, binned), abs=1e-6)
    assert found.as_dict()["verified"] == {"aggregation": True, "parties": False}


def test_a_party_knows_what_it_has_counted_itself_and_nobody_else_does(before: dict[str, QuantileThresholds]) -> None:
    for data in SITES:
        own = before[data.name]
        assert own.own_rows_above == tuple(int((data.y_score >= each).sum()) for each in own.grid)
        assert own.counted == NAMES
        assert "own_rows_above" not in str(outcomes.plain(own))
        assert "own_rows_above" not in repr(own)


def moved(data: PartyData) -> PartyData:
    """The same rows but for one score."""
    scores = data.y_score.copy()
    scores[0] = 0.99
    return PartyData.from_arrays(data.name, data.y_true, scores)


def forgetful(own: QuantileThresholds) -> QuantileThresholds:
    """As of a site that knows nothing of the session that the manifest names."""
    return dataclasses.replace(own, session=bytes(16).hex())


def test_where_a_party_s_rows_have_changed_or_other_parties_count_there_is_none(
    before: dict[str, QuantileThresholds],
) -> None:
    """As many rows as before, all but one the same; or a party that does not know any more."""
    none_there(evaluated(before, [moved(SITES[0]), *SITES[1:]]))
    none_there(evaluated({name: forgetful(own) if name == NAMES[1] else own for name, own in before.items()}))
    for counted in (NAMES[:-1], (*NAMES, "site 9")):  # the last one sets its flag, too; or nobody: the lists differ
        none_there(evaluated({name: dataclasses.replace(own, counted=counted) for name, own in before.items()}))


def test_where_sites_were_given_different_lists_of_one_session_there_is_none(
    before: dict[str, QuantileThresholds],
) -> None:
    """As with a helper that opens twice: each site's sums are proved, of the list that it was given."""
    mixed = {}
    for name, own in before.items():
        given = NAMES[:4] if name in NAMES[1:4] else NAMES
        above = tuple(map(sum, zip(*(before[each].own_rows_above for each in given), strict=True)))
        mixed[name] = dataclasses.replace(own, counted=given, rows_above=above)
    none_there(evaluated(mixed))


def test_where_sites_build_on_different_sessions_there_is_none(before: dict[str, QuantileThresholds]) -> None:
    """Both sessions are honest, and their thresholds and parties the same; the rows of two sites were others in one."""
    earlier = [moved(SITES[0]), moved(SITES[1]), *SITES[2:]]
    other = one_process.played(registry.finding("boundaries-federated"), _FIRST, earlier, quiet)
    mixed = {**before, **{name: dataclasses.replace(other[name], grid=before[name].grid) for name in NAMES[:2]}}
    for named in (before, other):  # whichever the manifest names
        none_there(evaluated(mixed, earlier, named))


def test_where_a_flag_is_set_the_sum_tells_nothing_of_the_others() -> None:
    """It is released: with zeros of the party that knows nothing it would be an equation about all others alone."""
    sums, in_bins, prime = PrecisionSum(50), np.random.default_rng(2).integers(0, 90, (2, 50)), 2**41 + 27
    known = CountedBefore(bytes(16), b"", tuple(range(100, 50, -1)), ("a",), (0,) * 50)
    for before in (None, known):  # it was not there; or its rows have changed
        data = dataclasses.replace(SITES[0], before=before)
        entries = modular.residues(sums.entries(data, in_bins, 10**4, 2**50), prime)
        hidden = [sums.hidden(entries, prime) for _ in range(40)]
        assert all(each[-1] == 1 for each in hidden)
        drawn = np.array([each[:-1] for each in hidden])
        assert abs(drawn.mean() / prime - 0.5) < 5.5 / np.sqrt(12 * drawn.size)  # fails once in 25 million
        assert len(np.unique(drawn)) >= drawn.size - 2
    own = tuple(in_bins.sum(axis=0)[::-1].cumsum()[::-1].tolist())
    same = dataclasses.replace(SITES[0], before=dataclasses.replace(known, parties=(SITES[0].name,), own=own))
    entries = modular.residues(sums.entries(same, in_bins, 10**4, 2**50), prime)
    assert sums.hidden(entries, prime) is entries
    assert (entries[:-1] > 0).any()
    assert entries[-1] == 0


def test_what_two_parties_with_a_flag_submit_differs_in_the_precision_s_entries_alone() -> None:
    """In whole sessions: what leaves the task is hidden."""
    play = Play("verified", SITES, GRID, before=bytes(16), interval=None)
    task, secret = play.plugin.task(play.manifest, SITES[0]), bytes(32)
    names, lengths = zip(*play.plan.release.sketch.vectors, strict=True)
    start = sum(lengths[: names.index("precision")])
    (one,), (again,) = task.encode(secret), task.encode(secret)
    differing = np.flatnonzero(one[: play.plan.release.sketch.size] != again[: play.plan.release.sketch.size])
    assert differing.tolist() == list(range(start, start + len(GRID)))
    for found in play.read():
        assert found.average_precision is None
        assert found.verified


def test_between_machines_a_site_keeps_what_it_has_counted_in_its_key_store(tmp_path: Path) -> None:
    asked = {name: getattr(_FIRST, name) for name in ("thresholds", "options", "max_rows")}
    consortium = Consortium(SITES, tmp_path / "sites", "boundaries-federated", **asked)
    conduct(consortium.aggregator(), consortium.exchange)
    told = consortium.results[NAMES[0]]
    with site_storage().site(consortium.made.sites[NAMES[0]]) as site:
        assert site_state.counted_before(site, consortium.id) == told.before
        assert site_state.counted_before(site, bytes(16)) is None
        site_state.remember(site, dataclasses.replace(told.before, session=bytes(16)))
        assert site_state.counted_before(site, bytes(16)).own == told.own_rows_above


SESSIONS = [
    (3, {}, 1),
    (3, {"keys": "helper"}, 3),
    (20, {"keys": "helper"}, 20),
    (20, {"min_parties": 2}, 10),
    (20, {"min_parties": 12}, 1),
]
"""Parties, the rest of the request, and how many of them, or groups, may be given results of their own."""


@pytest.mark.parametrize(("parties", "request_of", "tries"), SESSIONS)
def test_a_session_states_the_proved_chance_that_a_lie_passes(
    parties: int, request_of: dict[str, Any], tries: int
) -> None:
    sites = rows(parties, 5)
    play = Play("verified", sites, GRID, max_rows=10_000, backend="tenseal", **{"interval": 0.95, **request_of})
    degree = 3 if play.plan.interval else 2
    exact = Fraction(tries * degree, min(play.plan.parameters.plain_moduli) - 1)
    stated = play.plugin.soundness(play.manifest)
    assert stated == pytest.approx(float(exact), rel=1e-12)
    assert math.log2(exact) <= float(chance_text(stated).removeprefix("2^")) <= math.log2(exact) + 0.1
    assert play.plan.as_dict()["soundness"] == play.plan.soundness(parties)
    ((_, shown, _),) = (row for row in play.plan.describe() if row.name == "a lie passes")
    assert shown == f"< {chance_text(play.plan.soundness(parties))}"
    if parties == 3 and play.helper is None:
        assert {found.soundness for found in play.read()} == {stated}


def test_not_every_session_is_below_2_to_the_minus_40_and_one_that_proves_nothing_states_no_chance() -> None:
    helped = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, keys="helper", backend="tenseal")
    sealed = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, min_parties=2, backend="tenseal")
    assert [chance_text(each.plugin.soundness(each.manifest)) for each in (helped, sealed)] == ["2^-33.3", "2^-34.3"]
    play = Play("exact", rows(3, 5), GRID, backend="tenseal")
    assert "a lie passes" not in {row.name for row in play.plan.describe()}
    assert (play.plugin.soundness(play.manifest), play.read()[0].soundness) == (None, None)
