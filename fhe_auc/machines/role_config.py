"""What the configuration of a role has: `ENTRIES`, of `fhe_auc.machines.serve`."""

from collections.abc import Mapping
from typing import Any

from fhe_auc.base.errors import InputError

_COMMON = ("role", "exchange", "state", "store", "passphrase-file", "result-hours")
_TEXT = ("delimiter", "decimal", "encoding")
_DATA = ("data", "sheet", "query", "database-password-file", "data-set")
_ROWS = (*_DATA, "label-column", "score-column", "positive-label", "drop-missing", "score-scale", *_TEXT)
_LIMITS = ("protocol", "thresholds", "min-parties", "round-timeout", "close-at")
ENTRIES: Mapping[str, tuple[str, ...]] = {
    "site": (*_COMMON, *_ROWS, "results", "on-result", "on-result-seconds"),
    "aggregator": (*_COMMON, *_LIMITS),
    "helper": _COMMON,
}
"""What a role's configuration may have."""


def required_role(config: Mapping[str, Any]) -> str:
    """Return the role that a configuration is for; raise `InputError` where it cannot be."""
    role = role_of(config)
    for name in ("exchange", "state", "store", *["results"] * (role == "site")):
        if not isinstance(config.get(name), str) or not config[name]:
            raise InputError(f"{name} is not configured")
    return role


def role_of(config: Mapping[str, Any]) -> str:
    """Return the role that a configuration is for; raise `InputError` where it is none."""
    role = config.get("role")
    if role not in ENTRIES:
        raise InputError(f"role is one of {', '.join(map(repr, ENTRIES))}, not {role!r}")
    return str(role)
