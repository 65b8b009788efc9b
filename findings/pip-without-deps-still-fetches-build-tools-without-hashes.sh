#!/usr/bin/env bash
# pip 25.3: `pip install --no-deps .` after `pip install --require-hashes -r lock.txt` looks as if nothing came without a
# hash. But a source is built in an environment of its own, into which pip fetches what [build-system] asks for, in the
# newest version that fits, of which no hash was ever looked at; it then runs that, as the user who installs.
#
# Seen: without an index the install fails, for want of the build's tool that is in the environment already; with
# --no-build-isolation it takes that one. Why it matters: who installs from a lock file wants what was tested.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
pip="$folder/venv/bin/pip --disable-pip-version-check --quiet"
$pip install pip==25.3 flit-core==3.12.0
mkdir "$folder/project"
printf '"""A module."""\n__version__ = "1"\n' >"$folder/project/module.py"
cat >"$folder/project/pyproject.toml" <<'TOML'
[build-system]
requires = ["flit_core>=3"]
build-backend = "flit_core.buildapi"
[project]
name = "module"
dynamic = ["version", "description"]
TOML
unset PIP_FIND_LINKS
if PIP_CONFIG_FILE=/dev/null $pip install --no-deps --no-index "$folder/project" 2>"$folder/errors"; then
    echo "pip did not ask an index for flit_core" >&2
    exit 1
fi
grep -m 1 -o 'No matching distribution found for flit_core.*' "$folder/errors" || { cat "$folder/errors"; exit 1; }
PIP_CONFIG_FILE=/dev/null $pip install --no-deps --no-index --no-build-isolation "$folder/project"
"$folder/venv/bin/python" -c 'import module; print("without build isolation: module", module.__version__)'
