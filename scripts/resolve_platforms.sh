#!/bin/sh
# resolve_platforms.sh: resolves what requirements/sites.txt installs, in the versions of constraints.txt and wheels
# alone, for each platform and Python; prints a line for each. Fails where something fails that
# docs/guide/operations.md says installs. Needs an index of packages, and none of the platforms. With another extra:
# resolve_platforms.sh --extra flower; `flare` and `dev` need packages that are pure Python without a wheel:
# resolve_platforms.sh --extra dev --no-binary pyhocon --no-binary wsgidav
set -eu
cd "$(dirname "$0")/.."
export MACOSX_DEPLOYMENT_TARGET=14.0
status=0
for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin x86_64-pc-windows-msvc; do
    for minor in 10 11 12 13 14; do
        printf '%-24s 3.%s ' "$platform" "$minor"
        if found=$(.venv/bin/uv pip compile --quiet --only-binary :all: --no-annotate --no-header \
            --python-platform "$platform" --python-version "3.$minor" --constraint constraints.txt \
            --extra plots --extra dp --extra remote "$@" pyproject.toml 2>&1); then
            echo "$found" | grep -E '^(openfhe|tenseal)==' | tr '\n' ' '
        else
            echo "$found" | tr '\n' ' ' | cut -c1-200
            [ "$platform $minor" = "aarch64-manylinux_2_28 10" ] || status=1 # TenSEAL has no such wheel
        fi
        echo
    done
done
exit $status
