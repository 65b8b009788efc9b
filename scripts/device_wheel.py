#!/usr/bin/env python3
"""Build the wheel `fhe-auc-device`: what `fhe_auc_device` imports, with the packages that this needs.

    scripts/device_wheel.py [FOLDER]         by default dist; prints its path, modules and bytes

A fresh interpreter says which modules those are; it can import nothing else but the standard library and the packages
that the wheel depends on. So nothing more, as pyarrow, gets in unnoticed.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ROOT, ROOT / "keys", ROOT / "protocols", ROOT / "scripts"
NEEDED = "cryptography", "msgspec", "numpy"  # seals and signatures; documents; all arithmetic
THEIRS = "_cffi_backend", "cffi", "typing_extensions"  # what these import in turn
OWN = "fhe_auc", "fhe_auc_keys", "fhe_auc_protocols", "fhe_auc_device"
LOADED = """
import json, sys
own, allowed, sys.path[:0] = map(json.loads, sys.argv[1:])
class Others:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in [*own, *allowed, *sys.stdlib_module_names]:
            raise ModuleNotFoundError(f"{name}: a device does not depend on it", name=name)
sys.meta_path.insert(0, Others())
import fhe_auc_device
print(*[module.__file__ for name, module in sorted(sys.modules.items()) if name.partition(".")[0] in own], sep="\\n")
"""


def closure() -> list[Path]:
    """Return the files of the modules that a device loads."""
    given = map(json.dumps, (OWN, (*NEEDED, *THEIRS), list(map(str, FOLDERS))))
    found = subprocess.check_output([sys.executable, "-P", "-c", LOADED, *given], text=True)
    return list(map(Path, found.splitlines()))


def described(project: dict[str, object], needed: list[str]) -> str:
    """Return the wheel's pyproject.toml."""
    return f"""
[project]
name = "fhe-auc-device"
version = {json.dumps(project["version"])}
description = "A device's part in fhe-auc's fleets: its counts, sealed, with a proof. Not beside fhe-auc."
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = {json.dumps(project["requires-python"])}
dependencies = {json.dumps(needed)}
[project.entry-points."fhe_auc.protocols"]
exact = "fhe_auc_device:Exact"
histogram-distributed-dp = "fhe_auc_device:HistogramDistributedDp"
[tool.hatch.build.targets.wheel]
core-metadata-version = "2.4"
include = ["*.py", "py.typed"]
"""


def build(folder: Path) -> tuple[Path, list[Path]]:
    """Return the wheel, and what is in it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [each for each in project["dependencies"] if each.partition(">")[0] in NEEDED]
    files = closure()
    with tempfile.TemporaryDirectory() as place:
        for file in [*files, ROOT / "LICENSE", *(file.with_name("py.typed") for file in files)]:
            if file.exists():
                root = next(each for each in reversed(FOLDERS) if file.is_relative_to(each))
                target = Path(place) / file.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        Path(place, "pyproject.toml").write_text(described(project, needed), "utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(next(WheelBuilder(place).build(directory=str(folder.resolve())))), files


if __name__ == "__main__":
    wheel, files = build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    print(f"{wheel}: {len(files)} modules, {wheel.stat().st_size:,} bytes")
