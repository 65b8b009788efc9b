#!/usr/bin/env bash
# pyreadr 0.5.8: R keeps whole numbers of 64 bits (integer64 of bit64: bigint columns of databases, long numbers by
# data.table's fread) in a column of floating point whose bits are integers. pyreadr gives the floating-point numbers
# that these bits are, without a warning. The package rdata warns, and gives the same.
#
# Seen: labels 0, 1, 1 and patients 7, 8 and 12345678901: labels 0, 5e-324 and 5e-324, patients 3.5e-323, 4e-323 and
# 6.1e-314. "label > 0" still holds; their sum and mean are 0, and rounded they are all 0.
# Why it matters: a table that R has fetched from a database has no event. Take the column's view as int64: it is all
# there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check pyreadr==0.5.8 \
  pandas==2.3.3 numpy==2.4.6 rdata==1.1.0
cd "$folder"
"$folder/venv/bin/python" -W error - <<'PY'
import struct
import warnings

import numpy as np
import pyreadr
import rdata


def words(*texts):  # as R's serialize() writes a vector of text
    each = [struct.pack(">ii", 0x00040009, len(text)) + text.encode() for text in texts]
    return struct.pack(">ii", 16, len(texts)) + b"".join(each)


def attributes(**named):
    pairs = (struct.pack(">iiii", 0x402, 1, 0x00040009, len(name)) + name.encode() + named[name] for name in named)
    return b"".join(pairs).replace(b"row_names", b"row.names") + struct.pack(">i", 254)


def column(kind, numbers, **named):
    flags = 14 | (0x300 if named else 0)
    data = struct.pack(f">ii{len(numbers)}{kind}", flags, len(numbers), *numbers)
    return data + (attributes(**named) if named else b"")


whole = {"class": words("integer64")}
columns = [column("q", [7, 8, 12345678901], **whole), column("q", [0, 1, 1], **whole), column("d", [0.2, 0.5, 0.7])]
three = struct.pack(">iiii", 13, 2, -(2**31), -3)
frame = {"names": words("patient", "label", "risk"), "row_names": three, "class": words("data.frame")}
head = b"X\n" + struct.pack(">iii", 2, 0x00030600, 0x00020300) + struct.pack(">ii", 19 | 0x300, 3)
with open("table.rds", "wb") as file:
    file.write(head + b"".join(columns) + attributes(**frame))

table = pyreadr.read_r("table.rds")[None]
print(table.to_dict("list"), "sum of labels", float(table.label.sum().round()))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    other = rdata.read_rds("table.rds")
print("rdata warns:", str(told[0].message)[:50])
assert table.risk.tolist() == [0.2, 0.5, 0.7] and (np.asarray(other.label) == table.label.to_numpy()).all()
assert 0 < table.label[1] < 1e-300 and table.label.round().sum() == 0 and 0 < table.patient.max() < 1e-300
assert table.patient.to_numpy().view(np.int64).tolist() == [7, 8, 12345678901]
PY
