"""What a protocol is asked for beside what all take: options by name, each with a type, a default and a line of text.

They are keywords of `fhe_auc.federated_auc`, and ``-o name=value`` on the command line; ``fhe-auc protocols`` shows the
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import known_names

_NOISE = ("epsilon", "epsilon_unit")
WEIGHTS = ("sample_weight", "sample_weights", "weight", "weights")  # as other packages call them
NO_WEIGHTS = (
    "weights are a column of the rows, with a public bound: weight='NAME', max_weight=50; --weight-column NAME=50"
)
_KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}

COMPARED_THRESHOLDS = "hybrid:1500"
"""Where models are compared: as many as leave a sketch its size, with the coarse bins of comparisons."""


@dataclass(frozen=True)
class Option:
    """One option: its type, what it is in one line, and its default.

    A default of None stands for what the protocol then takes itself; an option that is `required` has none.
    """

    kind: type[bool | int | float | str]
    about: str
    default: bool | int | float | str | None = None
    required: bool = False


@dataclass(frozen=True)
class Options:
    """All options of one protocol by name, and its thresholds where none are given."""

    known: Mapping[str, Option] = field(default_factory=dict)

    default_thresholds: str = "hybrid:1000"
    """Of one AUC, as `fhe_auc.question.thresholds.parse` takes them."""

    def thresholds_for(self, *, several: bool, compared: bool = False) -> str:
        """Return the thresholds where none are given; fewer where there are `several` models, groups or classes.

        Those of models that are `compared`, over all rows alone, are others.
        """
        several_aucs = COMPARED_THRESHOLDS if compared else Options.default_thresholds
        return several_aucs if several else self.default_thresholds


def check_names(options: Options, protocol: str, names: Iterable[str]) -> None:
    """Raise `InputError` for an option that this protocol does not have."""
    for name in sorted(set(names) - set(options.known)):
        if name in _NOISE:
            raise InputError(
                f"protocol {protocol!r} has no option {name!r}: it adds no noise; verified does (--epsilon), and "
                "dpauc-laplace"
            )
        if name in WEIGHTS:
            raise InputError(f"{name}: {NO_WEIGHTS}")
        raise InputError(f"protocol {protocol!r} has no option {name!r}{known_names(name, options.known)}")


def described(options: Options) -> dict[str, str]:
    """Return one line on each option, by name: what it is, its type, and its default where there is one."""
    lines = {}
    for name, option in options.known.items():
        terms = [_KINDS[option.kind]]
        if option.required:
            terms.append("must be given")
        elif option.default is not None:
            terms.append(f"default {str(option.default).lower()}")
        lines[name] = f"{option.about} ({', '.join(terms)})"
    return lines
