#!/bin/sh
# make_release.sh: builds in dist/ the wheel and the sources, and beside them, of all that requirements/sites.txt
# installs with it, the components (CycloneDX) and the licences. Every tool is locked by hash (requirements/release.txt),
# and nothing else runs. The same commit gives the same wheel and sources. Where sources were unpacked there is no
# commit to ask: SOURCE_DATE_EPOCH is then the time of the release's.
set -eu
cd "$(dirname "$0")/.."

if ! grep -q '^\[project\.urls\]' pyproject.toml; then
    echo "fhe-auc: WARNING: pyproject.toml has no [project.urls]: its page on an index leads nobody to the project" >&2
fi

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
python=$(scripts/choose_python.sh)
tools=build/release-tools/bin installed=build/release-venv/bin/python
rm -rf dist build/release-tools build/release-venv
"$python" -m venv build/release-tools
"$python" -m venv build/release-venv
$tools/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.txt
$tools/python -m build --no-isolation --outdir dist .
$tools/twine check --strict dist/*.whl dist/*.tar.gz # the long description renders

$installed -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/sites.txt
$installed -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
$tools/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
    --output-file dist/components.cdx.json $installed
$tools/pip-licenses --python $installed --with-urls --format csv --output-file dist/licences.csv
(cd dist && sha256sum -- * >SHA256SUMS)
