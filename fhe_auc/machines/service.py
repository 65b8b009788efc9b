"""A role's process as a service of systemd: `start` installs the units beside this file (`units`), and starts them.

Root gets a unit of the system, which runs as a user without rights and sees little of the machine; anybody else one of
his own. A second one fails once an hour while `fhe-auc status` does, so that whoever watches failed units is told.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path
from string import Template

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_config, write_atomically
from fhe_auc.exchange.exchange import place_of

USER = "fhe-auc"
"""Who runs the roles that root has made."""

SYSTEM_UNITS = Path("/etc/systemd/system")

_RUNS = {"running", "degraded", "starting", "initializing"}  # what a systemd that takes units says of itself
_FOLDERS = "store", "state", "results", "exchange"  # what `serve` writes


def start(config: Path, name: str, *, system: bool | None = None, units: Path | None = None) -> str:
    """Install the units of the role `name`, start it now and at each boot, and return its unit; "" without systemd.

    `config` is its configuration, in the role's own folder. A unit of the `system`, which is root's to make, runs as
    the owner of that folder, or, if that is root, as the user `USER`, who is made, and gets all in it; root's places of
    the role in an exchange that is a folder become his, too. Units go into the folder `units`. Done again it restarts
    the role.

    Raises
    ------
    InputError
        Where systemd refuses, in its words; or where root's folder does not bear the name of the role, and may hold
        what is not the role's.
    """
    system = sys.platform != "win32" and os.geteuid() == 0 if system is None else system
    systemctl = ("systemctl",) if system else ("systemctl", "--user")
    if shutil.which("systemctl") is None or _run(*systemctl, "is-system-running", check=False) not in _RUNS:
        return ""
    config = config.resolve()
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "systemd", "user")
    units = units or (SYSTEM_UNITS if system else own)
    user = _owner(config, name) if system else ""
    unit = _unit_of(name, config, units)
    units.mkdir(parents=True, exist_ok=True)
    for file, text in texts(unit, config, name, user).items():
        write_atomically(units / file, text.encode(), mode=0o644)
    _run(*systemctl, "daemon-reload")
    _run(*systemctl, "enable", f"{unit}.service", f"{unit}-check.timer")
    _run(*systemctl, "restart", f"{unit}.service", f"{unit}-check.timer")
    if sys.platform != "win32" and not system:  # it goes on when this user has logged out
        user = str(os.getuid())
        if _run("loginctl", "show-user", user, "--property=Linger", check=False) != "Linger=yes":
            _run("loginctl", "enable-linger", user)
    return f"{unit}.service"


def texts(unit: str, config: Path, name: str, user: str) -> dict[str, str]:
    """Return the unit files of a role, by their names; of the system where a `user` is named, else of who runs this."""
    program = sys.argv[0]  # as it was called: perhaps by a link, which another version may take over
    if Path(program).name != "fhe-auc":
        program = os.path.join(sysconfig.get_path("scripts"), "fhe-auc")
    given = read_config(config, None)
    folders = [config.parent / str(given[entry]) for entry in _FOLDERS if "://" not in str(given.get(entry) or "://")]
    paths = [config.parent, *(folder for folder in folders if not folder.is_relative_to(config.parent))]
    values = {
        "name": name.replace("%", "%%"),
        "folder": str(config.parent).replace("%", "%%"),
        "program": _quoted(os.path.abspath(program)),
        "config": _quoted(config),
        "paths": " ".join(map(_quoted, paths)),
        "home": _quoted(f"HOME={config.parent}"),
        "user": user,
        "target": "multi-user.target" if user else "default.target",
    }
    ours = files("fhe_auc.machines") / "units"
    more = ("system.conf",) if user else ()
    made_of = {".service": ("role.service", *more), "-check.service": ("check.service", *more)}
    return {
        unit + end: "".join(Template((ours / part).read_text("utf-8")).substitute(values) for part in parts)
        for end, parts in {**made_of, "-check.timer": ("check.timer",)}.items()
    }


def _unit_of(name: str, config: Path, units: Path) -> str:
    """Return the name of a role's unit, which is no other configuration's."""
    unit = f"fhe-auc-{re.sub('[^A-Za-z0-9_-]', '-', name)}"
    there = units / f"{unit}.service"
    if there.exists() and f" serve {_quoted(config)}\n" not in there.read_text("utf-8"):
        unit += f"-{hashlib.sha256(os.fsencode(config)).hexdigest()[:8]}"
    return unit


def _owner(config: Path, name: str) -> str:
    """Return who is to run a role, the owner of its folder or `USER`, and give it what root has made for it."""
    folder, user = config.parent, str(config.parent.stat().st_uid)
    if user == "0":
        if folder.name != name:
            raise InputError(
                f"{str(folder)!r} is root's, and not a folder of {name!r} alone: make one that is called so"
            )
        user = USER
        _run("systemd-sysusers", "--inline", f'u {USER} - "fhe-auc"')
        _run("chown", "--recursive", user, str(folder))
    exchange = str(read_config(config, None).get("exchange") or "://")
    place = folder / exchange / place_of(name)
    places = [] if "://" in exchange or place.is_symlink() else [place, place / "members"]
    if made := [str(place) for place in places if place.exists() and place.lstat().st_uid == 0]:
        _run("chown", "--no-dereference", user, *made)  # others write beside them, and may have left links
    return user


def _quoted(path: str | Path) -> str:
    """Return a path as unit files take it, in which blanks part words, and % and $ stand for something."""
    text = str(path)
    if not text.isprintable() or "$" in text:
        raise InputError(f"the path {text!r} must be printable, and without $: a unit cannot name it")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def _run(*command: str, check: bool = True) -> str:
    """Return what a command prints; raise `InputError` with what it says where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")  # noqa: S603
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}") from None
    if check and done.returncode:
        raise InputError(f"{' '.join(command)} failed: {' '.join(done.stderr.split())}")
    return done.stdout.strip()
