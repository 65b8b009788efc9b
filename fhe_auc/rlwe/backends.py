"""Which encryption libraries this interpreter can import."""

from __future__ import annotations

import importlib
import sys
from functools import cache

from fhe_auc.errors import BackendUnavailableError
from fhe_auc.rlwe.parameters import BackendName

BACKENDS: tuple[BackendName, ...] = ("openfhe", "tenseal")
"""All backends, the preferred one first."""


_LIBRARIES: dict[BackendName, str] = {"openfhe": "fhe_auc.rlwe.openfhe_library", "tenseal": "fhe_auc.rlwe.seal_library"}


@cache
def available_backends() -> tuple[BackendName, ...]:
    """Return the backends that can be imported, the preferred one first."""
    found = []
    for name in BACKENDS:
        try:
            importlib.import_module(_LIBRARIES[name])
        except (ImportError, OSError):
            # OpenFHE's wheel is tagged for every Python and holds one CPython's binary: it installs, and fails here.
            continue
        found.append(name)
    return tuple(found)


def choose_backend(name: str | None = None) -> BackendName:
    """Return `name`, or the preferred backend there is.

    Raises `BackendUnavailableError` for an unknown name, or a library that cannot be imported here.
    """
    available = available_backends()
    if name is None and available:
        return available[0]
    for backend in available:
        if backend == name:
            return backend
    here = f"{', '.join(available) or 'none'} on Python {sys.version_info.major}.{sys.version_info.minor}"
    if name in BACKENDS:
        raise BackendUnavailableError(f"backend {name!r} cannot be imported here (available: {here})")
    raise BackendUnavailableError(f"unknown backend {name!r} (available: {here})")
