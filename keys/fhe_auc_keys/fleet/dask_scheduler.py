"""Dask's schedulers: which are used.

Whoever reaches a scheduler or a worker runs code as its user, and they run code in who connects. So it is TLS, by
certificates of both sides from an authority for this alone (Dask compares no host names); or nothing that other
machines reach.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Security

import fhe_auc
from fhe_auc.base.errors import InputError

_PATIENCE = 30.0  # seconds for a connection
_TLS = {  # in Dask's configuration
    "tls_ca_file": "distributed.comm.tls.ca-file",
    "tls_client_cert": "distributed.comm.tls.client.cert",
    "tls_client_key": "distributed.comm.tls.client.key",
}


def connected(scheduler: str) -> tuple[Client, int]:
    """Return a client of the scheduler at this address, and in how many threads its workers compute.

    `InputError` where it is not to be used, or cannot be reached, or a worker has another version of fhe-auc.
    """
    client = _client(scheduler)
    try:
        return client, _threads(client, scheduler)
    except BaseException:
        client.close()
        raise


def _client(scheduler: str) -> Client:
    scheme = urlsplit(scheduler).scheme
    security = Security(require_encryption=True) if scheme == "tls" else None
    if security is not None:
        if missing := [name for field, name in _TLS.items() if not getattr(security, field)]:
            raise InputError(f"{scheduler!r} needs certificates: Dask's configuration has no {', '.join(missing)}")
    elif scheme != "tcp":
        raise InputError(f"{scheduler!r} is no scheduler's address: tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    _require_here(scheduler, [scheduler])
    try:
        return Client(scheduler, security=security, timeout=_PATIENCE, set_as_default=False)
    except (OSError, RuntimeError, ValueError, ssl.SSLError) as error:
        raise InputError(f"the scheduler {scheduler!r} cannot be reached: {error}") from None


def _threads(client: Client, scheduler: str) -> int:
    """Return in how many threads the workers compute; raise `InputError` where one is not as it must be."""

    # By value: a scheduler need not have fhe-auc.
    def listening(dask_scheduler: Any) -> list[str]:
        return [each.listen_address for each in dask_scheduler.listeners]

    about = client.scheduler_info()
    listened = client.run_on_scheduler(listening)
    _require_here(scheduler, [about["address"], *listened, *_addresses(about["workers"])])
    for worker, version in client.run(_version, on_error="return").items():
        if version != fhe_auc.__version__:
            has = f"has fhe-auc {version}" if isinstance(version, str) else f"cannot load fhe-auc ({version})"
            raise InputError(f"the worker {worker} {has}: install version {fhe_auc.__version__} there")
    if not about["total_threads"]:
        raise InputError(f"the scheduler {scheduler!r} has no workers")
    return int(about["total_threads"])


def _addresses(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    for address, worker in found.items():
        yield address
        if worker["nanny"]:  # it restarts the worker
            yield worker["nanny"]


def _version() -> str:
    return fhe_auc.__version__


def _require_here(scheduler: str, addresses: list[str]) -> None:
    """Raise `InputError` where other machines reach one of these, and not by TLS alone."""
    for each in addresses:
        place = urlsplit(each)
        if place.scheme != urlsplit(scheduler).scheme or (place.scheme != "tls" and not _is_here(place.hostname)):
            raise InputError(
                f"{scheduler!r} is refused, as other machines reach {each!r}, and whoever does runs code there: use "
                "tls://, or tcp:// where scheduler and workers have 127.0.0.1 for --host"
            )


def _is_here(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
