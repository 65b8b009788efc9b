"""``fhe-auc demo``: the main job on bundled real data, checked against the pooled rows; three protocols compared."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from fhe_auc.base import quantities
from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.cli import failures, inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import ONE_QUESTION, SessionOptions, session_options
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.question.analysis import Analysis, Questions
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.protocol import Setup

_ROUNDING = 1e-12  # what double precision may take from the AUC of the pooled rows

_TITLES = {
    "covid-clinics": "COVID-19 tests at 78 clinics of a children's hospital",
    "credit-default": "Late credit-card payments in six age bands",
}
_SITES = {"covid-clinics": "clinic", "credit-default": "age band"}

_LYING_SERVER = {
    "semi-honest": "report any number, unnoticed",
    "malicious": "be caught if off by 0.001, but for odds of 1 in 100,000 (known lies)",
    "verified": "be caught, but for odds of {soundness} (proved)",
}
"""The protocols that are compared, and what a server that lies would do; `Evaluation.soundness` is filled in."""
_COMPARED_AT = "hybrid:1000"  # thresholds; the same for all, and the published designs' own
_COMPARES_WITH = ("dataset", "backend", "plot", "costs", "as_json")  # with another option that session runs alone


def _of_sites(heterogeneity: bool) -> Questions:
    return replace(ONE_QUESTION, heterogeneity=heterogeneity)


@inputs.command(
    "fhe-auc demo",
    "fhe-auc demo --dataset credit-default --thresholds uniform:100 --plot demo.png",
    "fhe-auc demo --protocol semi-honest                the published designs, on CKKS",
    "fhe-auc demo --cheat add-positives                 a lie is caught, with verified",
    "fhe-auc demo --cheat party-negative                a party's lie is named, and left out",
)
@session_options(registry.evaluating, inputs.gathered("questions", _of_sites, inputs.heterogeneity_option))
@inputs.option("--dataset NAME", "Or credit-default.", type=click.Choice(tuple(_SITES)), default="covid-clinics")
@inputs.option("--cheat LIE", "Let the aggregator lie, or a party (party-…); an unknown LIE lists them.")
@inputs.option("--plot FILE", "Save the AUC and its interval: .png, .pdf or .svg.", type=inputs.PATH)
@form_options
def demo(session: SessionOptions, dataset: str, cheat: str | None, plot: Path | None, form: Form) -> None:
    """Compute an encrypted AUC on real data, and check it.

    Each clinic is a party and encrypts its own counts. To check the result, and only here, the rows are then pooled
    and the AUC of all of them is computed in the clear.

    Then semi-honest, malicious and verified evaluate the same data at 1,000 thresholds, and a table compares them. With
    an option that says how to evaluate, such as --protocol or --thresholds, only that session runs.

    With --cheat the aggregator lies. Where that is noticed no number is released, and the exit status is 1. With
    party-… the last party lies, in a session with a helper, where parties prove their row caps: each one's is the
    number of its rows. It is left out, and the AUC is that of the others.
    """
    from fhe_auc.figures.plot import check_path
    from fhe_auc.rows import datasets

    plugin = session.plugin
    of_party = False
    if cheat is not None:
        attacks = registry.attacks(plugin.name)
        attacks.described(cheat)
        of_party = cheat in attacks.of_parties
        if of_party and inputs.given("keys") and session.setup.keys != "helper":
            raise InputError("a party's lie is shown where parties prove their row caps: with --keys helper")
    if plot is not None:
        check_path(plot)
    parties = datasets.load(dataset)
    analysis, others, liar = Analysis(heterogeneity=session.questions.heterogeneity), parties, "the aggregator"
    if of_party:
        others, liar = parties[:-1], f"party {one_process.liar_among(parties).name!r}"
        caps = {data.name: data.rows for data in parties}
        session = replace(session, setup=replace(session.setup, keys="helper", row_caps=caps))
    try:
        evaluation, wall_seconds = session.run(parties, cheat, analysis)
    except (EvaluationError, DeserialisationError) as error:
        if cheat is None:
            raise
        _print_caught(error, cheat, liar, session, _TITLES[dataset], _pooled_auc(others), as_json=form.as_json)
        click.get_current_context().exit(1)
    with output.progress("Checking on the pooled rows"):
        pooled_auc = _pooled_auc(others)
    title, lie = f"{_TITLES[dataset]}; each {_SITES[dataset]} is a party.", dict[str, Any]()
    if cheat is not None:
        come_to, lie = "Parties have accepted its result.", {"cheat": cheat}
        if of_party:
            left_out = evaluation.parties == len(others)
            come_to = (
                f"It is {'named and left out, and the AUC is that of the others' if left_out else 'not left out'}."
            )
            lie["liar"] = parties[-1].name
        title += f"\n\n{liar[0].upper()}{liar[1:]} lies: {_described(cheat, session)}. {come_to}"
    compares = all(name in _COMPARES_WITH or not inputs.given(name) for name in click.get_current_context().params)
    in_json = {}
    if compares and form.as_json:
        in_json = {"protocols": _compared(parties, session.setup, pooled_auc)}
    print_evaluation(
        evaluation,
        form,
        wall_seconds=wall_seconds,
        specification=session.specification,
        title=title,
        beside_auc=_check(evaluation, pooled_auc),
        beside_json={"pooled_auc": pooled_auc, **lie, **in_json},
        plot=plot,
    )
    if compares and not form.as_json:  # only now: the first result need not wait
        _print_compared(_compared(parties, session.setup, pooled_auc), _SITES[dataset])


def _compared(parties: Sequence[PartyData], setup: Setup, pooled_auc: float) -> list[dict[str, Any]]:
    """Return, as JSON has it, what each protocol finds and costs; without intervals, which only one of them has."""
    found = []
    for name, would in _LYING_SERVER.items():
        plugin = registry.evaluating(name)
        session = SessionOptions.checked(plugin, {}, thresholds=_COMPARED_AT, setup=setup)
        with output.progress(f"Protocol {name}") as report:
            request = session.request([data.name for data in parties], None)
            evaluation = one_process.run(plugin, request, parties, report, clock=time.process_time)
        chance = evaluation.soundness
        told = {
            "protocol": name,
            "auc": evaluation.auc,
            "decimals": evaluation.decimals,
            "difference": abs(evaluation.auc - pooled_auc),
            "thresholds": evaluation.thresholds,
            "upload_bytes_per_party": evaluation.upload_bytes_per_party,
            "download_bytes_per_party": evaluation.download_bytes_per_party,
            "server_cpu_seconds": evaluation.seconds["ingest"] + evaluation.seconds["circuit"],
            "soundness": chance,
            "lying_server": would.format(soundness="" if chance is None else quantities.chance_text(chance)),
        }
        found.append(told)
    return found


def _print_compared(compared: Sequence[Mapping[str, Any]], site: str) -> None:
    output.print_text(
        f"\nThe same {site}s by three protocols, at {compared[0]['thresholds']:,} bin edges. Each AUC is compared to "
        f"that of all rows in the clear; bins make the difference, and for semi-honest the rounding. An "
        f"upload is one {site}'s; server CPU is without signatures.\n"
    )
    rows: list[tuple[output.Cell, ...]] = [
        (
            each["protocol"],
            f"{each['auc']:.{each['decimals'] or 6}f}",
            f"{each['difference']:.6f}",
            quantities.bytes_text(each["upload_bytes_per_party"]),
            quantities.seconds_text(each["server_cpu_seconds"]),
            each["lying_server"],
        )
        for each in compared
    ]
    header = ("protocol", "AUC", "off by", "upload", "server CPU", "a lying server would")
    output.print_table(rows, header=header, numbers=4)


def _described(cheat: str, session: SessionOptions) -> str:
    return f"{cheat}, {registry.attacks(session.plugin.name).described(cheat)}"


def _print_caught(
    error: Exception, cheat: str, liar: str, session: SessionOptions, title: str, pooled_auc: float, *, as_json: bool
) -> None:
    if as_json:
        told = {"cheat": cheat, "protocol": session.plugin.name, "auc": None}
        output.print_json({**failures.as_dict(error), **told})
        return
    output.print_text(f"{title}.\n")
    rows: list[tuple[output.Cell, ...]] = [
        (liar, output.styled("lies", "red"), _described(cheat, session)),
        ("parties", output.styled("refuse", "green"), str(error)),
        ("AUC", output.styled("none", "bold"), "no number is released"),
        ("AUC in the clear", f"{pooled_auc:.6f}", "of the rows themselves, which a demo has"),
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
        verdict, style = "by noise, and by bins", ""
    return [
        ("AUC in the clear", f"{pooled_auc:.6f}", "of the rows themselves, which a demo has"),
        ("difference", f"{away:.6f}", output.styled(verdict, style)),
    ]
