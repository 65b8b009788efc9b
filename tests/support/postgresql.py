"""A PostgreSQL server of a test's own: a cluster in a temporary folder, whose socket is there and nowhere else."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import run
from tests.support.users import is_root

NEEDED = "NEEDS_POSTGRESQL"  # in the environment: tests fail where there is no server to start, and are not skipped
_NOBODY = 65534  # a server does not run as root
_QUIET = ("listen_addresses=", "fsync=off", "log_min_messages=log", "log_checkpoints=off", "max_connections=20")
_PASSWORDS = "local all careful scram-sha-256\nlocal all all trust\n"  # for one user alone


def programs() -> Path | None:
    """The folder of the server's programs, of the newest version that is installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    named = shutil.which("initdb")
    return debian[-1] if debian else Path(named).resolve().parent if named else None


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG, even if somebody kills the tests


def odbc_driver() -> Path | None:
    """Debian's, of unixODBC."""
    return next(iter(Path("/usr/lib").glob("*/odbc/psqlodbcw.so")), None)


def missing(what: str) -> None:
    """Skip a test, or fail it where nothing may be missing."""
    (pytest.fail if os.environ.get(NEEDED) else pytest.skip)(what)


@contextmanager
def serving() -> Iterator[Path]:
    """The folder of a server's socket; user ``reader`` needs no password, ``careful`` has one: of `_PASSWORDS`."""
    folder = programs()
    if folder is None:
        missing("PostgreSQL's server is not installed here: there is no initdb")
        return
    user: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if is_root else {}
    place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        if is_root:
            os.chown(place, _NOBODY, _NOBODY)
        cluster = f"-D {place}/cluster -U reader --auth=trust -E UTF8 --locale=C --no-sync"
        made = run([str(folder / "initdb"), *cluster.split()], cwd="/", **user)
        assert made.returncode == 0, made.stderr
        (place / "cluster" / "pg_hba.conf").write_text(_PASSWORDS)
        options = [word for option in (*_QUIET, f"unix_socket_directories={place}") for word in ("-c", option)]
        command = [str(folder / "postgres"), "-D", str(place / "cluster"), *options]
        pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "cwd": "/", "preexec_fn": _end_with_parent}
        with subprocess.Popen(command, **pipes, **user) as server:
            try:
                assert server.stderr
                told = []
                for line in server.stderr:
                    told.append(line)
                    if "ready to accept connections" in line:
                        break
                else:
                    pytest.fail(f"PostgreSQL has not started: {told}")
                yield place
            finally:
                server.send_signal(signal.SIGQUIT)  # at once, whoever is connected
    finally:
        shutil.rmtree(place, ignore_errors=True)
