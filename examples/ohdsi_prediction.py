"""Turn the prediction.json of OHDSI's PatientLevelPrediction into CSV: y_true, y_score, patient.

python ohdsi_prediction.py prediction.json > hospital.csv

Any count of outcomes above 0 is label 1. Rows of evaluationType Test are taken, or of the type that follows the file's
name (Validation, in another hospital's data). How many others there are is told; so is how many scores differ, because
the R package writes four decimals, and what these make equal ties.
"""

import csv
import json
import sys
from collections import Counter

NAMES = ("evaluationType", "outcomeCount", "value", "subjectId")


def main(path: str, wanted: str = "Test") -> None:
    with open(path, encoding="utf-8") as file:
        stored = json.load(file)
    if missing := [name for name in NAMES if name not in stored]:
        sys.exit(f"{path}: there is no column {missing[0]}")
    # R writes a column of one row without brackets, and a missing number as "NA".
    columns = [stored[name] if isinstance(stored[name], list) else [stored[name]] for name in NAMES]
    rows = list(zip(*columns, strict=True))
    taken = [row[1:] for row in rows if row[0] == wanted]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("y_true", "y_score", "patient"))
    writer.writerows((count if count == "NA" else int(count > 0), value, patient) for count, value, patient in taken)
    others = Counter(str(kind) for kind, *_ in rows if kind != wanted)
    left = ", ".join(f"{count} {kind}" for kind, count in others.items()) or "none"
    values = len({value for _, value, _ in taken})
    print(f"{len(taken)} rows of type {wanted}, {values} different scores; rows left out: {left}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
