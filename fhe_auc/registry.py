"""Installed protocols, found through the entry-point group ``fhe_auc.protocols``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from fhe_auc.errors import UnknownProtocolError
from fhe_auc.protocol import Protocol

GROUP = "fhe_auc.protocols"


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def names() -> tuple[str, ...]:
    """Return the names of all installed protocols, sorted."""
    return tuple(sorted(_installed()))


def load(name: str) -> Protocol:
    """Return the installed protocol of that name.

    Raises
    ------
    UnknownProtocolError
        None has it, or the plug-in is not a `Protocol`.
    """
    installed = _installed()
    if name not in installed:
        raise UnknownProtocolError(f"unknown protocol {name!r} (installed: {', '.join(sorted(installed)) or 'none'})")
    factory = installed[name].load()
    if not (isinstance(factory, type) and issubclass(factory, Protocol)):
        raise UnknownProtocolError(f"plug-in {name!r} ({installed[name].value}) is not a fhe_auc.protocol.Protocol")
    return factory()
