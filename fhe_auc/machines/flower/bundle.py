"""The app bundle: what `flwr run` sends to the SuperLink, and that to the sites. It holds configuration and no code.

The components are named in it by where they are in this package, so that every machine runs the code that it has
installed. What a bundle says all the same decides what a site runs: `fhe_auc.machines.flower.supernode` lets one bundle
in.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import tomli_w
from flwr.cli.build import build_fab_from_disk

from fhe_auc import __version__
from fhe_auc.machines.flower.server_app import DEFAULTS


def write(folder: Path) -> str:
    """Write the app into a folder, for ``flwr run FOLDER``; return the SHA-256 of the bundle that is made of it."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"name": "fhe-auc", "version": __version__, "description": "One session of fhe-auc"}
    components = {
        "serverapp": "fhe_auc.machines.flower.server_app:app",
        "clientapp": "fhe_auc.machines.flower.client_app:app",
    }
    app = {"publisher": "fhe-auc", "components": components, "config": dict(DEFAULTS)}
    project = {**about, "license": "Apache-2.0", "dependencies": []}
    text = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return sha256(folder)


def sha256(app: Path) -> str:
    """Return the SHA-256 of the bundle that Flower makes of an app's folder."""
    return hashlib.sha256(build_fab_from_disk(app)).hexdigest()


def write_config(file: Path, values: Mapping[str, str | int | float]) -> None:
    """Write a configuration as TOML, for ``flwr run --run-config`` or ``flower-supernode --node-config``."""
    file.write_text(tomli_w.dumps(dict(values)), encoding="utf-8")
