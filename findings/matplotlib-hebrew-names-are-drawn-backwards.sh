#!/usr/bin/env bash
# matplotlib 3.10.9: text of scripts that run from right to left is drawn from left to right, in the order of its
# characters. Its own font has Hebrew, so that nothing warns.
#
# Seen: of a site's name the first letter is the leftmost, where a reader looks for the last one.
# Why it matters: a forest plot names hospitals that do not exist. Nobody sees it who does not read the script.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check matplotlib==3.10.9 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import TextToPath

name = '\u05d0\u05d1\u05d2'  # alef, bet, gimel: read from right to left
font = get_font(findfont(FontProperties(family='DejaVu Sans')))
font.set_size(12, 72)
glyphs = TextToPath().get_glyphs_with_font(font, name)[0]
letters = [glyph for glyph, *_ in glyphs]
places = [x for _, x, *_ in glyphs]
expected = [TextToPath().get_glyphs_with_font(font, letter)[0][0][0] for letter in name]
print(f'glyphs {letters} at {[round(place, 1) for place in places]}; of the letters in their order {expected}')
assert letters == expected and places == sorted(places) and places[0] < places[-1]
PY
