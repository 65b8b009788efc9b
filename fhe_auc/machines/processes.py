"""Processes of Flower, Ray and FLARE on this machine: telemetry is off, and they end with all that they have started.

However this process ends, `fhe_auc.machines.keeper` sees to it that nothing is left.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.terminal import APART
from fhe_auc.machines import keeper

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables with which neither Flower nor Ray calls home; what the user has set himself is left alone."""

_LAST_LINES = 12
_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is private, and gone with the power
_ROOM = 4 * 2**30  # bytes free from which on we take some of it; a thousand sites need 0.4 GB, and Ray some more


class Processes(AbstractContextManager["Processes"]):
    """A private folder (mode 700), and processes that live in it; a context manager that ends them and removes it."""

    def __init__(self) -> None:
        # Its name is short: Ray's sockets have at most 107 bytes of path.
        self.folder = Path(tempfile.mkdtemp(prefix="fhe-flwr-", dir=_in_memory()))
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.held = ExitStack()  # what is let go of once all have ended
        self._remover = _keeping(str(self.folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (self.folder / "flwr").mkdir()
        self._variables = {
            "FLWR_HOME": str(self.folder / "flwr"),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
            "RAY_TMPDIR": str(self.folder),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its name aside, this is what keeps Ray on 127.0.0.1
            "OMP_NUM_THREADS": "1",
            # Ray forks beside Flower's gRPC threads. With gRPC's fork handlers a few in a hundred of the children die
            # before they run: "Ray does not start" (grpc/grpc#31885, ray-project/ray#63202).
            "GRPC_ENABLE_FORK_SUPPORT": "0",
        }

    def __exit__(self, *error: object) -> None:
        """End all processes and remove the folder."""
        for process in (*self._started.values(), self._remover):
            process.communicate()
        self.held.close()

    @property
    def environment(self) -> dict[str, str]:
        """Of the processes started from now on: this process's, without what was taken out of it meanwhile."""
        return {**QUIET, **os.environ, **self._variables}

    def start(self, name: str, command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to a log in the folder; return what runs it, and ends as it does."""
        options: dict[str, Any] = {"env": {**self.environment, **variables}, "stderr": subprocess.STDOUT}
        if sys.platform != "win32":  # the folder stays for as long as any has this open
            options["pass_fds"] = [self._remover.stdin.fileno()]  # type: ignore[union-attr] # a pipe
        with (self.folder / f"{name}.log").open("wb") as log:
            self._started[name] = _keeping("run", *command, stdout=log, **options)
        return self._started[name]

    def call(self, command: Sequence[str], *, timeout: float = 60.0) -> str:
        """Run a command and return what it prints; raise `EvaluationError` where it fails."""
        try:
            done = subprocess.run(  # noqa: S603 - our own commands
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=self.environment,
                timeout=timeout,
                check=False,
                text=True,
            )
        except subprocess.TimeoutExpired:
            raise EvaluationError(f"{' '.join(command[:2])} has not ended within {timeout:g} s") from None
        if done.returncode:
            raise EvaluationError(f"{' '.join(command[:2])} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout

    def require_alive(self) -> None:
        """Raise `EvaluationError` with the ends of all logs where a process has ended by itself."""
        for name, process in self._started.items():
            if process.poll() is not None:
                raise EvaluationError(f"{name} has ended with status {process.returncode}: {self.log_end()}")

    def log_end(self) -> str:
        """Return the last lines of all logs, on one line each."""
        return " | ".join(
            f"{path.stem}: {' / '.join(path.read_text(errors='replace').splitlines()[-_LAST_LINES:])}"
            for path in sorted(self.folder.glob("*.log"))
        )


def _keeping(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", keeper.__file__, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, **options, **APART)  # noqa: S603 - our own program


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if sys.platform == "darwin":  # where nobody can ask
        return os.cpu_count() or 1
    return len(psutil.Process().cpu_affinity())


def _in_memory() -> Path | None:
    """Return where files stay in memory: no key meets a disk, and nothing waits for one. None: as usual."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _ROOM else None


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port of 127.0.0.1 that no other process is given meanwhile, but to which one that names it can bind."""
    with socket.socket() as held:  # bound, and not listening: with SO_REUSEADDR on both sides that is no conflict
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
