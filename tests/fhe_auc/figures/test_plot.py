"""Figures are legible, and say what was found."""

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.figures import forest_plot, plot
from fhe_auc.results.estimates import GroupEstimate, too_few
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from tests.support.evaluations import made_evaluation

GROUPS = ("", "sex: F", "sex: M", "band: 18-49", "band: 50-64", "band: 65-79", "band: 80+")


def make_estimate(model: str, group: str, auc: float | None, reach: float = 0.05, **others: Any) -> GroupEstimate:
    if auc is None:
        return GroupEstimate(model=model, group=group, auc=None, missing=too_few(10))
    interval = Interval(0.95, auc - reach, auc + reach / 2, "DeLong")
    return GroupEstimate(
        model=model, group=group, auc=auc, interval=interval, positives=1200, negatives=34_000, **others
    )


def forest_of(estimates: list[GroupEstimate], sites: tuple[SiteSummary, ...] = ()) -> Evaluation:
    return made_evaluation(estimates=tuple(estimates), sites=sites)


def make_sites(*models: str) -> tuple[SiteSummary, ...]:
    found = {"within": 0.77, "mean": 0.76, "i2": 0.3, "tau2": 0.04, "both_classes": 7, "one_class": 0, "usable": 6}
    prediction = Interval(0.95, 0.61, 0.88, "prediction")
    return tuple(SiteSummary(model=each, prediction=prediction, **found) for each in models)


def two_models() -> Evaluation:
    estimates = [
        make_estimate(model, group, base + 0.01 * at)
        for model, base in (("risk_a", 0.8), ("risk_b", 0.7))
        for at, group in enumerate(GROUPS)
    ]
    return forest_of(estimates, make_sites("risk_a", "risk_b"))


def bars(figure: Any) -> list[tuple[float, float, float, float]]:
    """Of each error bar: its y, low end, AUC and high end, from the top of the figure."""
    found = []
    for each in figure.axes[0].containers:
        (point,), (segment,) = each[0].get_xydata(), each[2][0].get_segments()
        found.append((point[1], segment[0][0], point[0], segment[1][0]))
    return sorted(found)


def texts_of(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_points_bars_numbers_and_lines_are_those_of_the_estimates_in_the_order_of_groups() -> None:
    evaluation = two_models()
    figure = forest_plot.draw(evaluation)
    by_group = [each for group in GROUPS for each in evaluation.estimates if each.group == group]
    expected = [(each.interval.low, each.auc, each.interval.high) for each in by_group] + [(0.61, 0.76, 0.88)] * 2
    assert [row[1:] for row in bars(figure)] == [pytest.approx(row) for row in expected]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["all rows", *GROUPS[1:], "a new site: prediction\n(IVhet, 6 sites)"]
    tops = figure.axes[0].get_yticks()
    assert [min(range(len(tops)), key=lambda at: abs(tops[at] - row[0])) for row in bars(figure)] == [
        at for at in range(len(tops)) for _ in range(2)
    ]
    found = texts_of(forest_plot.draw(two_models()))
    assert found.count("35,200") == found.count("1,200") == len(GROUPS)
    assert all(each in found for each in ("0.800 (0.750 to 0.825)", "0.700 (0.650 to 0.725)"))
    assert {"n", "events", "AUC (95 % interval)"} <= set(found)
    figure = forest_plot.draw(two_models())
    lines = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert lines == [0.8, 0.7]


def test_models_differ_in_colour_and_marker_and_the_legend_names_them() -> None:
    models = [f"_model {number}" for number in range(16)]
    figure = forest_plot.draw(forest_of([make_estimate(model, "", 0.8) for model in models]))
    points = [each[0] for each in figure.axes[0].containers]
    assert len({(point.get_color(), point.get_marker()) for point in points}) == len(models)
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == models


def test_groups_that_are_not_shown_have_no_point_and_of_several_classes_the_line_is_their_average() -> None:
    shown, hidden = make_estimate("", "", 0.8), make_estimate("", "sex: F", None)
    figure = forest_plot.draw(forest_of([shown, hidden]))
    assert (len(bars(figure)), texts_of(figure).count("not shown")) == (1, 1)
    assert figure.axes[0].get_legend() is None
    estimates = [make_estimate(model, "", 0.9, contrast=f"{model} from others") for model in ("a", "b", "c")]
    figure = forest_plot.draw(forest_of(estimates))
    assert [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_linestyle() == ":"] == [0.8]
    assert len(bars(figure)) == 3


@pytest.mark.parametrize(
    "level", ["w" * 40, "$\\frac{", pytest.param("a $x_1$ & <b>level</b> of forty characters", marks=pytest.mark.slow)]
)
def test_no_text_of_a_forest_plot_overlaps_or_is_taken_for_a_formula(level: str, assert_texts_apart: Any) -> None:
    groups = ("", f"{'v' * 40}: {level}", f"variable: {level}", "sex: M")
    estimates = [make_estimate(model, group, 0.75) for model in (level[:40], "_b") for group in groups]
    figure = forest_plot.draw(forest_of(estimates, make_sites(level[:40], "_b")))
    assert_texts_apart(figure, least=20)
    drawn = "".join(label.get_text() for label in figure.axes[0].get_yticklabels()).replace("\n", "").replace(" ", "")
    assert drawn.count(level.replace(" ", "")) == 2


def test_one_auc_and_eight_groups_fit_too(assert_texts_apart: Callable[..., None]) -> None:
    assert_texts_apart(forest_plot.draw(forest_of([])), least=5)
    one = [make_estimate("", group, 0.75) for group in (*GROUPS, "band: none")]
    assert_texts_apart(forest_plot.draw(forest_of(one, make_sites(""))), least=40)


def test_it_is_drawn_on_the_axes_given_and_written_to_each_kind_of_file(tmp_path: Any) -> None:
    from matplotlib.figure import Figure

    left, right = Figure(layout="constrained").subplots(1, 2)
    assert forest_plot.plot_forest(two_models(), ax=right) is right
    assert right.has_data()
    assert not left.has_data()
    for suffix, magic in [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")]:
        file = tmp_path / f"forest{suffix}"
        plot.save_figure(forest_plot.draw(two_models()), file)
        assert file.read_bytes().startswith(magic)


UNASSIGNED = "\u0378\u0379"  # characters that Unicode does not have, and no font


@pytest.fixture
def font(tmp_path: Path) -> Iterator[str]:
    """A font that has them, each with an outline of its own; returns its family."""
    from fontTools.fontBuilder import FontBuilder  # type: ignore[import-untyped, unused-ignore]
    from fontTools.pens.ttGlyphPen import TTGlyphPen  # type: ignore[import-untyped, unused-ignore]
    from matplotlib.font_manager import fontManager

    glyphs = {}
    for name, width in ((".notdef", 100), ("first", 300), ("second", 500)):
        pen = TTGlyphPen(None)
        for at, to in enumerate([(0, 0), (width, 0), (width, 700)]):
            (pen.lineTo if at else pen.moveTo)(to)
        pen.closePath()
        glyphs[name] = pen.glyph()
    made = FontBuilder(1000)
    made.setupGlyphOrder(list(glyphs))
    made.setupCharacterMap(dict(zip(map(ord, UNASSIGNED), ("first", "second"), strict=True)))
    made.setupGlyf(glyphs)
    made.setupHorizontalMetrics(dict.fromkeys(glyphs, (600, 0)))
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": "Made Up", "styleName": "Regular", "psName": "MadeUp"})
    made.setupOS2()
    made.setupPost()
    made.save(tmp_path / "font.ttf")
    before = list(fontManager.ttflist)
    plot._fonts_with.cache_clear()
    fontManager.addfont(tmp_path / "font.ttf")
    yield "Made Up"
    fontManager.ttflist[:] = before
    plot._fonts_with.cache_clear()


def in_odd_letters() -> Evaluation:
    groups = ("", *(f"group {each}: Größe" for each in UNASSIGNED))
    return forest_of([make_estimate(model, group, 0.8) for model in ("a", f"model {UNASSIGNED}") for group in groups])


def saved(figure: Any, folder: Path) -> list[list[str]]:
    """Saves a figure without a warning; returns the shapes of the made up font in each label with odd letters."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in plot.SUFFIXES:
            plot.save_figure(figure, folder / f"forest{suffix}")
    labels = (folder / "forest.svg").read_text(encoding="utf-8").split("<!-- ")[1:]
    return [re.findall('href="(#MadeUp[^"]+)"', each) for each in labels if each.startswith("group")]


def test_names_are_drawn_with_an_installed_font_that_has_their_characters(font: str, tmp_path: Path) -> None:
    figure = forest_plot.draw(in_odd_letters())
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels[1:]] == [f"group {each}: Größe" for each in UNASSIGNED]
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert {each.get_fontfamily()[-1] for each in (*labels, legend.get_texts()[1])} == {font}
    (first,), (second,) = saved(figure, tmp_path)
    assert first != second


def test_what_no_font_has_is_written_as_its_code_point_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plot._fonts_with.cache_clear()
    plot._TOLD.clear()
    with caplog.at_level(logging.WARNING):
        figure = forest_plot.draw(in_odd_letters())
        assert saved(figure, tmp_path) == [[], []]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()[1:]]
    assert names == ["group \\u0378: Größe", "group \\u0379: Größe"]
    told = [record.getMessage() for record in caplog.records if record.name == "fhe_auc"]
    assert len(told) == 1
    assert all(f"(U+{ord(each):04X})" in told[0] for each in UNASSIGNED)
    assert told[0].startswith("no installed font has ")


def test_usual_letters_look_for_no_font() -> None:
    plot._fonts_with.cache_clear()
    assert plot.written(["all rows", "sex: F"])[0] == ["all rows", "sex: F"]
    assert plot._fonts_with.cache_info().misses == 0
    assert plot.written(["Größe: weiß", "Ελληνικά", "пол"])[1] == plot.written(["sex"])[1]
