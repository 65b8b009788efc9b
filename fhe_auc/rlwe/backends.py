"""Which encryption libraries this interpreter can import, and what they are for one set of parameters."""

import importlib
import sys
from functools import cache, lru_cache
from typing import Any

from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.rlwe.parameters import BackendName, RingParameters

BACKENDS: tuple[BackendName, ...] = ("openfhe", "tenseal")  # all backends, the preferred one first
_LIBRARIES: dict[BackendName, str] = {"openfhe": "fhe_auc.rlwe.openfhe_library", "tenseal": "fhe_auc.rlwe.seal_library"}


@cache
def _why_not(name: BackendName) -> str | None:
    """Return why a library cannot be imported here, or None where it can."""
    try:
        importlib.import_module(_LIBRARIES[name])
    except (ImportError, OSError) as error:
        # OpenFHE's wheel is tagged for every Python and holds one CPython's binary: it installs, and fails here.
        return str(error)
    return None


def available_backends() -> tuple[BackendName, ...]:
    """Return the backends that can be imported, the preferred one first."""
    return tuple(name for name in BACKENDS if _why_not(name) is None)


def choose_backend(name: str | None = None) -> BackendName:
    """Return `name`, or the preferred backend there is; no other library is imported.

    Raises `BackendUnavailableError` for an unknown name, or a library that cannot be imported here.
    """
    for backend in BACKENDS:
        if name in (None, backend) and _why_not(backend) is None:
            return backend
    available = ", ".join(available_backends()) or "none"
    here = f"(available: {available} on Python {sys.version_info.major}.{sys.version_info.minor})"
    for backend in BACKENDS:
        if name == backend:
            raise BackendUnavailableError(f"backend {name!r} cannot be imported here {here}: {_why_not(backend)}")
    raise BackendUnavailableError(f"unknown backend {name!r} {here}")


@lru_cache(maxsize=8)
def library_for(parameters: RingParameters) -> Any:
    """Return the parameters' library, a `fhe_auc.rlwe.library.Library`; errors as of it, and as `choose_backend`."""
    return importlib.import_module(_LIBRARIES[choose_backend(parameters.backend)]).Scheme(parameters)
