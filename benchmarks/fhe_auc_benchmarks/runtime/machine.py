"""What the numbers were measured on."""

import platform
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from fhe_auc.machines.processes import usable_cores

_LIBRARIES = ("fhe-auc", "openfhe", "tenseal", "numpy", "pyarrow", "scikit-learn", "duckdb", "cryptography")


def facts() -> dict[str, Any]:
    """Return machine, system and versions: nothing that names the machine or its user."""
    processor, versions = platform.processor() or "unknown", dict[str, str]()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": processor,
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": round(psutil.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }
