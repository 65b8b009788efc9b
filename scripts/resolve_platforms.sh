#!/bin/sh
# resolve_platforms.sh: resolves what fhe-auc installs, in the versions of constraints.txt and wheels alone, for each
# platform and Python; prints a line for each. Needs an index of packages, and none of the platforms. With what the tests
# need, of which one is pure Python without a wheel: resolve_platforms.sh --extra dev --no-binary pyhocon
set -eu
cd "$(dirname "$0")/.."
export MACOSX_DEPLOYMENT_TARGET=14.0
for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin x86_64-pc-windows-msvc; do
    for minor in 10 11 12 13; do
        printf '%-24s 3.%s ' "$platform" "$minor"
        if found=$(.venv/bin/uv pip compile --quiet --only-binary :all: --no-annotate --no-header --python-platform "$platform" \
            --python-version "3.$minor" --constraint constraints.txt "$@" pyproject.toml 2>&1); then
            echo "$found" | grep -E '^(openfhe|tenseal)==' | tr '\n' ' '
        else
            echo "$found" | tr '\n' ' ' | cut -c1-200
        fi
        echo
    done
done
