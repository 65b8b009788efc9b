"""What commands load, as that is most of what they cost: the time itself would depend on the machine and its load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fhe_auc.test_public_names import NEVER
from tests.support.keys_folder import ADDER
from tests.support.served import HEAVY, at, make_session

MORE = {"asyncio", "http.client", "psutil", "sqlite3", "ssl", "unittest", "urllib.request"}
if sys.version_info < (3, 11):
    MORE -= {"asyncio", "ssl"}  # the newest filelock for it loads them
MOST_MODULES = 700  # in November 2026 there are 619, numpy's and Python's own among them


def loaded(*arguments: str, status: int = 0) -> set[str]:
    """What takes long that a command in a process of its own has loaded in the end."""
    code = "import atexit, sys; from fhe_auc.cli import main; atexit.register(lambda: print(*sys.modules)); main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    modules = done.stdout.splitlines()[-1].split()
    assert len(modules) < MOST_MODULES
    return {*HEAVY, *NEVER, *MORE} & set(modules)


def test_a_command_of_the_sites_own_needs_no_library_of_simulations() -> None:
    code = "import sys; sys.modules['psutil'] = None; import fhe_auc.machines.result_hook, fhe_auc.machines.serve"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_aggregator_loads_no_library_of_encryption_and_arrow_only_who_reads_rows(here: Path) -> None:
    """A site plans a session as its maker did, which had one. `--once` does all in a process of its own."""
    make_session(protocol="verified")
    assert loaded("keys", "show", *at("south"), "--passphrase-file", "passphrase") == {"sqlite3"}
    assert loaded("status", "south.toml", status=1) == set()
    assert loaded("serve", f"{ADDER}.toml", "--once") == {"sqlite3"}
    assert loaded("serve", "south.toml", "--once") - {"openfhe", "_sealapi_cpp"} == {"sqlite3", "pyarrow"}
