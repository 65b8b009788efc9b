"""Installed protocols, and attacks on them: entry-point groups ``fhe_auc.protocols`` and ``fhe_auc.attacks``."""

from functools import lru_cache
from typing import TypeVar, cast

from fhe_auc.base import plug_ins
from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.names import known_names
from fhe_auc.base.options import Options
from fhe_auc.results.evaluation import Evaluation, Outcome, QuantileThresholds
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.protocol import Protocol

R = TypeVar("R", bound=Outcome)
T = TypeVar("T")

GROUP = "fhe_auc.protocols"
ATTACKS_GROUP = "fhe_auc.attacks"


@lru_cache(maxsize=2)
def _installed(group: str) -> dict[str, set[plug_ins.PlugIn]]:
    """Return the plug-ins of each name: a second one means that two packages fight over it."""
    points: dict[str, set[plug_ins.PlugIn]] = {}
    for point in plug_ins.installed(group):
        points.setdefault(point.name, set()).add(point)
    return points


def names() -> tuple[str, ...]:
    """Return the names of all installed protocols, sorted."""
    return tuple(sorted(_installed(GROUP)))


def evaluating(name: str) -> Protocol[Evaluation]:
    """Return the installed protocol of that name, for evaluations; raise `UnknownProtocolError` as `load`."""
    return _yielding(
        Evaluation, name, "gives no AUC; where it finds thresholds, fhe-auc thresholds and federated_thresholds run it"
    )


def finding(name: str) -> Protocol[QuantileThresholds]:
    """Return the installed protocol of that name, which finds thresholds; raise `UnknownProtocolError` as `load`."""
    return _yielding(QuantileThresholds, name, "finds no thresholds")


def finder(plugin: Protocol[R]) -> Protocol[QuantileThresholds]:
    """Return the protocol whose session finds quantile thresholds for this one's; raise `InputError` without one."""
    if plugin.boundaries is None:
        raise InputError(
            f"protocol {plugin.name!r} has no private way to find quantile thresholds; give thresholds that no data "
            "is needed for, such as hybrid:1000 or uniform:100"
        )
    return finding(plugin.boundaries)


def _yielding(kind: type[R], name: str, otherwise: str) -> Protocol[R]:
    plugin = load(name)
    if not issubclass(plugin.yields, kind):
        raise UnknownProtocolError(f"protocol {name!r} {otherwise}")
    return cast("Protocol[R]", plugin)


def load(name: str) -> Protocol[Outcome]:
    """Return the installed protocol of that name; `UnknownProtocolError` for none, several, or no good plug-in."""
    installed = _installed(GROUP)
    if name not in installed:
        raise UnknownProtocolError(f"unknown protocol {name!r}{known_names(name, sorted(installed), most=20)}")
    plugin = _made(Protocol, name, installed[name], brings="protocol")
    options: object = plugin.options
    if not isinstance(options, Options):
        raise UnknownProtocolError(f"protocol {name!r}: its options are no fhe_auc.base.options.Options")
    return plugin


def attacks(protocol: str) -> Attacks:
    """Return the attacks that are installed for the protocol of that name; raise `UnknownProtocolError` as `load`."""
    installed = _installed(ATTACKS_GROUP)
    if protocol not in installed:
        raise UnknownProtocolError(f"no attacks on protocol {protocol!r} are installed")
    return _made(Attacks, protocol, installed[protocol], brings="attacks on protocol")  # type: ignore[type-abstract]


def _made(kind: type[T], name: str, points: set[plug_ins.PlugIn], *, brings: str) -> T:
    if len({point.value for point in points}) > 1:
        values = " and ".join(sorted(point.value for point in points))
        raise UnknownProtocolError(f"more than one package brings {brings} {name!r} ({values}); remove one")
    point = next(iter(points))
    try:
        factory = point.load()
    except Exception as error:  # a plug-in's own code: anything can happen
        raise UnknownProtocolError(
            f"plug-in {name!r} ({point.value}) does not load: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(factory, type) and issubclass(factory, kind)):
        raise UnknownProtocolError(f"plug-in {name!r} ({point.value}) is not a {kind.__module__}.{kind.__name__}")
    try:
        return factory()
    except TypeError as error:
        raise UnknownProtocolError(f"plug-in {name!r} ({point.value}) cannot be made: {error}") from error
