"""Commands of other users of this machine, whom only root can play."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to be two users")

# What is imported or looked up later may lie where only root can read, so all of that is done before.
_PROGRAM = """
import importlib, json, os, sys
user, groups, modules = json.loads(sys.argv[1])
for name in modules:
    importlib.import_module(name)
from fhe_auc.cli import main
from fhe_auc.machines.site_state import site_storage
from fhe_auc.session import registry
registry._installed(registry.GROUP), site_storage()
os.setgroups(groups)
os.setgid(groups[0])
os.setuid(user)
os.umask(0o077)
main(sys.argv[2:])
"""
_OURS = {"click", "cryptography", "fhe_auc", "fhe_auc_keys", "filelock", "msgspec", "numpy"}


def start(user: int, groups: Sequence[int], *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command as a user of the first of these groups, and of the others, whose new files are closed to all.

    It has imported what this process has, which has played the same role.
    """
    known = _OURS | sys.stdlib_module_names - {"__main__"}
    modules = [name for name, each in sys.modules.items() if name.split(".")[0] in known and hasattr(each, "__spec__")]
    told = json.dumps([user, list(groups), [name for name in modules if sys.modules[name].__spec__ is not None]])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", _PROGRAM, told, *arguments], **{**pipes, **options})


def give(path: Path, user: int, group: int) -> None:
    """Make a file or a folder, and all that is in it, a user's."""
    for each in (path, *path.rglob("*")):
        os.chown(each, user, group, follow_symlinks=False)
