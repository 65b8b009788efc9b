#!/bin/sh
# resolve_platforms.sh: resolves what fhe-auc installs, wheels alone, for each platform and Python; prints a line for each.
# Needs an index of packages, and none of the platforms.
set -eu
cd "$(dirname "$0")/.."
for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin x86_64-pc-windows-msvc; do
    for minor in 10 11 12 13; do
        printf '%-24s 3.%s ' "$platform" "$minor"
        if found=$(.venv/bin/uv pip compile --quiet --only-binary :all: --no-annotate --no-header --python-platform "$platform" \
            --python-version "3.$minor" "$@" pyproject.toml 2>&1); then
            echo "$found" | grep -E '^(openfhe|tenseal)==' | tr '\n' ' '
        else
            echo "$found" | tr '\n' ' ' | cut -c1-200
        fi
        echo
    done
done
