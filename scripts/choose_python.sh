#!/bin/sh
# choose_python.sh [openfhe]: prints the interpreter to make an environment with, and says on stderr which it is and
# what is missing there; with `openfhe`, one on which OpenFHE loads.
#
# 3.12 is what we recommend; 3.10, past its end of life, comes last. PYTHON=/path/to/python overrides the search for
# .venv's. pyenv and uv are searched for what is installed; nothing is downloaded.
set -eu

# Run by each candidate. Says "openfhe" or "tenseal" (what will load), its own path, and the reason; or "no", "-", the
# reason. OpenFHE's two wheels differ in the oldest glibc and libstdc++ they load on: read from their symbol versions.
probe='
import os, platform, sys

def missing():
    """Why OpenFHE will not load here, or None."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "OpenFHE has wheels for x86-64 Linux only"
    if sys.version_info[:2] not in NEEDS:
        return "OpenFHE has wheels for Python 3.10 and 3.12 only"
    glibc, glibcxx = NEEDS[sys.version_info[:2]]
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    except (AttributeError, ValueError):
        return "OpenFHE needs glibc"
    if tuple(map(int, found.split("."))) < glibc:
        return "OpenFHE needs glibc %d.%d on this Python, found %s" % (*glibc, found)
    try:
        import ctypes
        ctypes.CDLL("libstdc++.so.6")
        with open("/proc/self/maps") as maps:
            path = next(line.split(None, 5)[5].strip() for line in maps if "/libstdc++.so" in line)
        with open(path, "rb") as library:
            has_symbols = glibcxx.encode() + b"\0" in library.read()
    except (ImportError, OSError, StopIteration):
        return "OpenFHE needs libstdc++, which did not load"
    return None if has_symbols else "OpenFHE needs %s on this Python, which %s lacks" % (glibcxx, path)

NEEDS = {(3, 10): ((2, 34), "GLIBCXX_3.4.29"), (3, 12): ((2, 38), "GLIBCXX_3.4.32")}
name = platform.python_implementation().replace("CPython", "Python") + " " + platform.python_version()
if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 14):
    print("no", "-", name + " is not CPython 3.10 to 3.14", sep="\n")
    sys.exit()
try:
    import ensurepip, venv
except ImportError:
    print("no", "-", name + " has no venv module (on Debian, a package of its own: pythonX.Y-venv)", sep="\n")
    sys.exit()
# Out of an activated environment, which may be gone tomorrow, to the interpreter behind it.
path = sys.executable if sys.prefix == sys.base_prefix else os.path.realpath(sys.executable)
reason = missing()
if sys.version_info[:2] == (3, 10):
    name += ", past its end of life"
if reason:
    print("tenseal", path, name + ", with TenSEAL alone: " + reason, sep="\n")
else:
    print("openfhe", path, name + ": both OpenFHE and TenSEAL load", sep="\n")
'

refused=
note_refusal() {
    refused="$refused
  $1"
}

# consider INTERPRETER NEED: prints it and ends the search if it has what is needed ("openfhe", or "anything").
consider() {
    command -v "$1" >/dev/null || return 0
    # A pyenv shim is there even where the version it stands for is not: then it fails, and is passed over.
    answer=$("$1" -I -c "$probe" 2>/dev/null) || { note_refusal "$1 does not run"; return 0; }
    { read -r backend; read -r path; read -r reason; } <<EOF
$answer
EOF
    case $2:$backend in
        *:no) note_refusal "$1: $reason" ;;
        openfhe:tenseal) note_refusal "$1: ${reason#*TenSEAL alone: }" ;;
        *)
            echo "fhe-auc: chose $path ($reason)" >&2
            echo "$path"
            exit
            ;;
    esac
}

# search NEED VERSION...: on PATH, then among pyenv's, then among uv's.
search() {
    need=$1
    shift
    for version; do
        consider "python$version" "$need"
        for python in "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version".*/bin/python; do
            consider "$python" "$need"
        done
        if command -v uv >/dev/null; then
            consider "$(UV_PYTHON_DOWNLOADS=never uv python find --no-project "$version" 2>/dev/null)" "$need"
        fi
    done
}

if [ "${1:-}" = openfhe ]; then
    search openfhe 3.12 3.10
    echo "fhe-auc: found no Python on which OpenFHE loads: 3.12 with glibc 2.38 or later (Debian 13), or 3.10.$refused" >&2
    exit 1
fi

if [ -n "${PYTHON:-}" ]; then
    consider "$PYTHON" anything
    echo "fhe-auc: PYTHON=$PYTHON cannot be used:${refused:- there is no such command}" >&2
    exit 1
fi

search anything 3.12 3.13 3.14 3.11 3.10
cat >&2 <<EOF
fhe-auc: found no Python from 3.10 to 3.14 to make .venv with.$refused
Install one, 3.12 for choice (\`pyenv install 3.12\`, \`uv python install 3.12\`), or name one: make PYTHON=/path/to/python
EOF
exit 1
