"""What a protocol is asked for beside what all take: a frozen dataclass each, whose fields have type, default and text.

The command line (``-o name=value``) and the text of ``fhe-auc protocols`` come from these fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, get_args, get_type_hints

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import known_names

_NOISE = ("epsilon", "epsilon_unit")
_WEIGHTS = ("sample_weight", "sample_weights", "weight", "weights")  # as other packages call them
_KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


class _SignatureOfInit:
    """The signature of a class that `CheckedNames.__new__` would hide: that of its ``__init__``."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        _, *others = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(others)


class CheckedNames:
    """Base of frozen dataclasses that users make: a name that is no field is refused, with the one that is meant."""

    __signature__ = _SignatureOfInit()

    def __new__(cls, *_: Any, **values: Any) -> CheckedNames:
        """Refuse a name that is no field, with the one that may be meant."""
        known = [each.name for each in fields(cls)]  # type: ignore[arg-type] # of subclasses, which are dataclasses
        if unknown := next((name for name in values if name not in known), None):
            raise TypeError(f"{cls.__name__} has no option {unknown!r}{known_names(unknown, known)}")
        return super().__new__(cls)


@dataclass(frozen=True, kw_only=True)
class Options(CheckedNames):
    """A protocol's options; on its own, those of a protocol that has none.

    A field is made by `option`, and is a bool, int, float or str; None stands for what the protocol then takes itself.
    """

    protocol: ClassVar[str] = ""  # name of the plug-in

    default_thresholds: ClassVar[str] = "hybrid:1000"
    """Thresholds where none are given, as `fhe_auc.question.thresholds.parse` takes them; of one AUC."""

    compared_thresholds: ClassVar[str] = "hybrid:1500"
    """Those where models are compared: as many as leave a sketch its size, with the coarse bins of comparisons."""

    @classmethod
    def thresholds_for(cls, *, several: bool, compared: bool = False) -> str:
        """Return the thresholds where none are given; fewer where there are `several` models, groups or classes.

        Those of models that are `compared`, over all rows alone, are others.
        """
        several_aucs = cls.compared_thresholds if compared else Options.default_thresholds
        return several_aucs if several else cls.default_thresholds


def check_names(kind: type[Options], protocol: str, names: Iterable[str]) -> None:
    """Raise `InputError` for an option that this protocol does not have."""
    known = [each.name for each in fields(kind)]
    for name in sorted(set(names) - set(known)):
        if name in _NOISE:
            raise InputError(
                f"protocol {protocol!r} has no option {name!r}: it adds no noise; verified does (--epsilon), and "
                "dpauc-laplace"
            )
        if name in _WEIGHTS:
            raise InputError(f"{name}: weights are not supported; leave them out: every row counts once")
        raise InputError(f"protocol {protocol!r} has no option {name!r}{known_names(name, known)}")


def chosen(kind: type[Options], protocol: str, values: Mapping[str, Any]) -> Options:
    """Return options by name as this protocol's; raise `InputError` for one that it does not have, or needs."""
    check_names(kind, protocol, values)
    for each in fields(kind):
        if each.default is MISSING and each.name not in values:
            raise InputError(f"{each.name} has no default; give it: {each.metadata['about']}")
    return kind(**values)


def option(about: str, *, default: Any = MISSING) -> Any:
    """Return a field of `Options`: what it is, in one line, and its default, where it has one."""
    return field(default=default, metadata={"about": about})


def example(kind: type[Options], **values: Any) -> str:
    """Return how an instance is made, with these values: "DpaucLaplace(epsilon=...)"."""
    required = {each.name: "..." for each in fields(kind) if each.default is MISSING}
    shown = required | {name: repr(value) for name, value in values.items()}
    return f"{kind.__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"


def given(options: Options) -> dict[str, Any]:
    """Return the options that are not the default, by name."""
    named = {each.name: (getattr(options, each.name), each.default) for each in fields(options)}
    return {name: value for name, (value, default) in named.items() if value != default}


def described(kind: type[Options]) -> dict[str, str]:
    """Return one line on each option, by name: what it is, its type, and its default where there is one."""
    types = get_type_hints(kind)
    found = {}
    for each in fields(kind):
        taken = next(one for one in (*get_args(types[each.name]), types[each.name]) if one in _KINDS)
        terms = [_KINDS[taken]]
        if each.default is MISSING:
            terms.append("must be given")
        elif each.default is not None:
            terms.append(f"default {str(each.default).lower()}")
        found[each.name] = f"{each.metadata['about']} ({', '.join(terms)})"
    return found
