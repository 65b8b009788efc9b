"""``fhe-auc plan``: the parameters that the planner picks, each with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.session import registry
from fhe_auc.session.plan import ONE_TIME_PADS, Plan
from fhe_auc.session.protocol import Protocol, Request

_MOST_PARTIES = 100_000
_MOST_FOUND = 100  # bin edges, where rows and noise say how many


@inputs.command(
    "fhe-auc plan",
    "fhe-auc plan --parties 10 --keys helper --max-rows 100000000",
    "fhe-auc plan --protocol semi-honest --min-rows 100000",
    "fhe-auc plan --thresholds uniform:100 --backend tenseal --json",
)
@inputs.whole_number("--parties", 1, _MOST_PARTIES, default=100, about="Most that take part.")
@session_options(registry.load, inputs.question_options)
@output.json_option
def plan(parties: int, session: SessionOptions, as_json: bool) -> None:
    """Show the encryption parameters that fit, and why.

    Nothing is encrypted. Without --backend, the parameters of all backends available here stand side by side. For
    quantile:SIZE they are those of so many bin edges (quantile: the most), and of a session before that finds them.
    """
    plugin, bins = session.plugin, session.quantiles
    each, more = divmod(session.setup.max_rows, parties)  # where rows are counted in public, these are all
    rows_of = {f"party {number}": each + (number < more) for number in range(parties)}
    session = replace(session, setup=plugin.set_up(session.setup, session.options, rows_of))
    request = session.request(rows_of, min_parties=None)
    before: dict[str, Plan] = {}
    unfit: dict[str, str] = {}
    if bins is not None:
        first, request = plugin.staged(request, bins)
        request = replace(request, thresholds=np.linspace(0, 1, bins or _MOST_FOUND, dtype=np.float64))
        before = _plans(registry.finder(plugin), first, unfit)
    plans = _plans(plugin, request, unfit)
    if not plans:
        raise CapacityError("; ".join(dict.fromkeys(unfit.values())))
    for name, reason in unfit.items():
        output.print_warning(f"{name}: {reason}")
    thresholds = next(iter(plans.values())).thresholds
    if as_json:
        first_session = {"boundaries": next(iter(before.values())).as_dict()} if before else {}
        described = {name: found.as_dict() | first_session for name, found in plans.items()}
        output.print_json(
            {
                "protocol": plugin.name,
                "thresholds": thresholds,
                "parties": parties,
                "max_rows": request.max_rows,
                "min_rows": request.min_rows,
                "keys": request.keys,
                "options": dict(request.options),
                "plans": described,
                "unfit": unfit,
            }
        )
        return
    bounds = {"thresholds": thresholds, "max_rows": request.max_rows, "min_rows": request.min_rows}
    least = f"{request.min_rows:,} to " if "min_rows" in next(iter(plans.values())).terms().data else "up to "
    rows = f"{least}{request.max_rows:,} rows of all parties together"
    output.print_text(f"{plugin.name}, for {thresholds:,} bin edges, {parties:,} parties and {rows}:")
    _print(plans, bounds)
    if before:
        output.print_text("\nBefore it, a session that finds the bin edges:")
        _print(before, bounds)


def _plans(plugin: Protocol[Any], request: Request, unfit: dict[str, str]) -> dict[str, Plan]:
    """Return the parameters by encryption library, or of one-time pads alone; note in `unfit` where there are none."""
    names: tuple[str | None, ...] = ckks.available_backends() or (None,)
    if request.backend is not None:
        names = (request.backend,)
    plans: dict[str, Plan] = {}
    for name in names:
        try:
            found = plugin.plan(replace(request, backend=name) if plugin.encrypts else request)
        except CapacityError as error:
            unfit[str(name)] = str(error)
            continue
        if found is None:
            raise InputError(f"protocol {plugin.name!r} has no keys: there is nothing to plan")
        if found.parameters is None:  # the same whatever the library
            return {ONE_TIME_PADS: found}
        plans[found.parameters.backend] = found
    return plans


def _print(plans: Mapping[str, Plan], bounds: Mapping[str, int]) -> None:
    columns = [found.describe() for found in plans.values()]
    output.print_table(
        [
            (each[0].name, *(row.value for row in each), each[0].why.format(**bounds))
            for each in zip(*columns, strict=True)
        ],
        header=("", *plans, "why"),
        numbers=len(plans),
    )
