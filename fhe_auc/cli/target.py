"""The file that a command is to write."""

from __future__ import annotations

import os
from pathlib import Path

from fhe_auc.errors import InputError
from fhe_auc.files import check_writable

__all__ = ["check_target"]


def check_target(path: Path, *, force: bool) -> None:
    """Raise `InputError` where the file should not, or cannot, be written, before anything expensive starts."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"file {str(path)!r} cannot be written: name a file in a folder that exists")
    if os.path.lexists(path) and not force:
        raise InputError(f"file {str(path)!r} is there already; choose another --out, or say --force")
    try:
        check_writable(path)
    except OSError as error:
        raise InputError(f"file {str(path)!r} cannot be written: {error.strerror}") from None
