"""Commands in processes of their own, as other users of this machine, whom only root can play."""

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from fhe_auc.cli import main
from fhe_auc.machines.site_state import site_storage
from fhe_auc.session import registry

is_root = hasattr(os, "geteuid") and os.geteuid() == 0


def start(user: int, groups: Sequence[int], *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command as a user of the first of these groups, and of the others, whose new files are closed to all.

    It is a fork of this process, which must have imported all that it needs: modules may lie where only root can read.
    Who is not root starts it as itself. Options are as of `subprocess.Popen`.
    """
    registry._installed(registry.GROUP), site_storage()

    def play() -> NoReturn:
        """In the child, which has its pipes and its folder."""
        status = 1
        try:
            logging.getLogger().handlers.clear()  # pytest's, who would write into what gets their files' numbers
            os.closerange(3, 2**12)  # the parent waits for one of them
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            if is_root:
                os.setgroups(groups)
                os.setgid(groups[0])
                os.setuid(user)
            os.umask(0o077)
            main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(status)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable], preexec_fn=play, **{**pipes, **options})


def give(path: Path, user: int, group: int) -> None:
    """Make a file or a folder, and all that is in it, a user's."""
    for each in (path, *path.rglob("*")):
        os.chown(each, user, group, follow_symlinks=False)
