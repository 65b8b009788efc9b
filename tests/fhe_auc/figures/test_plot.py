"""The figure: refused early where it cannot be saved, and legible where it can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.figures import plot
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from tests.support.evaluations import made_evaluation

PARTIES = [
    PartyData.from_arrays("north", [0, 1, 1, 0], [0.1, 0.8, 0.4, 0.5]),
    PartyData.from_arrays("south", [1, 0], [0.9, 0.2]),
    PartyData.from_arrays("healthy", [0, 0, 0], [0.1, 0.2, 0.3]),
]


def make_evaluation(auc: float = 0.8274116, binning_error: float = 0.0015758) -> Evaluation:
    return made_evaluation(
        auc=auc,
        binning_error=binning_error,
        numerical_error=6.9e-8,
        protocol="semi-honest",
        backend="tenseal",
        parties=3,
        verified=False,
        upload_bytes_per_party=164_288,
        download_bytes_per_party=328_015,
        seconds={"keys": 0.2753, "ingest": 0.1118, "circuit": 0.044, "submit": 0.0039, "recover": 0.0023, "other": 2.0},
    )


def test_a_path_that_cannot_be_written_is_refused_and_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    for name, message in [
        ("figure.gif", r"must end in \.png, \.pdf or \.svg"),
        ("figure", "must end in"),
        ("none/figure.png", "no folder"),
        ("folder.png", "is a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            plot.check_path(tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        plot.check_path("/proc/figure.png")  # not even root may
    plot.check_path(tmp_path / "new.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]
    (tmp_path / "old.PNG").write_bytes(b"old")
    plot.check_path(tmp_path / "old.PNG")
    assert (tmp_path / "old.PNG").read_bytes() == b"old"


def test_sites_of_one_label_have_no_auc_of_their_own() -> None:
    assert (plot.site_aucs(PARTIES).tolist(), plot.site_aucs(PARTIES[2:]).tolist()) == ([0.75, 1.0], [])


@pytest.mark.parametrize(
    ("auc", "binning_error", "pooled", "parties"),
    [
        (0.8274116, 0.0015758, 0.8272, PARTIES),
        pytest.param(0.635, 0.027, 0.634744, PARTIES * 2, marks=pytest.mark.slow),
        pytest.param(1.0, 0.0, 1.0, PARTIES[1:], marks=pytest.mark.slow),
        (0.5, 0.5, 0.9, PARTIES[2:]),
    ],
)
def test_no_text_overlaps_another_or_leaves_the_figure(
    auc: float, binning_error: float, pooled: float, parties: list[PartyData], assert_texts_apart: Callable[..., None]
) -> None:
    figure = plot.draw(make_evaluation(auc, binning_error), parties, pooled, title="three sites in two countries")
    assert_texts_apart(figure, least=31)


def test_every_axis_says_what_it_measures_and_in_which_unit_without_colours() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = plot.draw(make_evaluation(), PARTIES, 0.8272, title="three sites")
    labels = {axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes}
    assert labels == {"AUC", "time (ms)", "data (MB)"}
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    assert np.ptp(pixels, axis=2).max() == 0
