#!/usr/bin/env bash
# Play sessions over Flower and FLARE in other versions than the one that .venv has, by Flower's simulator, and by the
# commands of docs/guide/flower.md and flare.md over TLS; a quarter of an hour for each.
#
# scripts/README.md says which were tried.
# Usage: scripts/try_carriers.sh flwr==1.42.0 [nvflare==2.9.0 ...]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH # fhe-auc
here=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for version in "$@"; do
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    .venv/bin/python -m venv "$folder"
    extra=$version chosen=flare
    if [[ $version == flwr* ]]; then extra=${version/flwr/flwr[simulation]} chosen="not flare"; fi
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$extra" 2>/dev/null
    echo "$here" > "$(echo "$folder"/lib/python*/site-packages)/after.pth" # all else is .venv's
    echo "== $version"
    "$folder/bin/python" -m pytest -q -m "slow or not slow" -k "$chosen" tests/fhe_auc/machines/test_carried_sessions.py \
        tests/fhe_auc/machines/flower tests/fhe_auc/machines/flare tests/documents/test_carrier_guides.py
    rm -rf "$folder"
done
