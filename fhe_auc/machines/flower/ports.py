"""Ports for programs that cannot choose one themselves."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port of 127.0.0.1 that no other process is given meanwhile, but to which one that names it can bind."""
    with socket.socket() as held:  # bound, and not listening: with SO_REUSEADDR on both sides that is no conflict
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
