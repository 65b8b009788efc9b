"""Real sessions for several models, groups, classes and sites: what parties read is what the rows say."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

from fhe_auc.base.errors import CapacityError, InputError, VerificationError
from fhe_auc.base.serialise import encode
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Said
from fhe_auc_protocols.options import Verified
from tests.support.chosen import federated_auc
from tests.support.delong import paired_of_rows
from tests.support.exact_sessions import BACKENDS, Play, both_backends, slow
from tests.support.lazy import Lazy
from tests.support.several import (
    AGE,
    CLASSES,
    SEX,
    TWO_MODELS,
    auc_of,
    binned,
    chosen,
    made,
    pool,
    read_in_the_clear,
    told,
)

multipletests = Lazy("statsmodels.stats.multitest").multipletests

GRID = thresholds.uniform(6)
SITES = msgspec.structs.replace(TWO_MODELS, heterogeneity=True)
BOTH = Analysis(models=("old", "new"), by=(SEX,), cross_groups=True, min_cell=1)


def in_the_clear(play: Play, counted: int | None = None) -> Said:
    sums = AnalysisSums(play.plan.analysis, len(play.grid), play.plan.interval)
    return told(read_in_the_clear(sums, play.sites[:counted], play.grid))


@both_backends
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
@pytest.mark.parametrize(("analysis", "parties"), [(BOTH, 4), (CLASSES, 3)])
def test_every_party_reads_what_the_rows_say(protocol: str, backend: str, analysis: Analysis, parties: int) -> None:
    play = Play(protocol, made(analysis, parties, 3), GRID, analysis=analysis, interval=0.95, backend=backend)
    expected, rows = in_the_clear(play), pool(play.sites)
    for found in play.read():
        assert found.estimates == expected.estimates
        assert found.comparisons == expected.comparisons
        for contrast, estimate in zip(analysis.contrasts, found.estimates, strict=False):  # of classes, a mean is last
            if not estimate.missing:
                at = binned(rows.scores[contrast.model], GRID)
                sides = (at[chosen(rows, analysis, cell)] for cell in (contrast.positives, contrast.negatives))
                truth = auc_of(*sides)
                assert estimate.fraction == truth[0]
        assert found.verified == (protocol == "verified")


def table(seed: int, number: int = 60) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, number)
    scores = {name: np.clip(generator.random(number) * 0.6 + 0.3 * labels, 0, 1) for name in "ab"}
    return {"y_true": labels, "sex": generator.choice(["F", "M"], number), **scores}


@pytest.mark.parametrize(
    "vector",
    [
        *("m0 g1 c1", slow("m1 g0 c0"), slow("t1 xc1"), "t0 t1 c0", "sites m1"),
        *("k0 g0 c1 c0", slow("k1 g2 c0 of c1"), slow("k g1"), slow("k0 k1 c1 c1")),
    ],
)
def test_a_lie_on_one_group_one_comparison_the_sites_or_patients_is_refused(vector: str) -> None:
    """The aggregator adds one to an entry of the sum of sketches, of one group, model or table alone."""
    analysis = Analysis(models=("old", "new"), by=(SEX,), heterogeneity=True)
    sites = made(analysis, 5, 6)
    if vector.startswith("k"):
        analysis = msgspec.structs.replace(analysis, heterogeneity=False, cluster="id")
        sites = [replace(each, clusters=np.arange(each.rows, dtype=np.int32) // 2) for each in sites]
    play = Play("verified", sites, GRID, analysis=analysis, interval=0.95, backend=BACKENDS[-1])
    names, lengths = zip(*play.plan.release.sketch.vectors, strict=True)
    place = sum(lengths[: names.index(vector)])

    def lie(words: list[Words]) -> None:
        for words_of, prime in zip(words, play.plan.parameters.plain_moduli, strict=True):
            words_of[0, place] = (int(words_of[0, place]) + 1) % prime

    play.lie(lie)
    list(play.messages())
    for party in play.parties:
        with pytest.raises(VerificationError):
            party.result()


@pytest.mark.parametrize(
    ("made_for", "session", "shown"),
    [
        (TWO_MODELS, PLAIN, "'site 0' has 2 columns of scores and 0 of groups, the session 1 and 0"),
        (PLAIN, TWO_MODELS, "'site 0' has 1 columns of scores and 0 of groups, the session 2 and 0"),
        (Analysis(by=(SEX, AGE)), Analysis(by=(SEX,)), "the session 1 and 1"),
        (Analysis(by=(AGE,)), Analysis(by=(SEX,)), "'site 0' has rows of more levels of 'sex' than the session, 2"),
        (CLASSES, Analysis(models=("x", "y", "z")), "'site 0' has rows of more classes than the session, 2"),
    ],
)
def test_a_party_with_rows_for_another_analysis_sends_nothing(
    made_for: Analysis, session: Analysis, shown: str
) -> None:
    play = Play("exact", made(session, 2, 6), GRID, analysis=session, backend=BACKENDS[-1])
    party = play.party(made(made_for, 1, 6)[0])
    with pytest.raises(InputError, match=shown):
        party.respond(play.aggregator.start())


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"weights": []}, "unknown field `weights`"),
        ({"min_cell": 0}, "min_cell must lie between 1 and 1000"),
        ({"models": ["\x1b[2J"]}, "printable characters"),
        ({"heterogeneity": True}, "sums over sites are for labels 0 and 1"),
        ({"by": [{"name": "v", "levels": [str(k) for k in range(60)]}]}, "session"),
    ],
)
def test_a_manifest_whose_plan_asks_for_something_else_is_refused(change: Any, shown: str) -> None:
    play = Play("verified", made(CLASSES, 5, 7), GRID, analysis=CLASSES, interval=0.95, backend=BACKENDS[-1])
    content = msgspec.msgpack.decode(play.manifest.plan.content)
    content["analysis"] |= change
    plan = msgspec.structs.replace(play.manifest.plan, content=encode(content))
    with pytest.raises((InputError, CapacityError), match=shown):
        play.party(play.sites[0], msgspec.structs.replace(play.manifest, plan=plan)).respond(play.aggregator.start())


def test_a_manifest_with_sums_over_sites_of_which_fewer_than_five_may_count_is_refused() -> None:
    play = Play("verified", made(SITES, 5, 7), GRID, analysis=SITES, interval=0.95, backend=BACKENDS[-1])
    with pytest.raises(InputError, match="sums over sites of fewer than 5 parties"):
        play.party(play.sites[0], msgspec.structs.replace(play.manifest, min_parties=4))


def test_more_than_one_session_can_hold_is_refused_in_words() -> None:
    by = {"v": [f"level {k}" for k in range(100)]}
    sites = {"s": table(1) | {"v": np.repeat("level 1", 60)} | {f"m{k}": table(2)["a"] for k in range(16)}}
    with pytest.raises(CapacityError, match="fewer models, groups, classes or thresholds take less"):
        federated_auc(sites, score=[f"m{k}" for k in range(16)], by=by)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        *((["--by", named], "") for named in ("sex=F,M", " sex = F , M ", "sex")),
        (["--by", "sex", "--by", "sex=F,M"], "'sex' is given twice"),
        (["--by", "weight"], "column 'weight' has 60 different values"),
        (["--score-columns", "y_score,y_score"], "'y_score' is there twice"),
    ],
)
def test_the_command_line_groups_by_levels_named_or_found_and_refuses_others(
    tmp_path: Any, arguments: list[str], shown: str
) -> None:
    columns = {k: table(1)[k] for k in ("y_true", "sex")}
    np.savez(tmp_path / "north.npz", y_score=table(1)["a"], weight=np.arange(60) / 7, **columns)
    arguments = ["evaluate", str(tmp_path / "north.npz"), *arguments, "--thresholds", "uniform:5", "--json"]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == (2 if shown else 0), found.stderr
    assert shown in " ".join(found.stderr.split())
    if not shown:
        assert [each["group"] for each in json.loads(found.stdout)["estimates"]] == ["all", "sex: F", "sex: M"]


@pytest.mark.parametrize("each_pair", [slow(False), True])
def test_of_three_models_each_pair_is_compared_where_asked_and_p_has_holms_correction_beside_it(
    each_pair: bool,
) -> None:
    random = np.random.default_rng(12)
    died = random.random(600) < 0.4
    common, noise = random.normal(size=600) + 0.8 * died, random.normal(size=(3, 600))
    scores = [
        norm.cdf(common + spread * each - 1).round(2) for spread, each in zip((0.3, 0.9, 1.3), noise, strict=True)
    ]
    rows = dict(zip(("a", "b", "c"), scores, strict=True)) | {"died": died, "site": np.arange(600) % 2}
    found = federated_auc(
        rows, label="died", score=["a", "b", "c"], site="site", each_pair=each_pair, protocol=Verified(round_scores=2)
    )
    pairs = [("a", "b"), ("a", "c"), *([("b", "c")] if each_pair else [])]
    assert [(each.first, each.second) for each in found.comparisons] == pairs
    for each in found.comparisons:
        difference, error, p_value = paired_of_rows(died, rows[each.first], rows[each.second])
        assert each.difference == pytest.approx(difference)
        assert each.standard_error == pytest.approx(error, rel=0.02)
        assert each.p_value == pytest.approx(p_value, rel=0.1, abs=1e-9)
    expected = multipletests([each.p_value for each in found.comparisons], method="holm")[1]
    assert [each.p_holm for each in found.comparisons] == pytest.approx(expected)
    assert found.differences_to_frame()["p_holm"].tolist() == pytest.approx(expected)
    assert "p, Holm" in found._repr_html_()
