#!/bin/sh
# make_venv.sh run|dev|openfhe: makes .venv and installs the project in it, editable, with the pinned versions of
# constraints.txt; `dev` adds what the tests and checks need; `openfhe` makes the same as `dev` in .venv-openfhe, with a
# Python on which OpenFHE loads. Where that is done already it does nothing and needs no network.
set -eu
cd "$(dirname "$0")/.."

case ${1:-} in
    run) venv=.venv extras= need= ;;
    dev) venv=.venv extras='[dev]' need= ;;
    openfhe) venv=.venv-openfhe extras='[dev]' need=openfhe PYTHON= ;;
    *) echo "usage: $0 run|dev|openfhe" >&2; exit 2 ;;
esac

# A virtual environment is tied to its folder and to the interpreter behind it. When the checkout moves, or that
# interpreter goes away or becomes another version, the environment fails in baffling ways: so it remembers what it was made for.
identity() {
    "$1" -I -c 'import os, sys; print(os.getcwd(), sys.base_prefix, "%d.%d" % sys.version_info[:2], sep="\n")' 2>/dev/null
}

is_sound() {
    [ -f $venv/.made-for ] && [ "$(identity $venv/bin/python)" = "$(cat $venv/.made-for)" ] || return 1
    [ -z "${PYTHON:-}" ] || [ "$(identity "$PYTHON")" = "$(cat $venv/.made-for)" ]
}

if ! is_sound; then
    python=$(scripts/choose_python.sh $need)
    if [ -e $venv ]; then
        echo "fhe-auc: making $venv anew: it was made elsewhere, or with another Python" >&2
        rm -rf $venv
    fi
    "$python" -m venv $venv
    identity $venv/bin/python >$venv/.made-for
fi

# The stamps hold a checksum and not a time: a checkout or a touch changes a file's time, but not what is to be installed.
wanted=$(cat pyproject.toml constraints.txt | cksum)
is_installed() {
    [ -f "$venv/.installed-$1" ] && [ "$(cat "$venv/.installed-$1")" = "$wanted" ]
}

if ! is_installed "$1" && ! { [ "$1" = run ] && is_installed dev; }; then
    echo "fhe-auc: installing into $venv: about a minute, and the only step that needs the network" >&2
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt -e ".$extras" >&2
    echo "$wanted" >"$venv/.installed-$1"
fi
