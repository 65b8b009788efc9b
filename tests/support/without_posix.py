"""A pytest plug-in: this process has none of what Windows lacks, and our code takes it for Windows.

Other packages are imported before, as they are; what they look up later is gone for them, too.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

for _name in ("click.testing", "cryptography.x509", "filelock", "msgspec", "numpy", "pyarrow.csv", "rich.console"):
    importlib.import_module(_name)
for _name in ("psutil", "tenseal", "threadpoolctl", "zstandard", "pyhpke", "multiprocessing.pool", "tempfile"):
    importlib.import_module(_name)

_ABSENT = (
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fchmod fchown fork geteuid getloadavg getuid killpg memfd_create "
    "mkfifo pread pwrite sched_getaffinity setsid sysconf uname"
)


def pytest_configure() -> None:
    for name in _ABSENT.split():
        delattr(os, name)
    for name in ("SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1"):
        delattr(signal, name)
    for name in ("fcntl", "grp", "pwd", "resource", "termios"):
        sys.modules[name] = None  # type: ignore[assignment]
    os.O_BINARY = 0  # type: ignore[attr-defined]
    sys.platform = "win32"
