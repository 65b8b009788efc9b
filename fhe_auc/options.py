"""What a protocol is asked for beside what all take: a frozen dataclass each, whose fields have type, default and text.

The command line (``-o name=value``) and the text of ``fhe-auc protocols`` come from these fields.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, get_args, get_type_hints

__all__ = ["Options", "described", "given", "option"]

_KINDS = {bool: "true or false", int: "whole number", float: "number"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """A protocol's options; on its own, those of a protocol that has none.

    A field is made by `option`, and is a bool, int or float; None stands for what the protocol then takes itself.
    """

    protocol: ClassVar[str] = ""
    """Name of the plug-in."""


def option(about: str, *, default: Any = MISSING) -> Any:
    """Return a field of `Options`: what it is, in one line, and its default, where it has one."""
    return field(default=default, metadata={"about": about})


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
