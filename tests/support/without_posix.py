"""A pytest plug-in: this process has none of what Windows lacks, and our code takes it for Windows.

Other packages are imported before, as they are; what they look up later is gone for them, too. Files that are open are
treated as on Windows: they are not removed or replaced, and one open for reading alone is not synced.
"""

import contextlib
import errno
import fcntl
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("click.testing", "cryptography.x509", "filelock", "msgspec", "numpy", "pyarrow.csv"):
    importlib.import_module(_name)
for _name in ("psutil", "_sealapi_cpp", "threadpoolctl", "zstandard", "multiprocessing.pool", "tempfile"):
    importlib.import_module(_name)
for _name in ("hypothesis", "opendp.prelude", "scipy.stats", "sklearn.metrics"):
    importlib.import_module(_name)
sys.modules["openfhe"] = None  # type: ignore[assignment]

_ABSENT = (
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fchmod fchown fork geteuid getloadavg getuid killpg memfd_create "
    "mkfifo pread pwrite sched_getaffinity sched_yield setsid sysconf uname"
)
_SIGKILL, _GETFL = signal.SIGKILL, fcntl.F_GETFL


def _unless_open(action: Callable[..., None]) -> Callable[..., None]:
    """Refuse what is done to files that this process has open."""

    def checked(*paths: Any, **options: Any) -> None:
        wanted = {os.path.abspath(os.fsdecode(path)) for path in paths}
        for each in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the folder's own descriptor
                if os.readlink(each) in wanted:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.readlink(each))
        action(*paths, **options)

    return checked


def _fsync(descriptor: int, *, sync: Callable[[int], None] = os.fsync, flags: Any = fcntl.fcntl) -> None:
    if flags(descriptor, _GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sync(descriptor)


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        os.kill(process.pid, _SIGKILL)


def pytest_configure() -> None:
    for name in _ABSENT.split():
        delattr(os, name)
    for name in ("SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1"):
        delattr(signal, name)
    for name in ("fcntl", "grp", "pwd", "resource", "termios"):
        sys.modules[name] = None  # type: ignore[assignment]
    os.O_BINARY = 0  # type: ignore[attr-defined]
    os.fsync = _fsync
    for name in ("unlink", "rename", "replace"):
        setattr(os, name, _unless_open(getattr(os, name)))
    subprocess.Popen.kill = _kill  # type: ignore[method-assign] # the real one looks for SIGKILL
    sys.platform = "win32"
