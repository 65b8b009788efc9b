"""What some tests rest on and some systems lack: marks that skip them there, on real Windows and in a process made to
look like one (`tests.support.without_posix`) alike."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def _not_on_windows(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(sys.platform == "win32", reason=reason)


needs_modes = _not_on_windows("Windows keeps access lists, which no command checks (docs/guide/operations.md)")
needs_fork = _not_on_windows("Windows starts every process afresh")
needs_unix_files = _not_on_windows("Windows has no pipes and devices among its files")


def needs_linux(what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(sys.platform != "linux", reason=f"{what}: only Linux has it")


needs_limits = needs_linux("limits on a process's files, which stand for a full disk")


@contextmanager
def full_disk(bytes_left: int = 0) -> Iterator[None]:
    """No file of this process takes more than so many bytes: beyond, `OSError` is raised as on a full disk."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
