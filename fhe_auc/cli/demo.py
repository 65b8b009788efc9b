"""``fhe-auc demo``: the main job on bundled real data, checked against the pooled rows."""

import math
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.cli import failures, inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry

_ROUNDING = 1e-12  # what double precision may take from the AUC of the pooled rows

_TITLES = {
    "covid-clinics": "COVID-19 tests at 78 clinics of a children's hospital",
    "credit-default": "Late credit-card payments in six age bands",
}
_SITES = {"covid-clinics": "clinic", "credit-default": "age band"}
_IN_THE_PAPER = "6.81 MB in the paper that this follows (arXiv 2403.14428)"


@click.command(
    epilog=output.examples(
        "fhe-auc demo",
        "fhe-auc demo --plot demo.png",
        "fhe-auc demo --dataset credit-default --thresholds uniform:100 --backend tenseal",
        "fhe-auc demo --thresholds quantile:200",
        "fhe-auc demo --dataset credit-default --keys joint",
        "fhe-auc demo --round-scores 3",
        "fhe-auc demo --protocol semi-honest                the published designs, on CKKS",
        "fhe-auc demo --protocol malicious -o executions=2",
        "fhe-auc demo --cheat add-positives                 a lie is caught, with verified",
        "fhe-auc demo --protocol exact --cheat add-positives",
        "fhe-auc demo --json | jq '.auc - .pooled_auc'",
    )
)
@session_options(registry.evaluating)
@click.option(
    "--dataset", type=click.Choice(tuple(_SITES)), default="covid-clinics", help="Which of the bundled data sets."
)
@click.option(
    "--cheat",
    metavar="ATTACK",
    help="Let the aggregator lie in this way, and see whether the protocol notices; an unknown one lists all.",
)
@inputs.plot_option("a figure")
@form_options
def demo(session: SessionOptions, dataset: str, cheat: str | None, plot: Path | None, form: Form) -> None:
    """Compute an encrypted AUC on real data, and check it.

    Each clinic is a party and encrypts its own counts. To check the result, and only here, the rows are then pooled
    and the AUC of all of them is computed in the clear.

    With --cheat the aggregator lies. Where that is noticed no number is released, and the exit status is 1.
    """
    from fhe_auc.figures import plot as figures
    from fhe_auc.rows import datasets

    plugin = session.plugin
    if session.questions.several:
        raise InputError("the demo's data have one model and no groups: ask fhe-auc evaluate for several AUCs")
    if cheat is not None:
        known = registry.attacks(plugin.name).descriptions
        if cheat not in known:
            raise InputError(f"protocol {plugin.name!r} knows no attack {cheat!r} (it knows: {', '.join(known)})")
        if session.setup.keys == "joint":
            raise InputError("attacks are played with sealed keys only")
    if plot is not None:
        figures.check_path(plot)
        if not plugin.encrypts:
            raise InputError(
                f"the figure shows encrypted results, which protocol {plugin.name!r} has not; "
                "see fhe-auc compare-protocols --plot"
            )
    parties = datasets.load(dataset)
    try:
        evaluation, wall_seconds = session.run(parties, cheat, Analysis(heterogeneity=session.questions.heterogeneity))
    except (EvaluationError, DeserialisationError) as error:
        if cheat is None:
            raise
        _print_caught(error, cheat, session, _TITLES[dataset], _pooled_auc(parties), as_json=form.as_json)
        click.get_current_context().exit(1)
    with output.progress("Checking on the pooled rows"):
        pooled_auc = _pooled_auc(parties)

    def save() -> None:
        if plot is None:
            return
        drawn = figures.draw(evaluation, parties, pooled_auc, title=_TITLES[dataset], sites=f"{_SITES[dataset]}s")
        figures.save_figure(drawn, plot)
        output.print_line(f"figure saved as {plot}")

    title, lie = f"{_TITLES[dataset]}; each {_SITES[dataset]} is a party.", {}
    if cheat is not None:
        title += f"\n\nThe aggregator lies: {_described(cheat, session)}. Parties have accepted its result."
        lie = {"cheat": cheat}
    print_evaluation(
        evaluation,
        wall_seconds,
        session,
        form,
        title=title,
        beside_auc=_check(evaluation, pooled_auc),
        beside_json={"pooled_auc": pooled_auc, **lie},
        auc_note="" if cheat is None else "what the parties have accepted",
        sent_note=_IN_THE_PAPER if evaluation.security_bits else "",
        save=save,
    )


def _described(cheat: str, session: SessionOptions) -> str:
    return f"{cheat}, {registry.attacks(session.plugin.name).descriptions[cheat]}"


def _print_caught(
    error: Exception, cheat: str, session: SessionOptions, title: str, pooled_auc: float, *, as_json: bool
) -> None:
    if as_json:
        told = {"cheat": cheat, "protocol": session.plugin.name, "auc": None}
        output.print_json({**failures.as_dict(error), **told})
        return
    output.print_text(f"{title}.\n")
    rows: list[tuple[output.Cell, ...]] = [
        ("the aggregator", output.styled("lies", "red"), _described(cheat, session)),
        ("parties", output.styled("refuse", "green"), str(error)),
        ("AUC, encrypted", output.styled("none", "bold"), "no number is released"),
        ("AUC, pooled rows", f"{pooled_auc:.6f}", "of the rows themselves; a demo has them"),
        ("protocol", session.plugin.name, ""),
    ]
    output.print_table(rows)


def _pooled_auc(parties: Sequence[PartyData]) -> float:
    y_true = np.concatenate([party.y_true for party in parties])
    y_score = np.concatenate([party.y_score for party in parties])
    return float(auc_of_rows(y_true, y_score))


def _check(evaluation: Evaluation, pooled_auc: float) -> list[tuple[output.Cell, ...]]:
    away = abs(evaluation.auc - pooled_auc)
    inside = away <= evaluation.binning_error + evaluation.numerical_error + _ROUNDING
    verdict = f"{'within' if inside else 'OUTSIDE'} the binning error"
    style = "green" if inside else "red"
    if math.isnan(evaluation.binning_error):
        verdict, style = "from noise, which has no bound, and from the thresholds", ""
    return [
        ("AUC, pooled rows", f"{pooled_auc:.6f}", "of the rows themselves; a demo has them"),
        ("difference", f"{away:.6f}", output.styled(verdict, style)),
    ]
