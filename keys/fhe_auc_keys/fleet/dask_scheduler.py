"""Dask's schedulers: which are used.

Whoever reaches a scheduler or a worker runs code as its user, and these run code in who connects. So it is TLS with
certificates of both sides, of an authority for this alone, as Dask compares no host names; or nothing that other
machines reach.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import TypeVar, cast
from urllib.parse import urlsplit

from distributed import Client, KilledWorker, Security, TimeoutError

import fhe_auc
from fhe_auc.base.errors import InputError

__all__ = ["KilledWorker", "Tasks"]

R = TypeVar("R")

_PATIENCE = 10.0  # seconds for a connection, and for workers
_TLS = {  # in Dask's configuration
    "tls_ca_file": "distributed.comm.tls.ca-file",
    "tls_client_cert": "distributed.comm.tls.client.cert",
    "tls_client_key": "distributed.comm.tls.client.key",
}


class Tasks(Executor):
    """What does tasks on the workers of the scheduler at this address, in `number` threads, until it is closed.

    Raises `InputError` where it is not to be used (above), or cannot be reached, or a worker has another version of
    fhe-auc than this process.
    """

    def __init__(self, scheduler: str) -> None:
        place, port, security = urlsplit(scheduler), None, None
        with suppress(ValueError):
            port = place.port
        if place.scheme not in ("tcp", "tls") or not port:
            raise InputError(f"{scheduler!r} is no scheduler's address: tls://HOST:PORT, or tcp://127.0.0.1:PORT")
        if place.scheme == "tls":
            security = Security(require_encryption=True)
            if missing := [name for field, name in _TLS.items() if not getattr(security, field)]:
                raise InputError(f"{scheduler!r} needs certificates: Dask's configuration has no {', '.join(missing)}")
        _require_shut(scheduler, [scheduler])
        try:
            self._client = Client(scheduler, security=security, timeout=_PATIENCE, set_as_default=False)
        except (OSError, RuntimeError) as error:
            raise InputError(f"the scheduler {scheduler!r} cannot be reached: {error}") from None
        try:
            self.number = _threads(self._client, scheduler)
        except BaseException:
            self.close()
            raise

    def submit(self, function: Callable[..., R], /, *given: object, **named: object) -> Future[R]:
        """Begin a task; where a worker died with it too often `KilledWorker` is its result.

        Not pure: a task does more than return something, and of equal ones each is done. What nobody waits for any more
        Dask drops.
        """
        return cast("Future[R]", self._client.submit(function, *given, **named, pure=False))

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def _threads(client: Client, scheduler: str) -> int:
    """Return in how many threads the workers compute; raise `InputError` where one is not as it must be."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise InputError(f"the scheduler {scheduler!r} has no workers") from None
    # It goes by value, as the scheduler need not have fhe-auc.
    listening = client.run_on_scheduler(
        lambda dask_scheduler: [each.listen_address for each in dask_scheduler.listeners]
    )
    found = client.scheduler_info()
    nannies = (each["nanny"] for each in found["workers"].values() if each["nanny"])  # they start workers again
    _require_shut(scheduler, [*listening, found["address"], *found["workers"], *nannies])
    for worker, version in client.run(lambda: fhe_auc.__version__, on_error="return").items():
        if version != fhe_auc.__version__:
            has = f"has fhe-auc {version}" if isinstance(version, str) else f"cannot load fhe-auc ({version})"
            raise InputError(f"the worker {worker} {has}: install {fhe_auc.__version__} there")
    return int(found["total_threads"])


def _require_shut(scheduler: str, addresses: Iterable[str]) -> None:
    """Raise `InputError` where another machine reaches one of these without a certificate."""
    scheme = urlsplit(scheduler).scheme
    for each in addresses:
        place, is_shut = urlsplit(each), scheme == "tls"
        with suppress(ValueError):
            is_shut |= place.hostname == "localhost" or ipaddress.ip_address(place.hostname or "").is_loopback
        if place.scheme != scheme or not is_shut:
            raise InputError(
                f"{scheduler!r} is refused: other machines reach {each!r}, and whoever does runs code there. Use "
                "tls://, or tcp:// with scheduler and workers on this machine (dask scheduler --host 127.0.0.1)"
            )
