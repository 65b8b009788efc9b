#!/usr/bin/env bash
# msgspec 0.22.0 and 0.23.0: text that is no UTF-8, in JSON, MessagePack and TOML, raises Python's UnicodeDecodeError
# with 0.22.0, which is no msgspec.DecodeError (and no msgspec.MsgspecError), though all else that is wrong is; in 0.23.0
# it is one, and no UnicodeDecodeError any more.
#
# Seen: "0.22.0: json UnicodeDecodeError, msgpack UnicodeDecodeError, toml UnicodeDecodeError"; "0.23.0: json
# DecodeError, msgpack DecodeError, toml DecodeError".
# Why it matters: `except msgspec.DecodeError` around what others have sent lets a file through that a Latin-1 editor has
# saved, as if it were an error of the program; `except UnicodeDecodeError`, to say "save it as UTF-8", stops with the
# update to 0.23. Both are a ValueError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 0.22.0 0.23.0; do
    "${PYTHON:-python3}" -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "msgspec==$version" tomli==2.2.1
    "$folder/$version/bin/python" - <<'PY'
import msgspec


class Site(msgspec.Struct):
    name: str


SAVED = {  # a name with an umlaut, by an editor that writes Latin-1
    'json': '{"name": "Zürich"}'.encode('latin-1'),
    'msgpack': msgspec.msgpack.encode({'name': 'Z?rich'}).replace(b'?', 'ü'.encode('latin-1')),
    'toml': 'name = "Zürich"'.encode('latin-1'),
}
found = {}
for kind, data in SAVED.items():
    try:
        getattr(msgspec, kind).decode(data, type=Site)
    except ValueError as error:
        found[kind] = (type(error).__name__, isinstance(error, msgspec.MsgspecError))
print(f'{msgspec.__version__}: ' + ', '.join(f'{kind} {name}' for kind, (name, _) in found.items()))
old = msgspec.__version__ == '0.22.0'
assert list(found) == list(SAVED)
assert set(found.values()) == {('UnicodeDecodeError', False) if old else ('DecodeError', True)}
PY
done
