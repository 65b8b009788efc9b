"""The file that a command writes: ``--out`` and ``--force``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import check_writable


def out_file_options(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a command: it receives ``out``, a path, and ``force``; `about` is the help on ``--out``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        path = click.Path(path_type=Path)
        out = click.option("--out", metavar="FILE", type=path, required=True, help=about)
        return out(click.option("--force", is_flag=True, help="Overwrite it if it is there.")(command))

    return decorate


def check_out_file(path: Path, *, force: bool) -> None:
    """Raise `InputError` where the file should not, or cannot, be written, before anything expensive starts."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"file {str(path)!r} cannot be written: name a file in a folder that exists", file=str(path))
    if os.path.lexists(path) and not force:
        raise InputError(f"file {str(path)!r} is there already; choose another --out, or say --force", file=str(path))
    try:
        check_writable(path)
    except OSError as error:
        raise InputError(f"file {str(path)!r} cannot be written: {error.strerror}", file=str(path)) from None
