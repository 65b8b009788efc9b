#!/usr/bin/env bash
# The README's way to a result, on every Python that is here, from 3.11 on: a clean environment, the base alone and no
# more than 400 MB of it, three files, the AUC of their rows with its interval.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'died,risk\n1,0.875\n0,0.25\n' >"$folder/north.csv"
printf 'died,risk\n1,0.625\n0,0.375\n0,0.125\n' >"$folder/south.csv"
printf 'died,risk\n1,0.3125\n1,0.75\n0,0.5\n' >"$folder/west.csv"

for version in 3.11 3.12 3.13 3.14; do
    found=
    for python in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        # A shim of pyenv is there even where its Python is not.
        if [ -x "$python" ] && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            found=$python
            break
        fi
    done
    if [ -z "$found" ]; then
        echo "Python $version: not here, not tried"
        continue
    fi
    "$found" -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt . 2>"$folder/pip.log" ||
        { cat "$folder/pip.log" >&2; exit 1; }
    megabytes=$(du -sm "$folder/venv" | cut -f1)
    (
        cd "$folder"
        venv/bin/fhe-auc evaluate north.csv south.csv west.csv --label-column died --score-column risk --json 2>/dev/null
    ) | "$folder/venv/bin/python" -c '
import json, sys
result, version, megabytes = json.load(sys.stdin), sys.argv[1], int(sys.argv[2])
if result["fraction"] != "7/8" or not result["interval"] or megabytes > 400:
    sys.exit(f"Python {version}: expected 7/8, an interval and 400 MB at most, got {megabytes} MB and {result}")
print(f"Python {version}: AUC {result['"'auc'"']} with {result['"'backend'"']}, {megabytes} MB installed")
' "$version" "$megabytes"
    rm -rf "$folder/venv"
done
