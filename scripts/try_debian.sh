#!/bin/sh
# try_debian.sh SUITE [PYTHON [COMMAND]]: the guide's install and the demo, then COMMAND (`make test`), of what is
# committed here, in a Debian that debootstrap makes in build/debian-SUITE. PYTHON is the folder of another interpreter
# than the suite's, which is copied into it:
#
#   scripts/try_debian.sh trixie ~/.pyenv/versions/3.12.1 'make test-openfhe'
#
# It prints the beginning of a row for scripts/README.md. By root on Linux, with debootstrap, unshare and a network;
# MIRROR names another one of Debian's.
set -eu
cd "$(dirname "$0")/.."
suite=$1 python=${2:-} command=${3:-make test}
root=$PWD/build/debian-$suite
script=
[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=sid # a suite that is newer than debootstrap
mkdir -p build
# Made anew each time: what an earlier COMMAND has left there, such as links, is not followed by root out here.
rm -rf --one-file-system "$root"
debootstrap --variant=minbase --include=ca-certificates,git,libgomp1,make,python3,python3-venv \
    "$suite" "$root" "${MIRROR:-}" $script >build/debootstrap.log
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
[ -z "${PIP_CERT:-}" ] || cp -L "$PIP_CERT" "$root/root/certificates.pem"
git clone --quiet "$PWD" "$root/src"
if [ -n "$python" ]; then
    mkdir -p "$root$python" && cp -a "$python/." "$root$python"
fi

cat >"$root/root/try.sh" <<'EOF'
cd /src
"$PYTHON" -m venv /opt/fhe-auc
/opt/fhe-auc/bin/pip install --quiet --only-binary :all: --require-hashes -r requirements/build.txt \
    -r requirements/sites.txt
/opt/fhe-auc/bin/pip install --quiet --no-deps --no-build-isolation .
/opt/fhe-auc/bin/fhe-auc demo --json >/tmp/demo.json
/opt/fhe-auc/bin/python - <<'END'
import importlib.metadata as installed, json, os, platform
from fhe_auc.ckks import available_backends
version = lambda name: installed.version(name) if name != "openfhe" or len(available_backends()) > 1 else "–"
names = "tenseal", "openfhe", "numpy", "pyarrow", "cryptography"
system = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {os.confstr('CS_GNU_LIBC_VERSION')}"
print("demo: auc =", json.load(open("/tmp/demo.json"))["auc"])
print("", system, platform.python_version(), *map(version, names), "", sep=" | ")
END
EOF
exec unshare --mount --pid --fork sh -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "PYTHON=$3" \
        ${PIP_CERT:+PIP_CERT=/root/certificates.pem} ${PIP_INDEX_URL:+"PIP_INDEX_URL=$PIP_INDEX_URL"} \
        sh -euc ". /root/try.sh; eval \"\$1\"" sh "$2"' sh "$root" "$command" "${python:+$python/bin/}python3" </dev/null
