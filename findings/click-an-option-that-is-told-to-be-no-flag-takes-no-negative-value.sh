#!/usr/bin/env bash
# click 8.5.1: an option without a default that is declared with is_flag=False takes no value that begins with "-", not
# even behind "=". With is_flag left out it does. Neither has a flag_value.
#
# Seen: "--label -1" and "--label=-1": "No such option '-1'" with is_flag=False, and '-1' without it.
# Why it matters: a program that computes is_flag for all its options refuses labels of -1, negative thresholds, and SQL
# that begins with a comment.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check click==8.5.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import click
from click.testing import CliRunner


def taken(*words, **declared):
    @click.command()
    @click.option('--label', **declared)
    def command(label):
        print(label)

    return CliRunner().invoke(command, words).output.strip().splitlines()[-1]


told, usual, joined = taken('--label', '-1', is_flag=False), taken('--label', '-1'), taken('--label=-1', is_flag=False)
print(f'is_flag=False: {told}; left out: {usual}; with =: {joined}')
assert 'No such option' in told and told == joined and usual == '-1'
PY
