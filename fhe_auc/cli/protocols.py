"""``fhe-auc protocols``: which one to take, and what each asks one to trust."""

from typing import Any

import click

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.options import described
from fhe_auc.cli import output
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.session import registry
from fhe_auc.session.protocol import Protocol

_CHART = (
    ("the AUC; the aggregator may lie", "verified, the default"),
    ("the AUC; the aggregator computes correctly", "exact, half the upload"),
    ("ROC, calibration, decision curve", "histogram-federated (fhe-auc report)"),
    ("a bound on what the AUC tells of a row", "verified --epsilon 1: with noise"),
    ("… and on what ROC and calibration tell", "fhe-auc report --epsilon 1"),
    ("a comparison with the published designs", "semi-honest, malicious"),
)
"""What somebody wants, and which protocols are for it."""

_ENCRYPTED, _NOISE = "Encrypted or padded", "Noise instead of encryption"
_OTHERS = "They find bin edges, or count groups: no AUC"


@click.command(
    epilog=output.examples(
        "fhe-auc protocols",
        "fhe-auc protocols malicious                whom one trusts, and its options",
        "fhe-auc protocols --json | jq -r '.protocols[].name'",
    )
)
@click.argument("name", metavar="[NAME]", required=False)
@output.json_option
def protocols(name: str | None, as_json: bool) -> None:
    """Tell which protocol to take, and list all; with NAME whom that one trusts, and its options.

    All trust each party to enter its true rows; with a helper and row caps, exact and verified bound what one that lies
    can do. A package adds its own through the entry-point group fhe_auc.protocols.
    """
    found: dict[str, Protocol[Any]] = {}
    broken: dict[str, str] = {}
    for each in registry.names() if name is None else [name]:
        try:
            found[each] = registry.load(each)
        except FheAucError as error:
            if name is not None:
                raise
            broken[each] = str(error)
    for reason in broken.values():
        output.print_warning(reason)
    if as_json:
        output.print_json({"protocols": [_as_dict(each, plugin) for each, plugin in found.items()], "broken": broken})
    elif name is not None:
        told = _as_dict(name, found[name])
        output.print_table([("what", told["summary"]), ("trust", told["trust"])])
        if told["options"]:
            output.print_text("\nOptions, as -o NAME=VALUE:")
            output.print_table(list(told["options"].items()))
    else:
        _print_all(found)


def _as_dict(name: str, plugin: Protocol[Any]) -> dict[str, Any]:
    return {"name": name, "summary": plugin.summary, "trust": plugin.trust, "options": described(plugin.options)}


def _print_all(found: dict[str, Protocol[Any]]) -> None:
    output.print_table([(wanted, output.styled(answer, "bold")) for wanted, answer in _CHART])
    for title in (_ENCRYPTED, _NOISE, _OTHERS):
        rows = [(f"  {name}", plugin.summary) for name, plugin in found.items() if _kind(plugin) == title]
        if rows:
            output.print_text(output.styled(f"\n{title}:", "bold"))
            output.print_table(rows)
    output.print_text("\nWhom one trusts, and options: fhe-auc protocols NAME")


def _kind(plugin: Protocol[Any]) -> str:
    if not issubclass(plugin.yields, Evaluation):
        return _OTHERS
    return _ENCRYPTED if plugin.encrypts else _NOISE
