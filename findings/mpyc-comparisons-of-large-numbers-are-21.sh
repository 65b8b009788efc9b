#!/usr/bin/env bash
# mpyc 0.11: secure integers hold and add numbers far beyond the 32 bits of SecInt(), and sums come back right.
# Compared, they are not refused: "9e10 > 5" is neither 1 nor 0 but 21, "9e10 < 5" is -20.
#
# Seen: 5 * 10^9 > 5: 2; 9 * 10^10 > 5: 21; 10^12 > 5: 233; in SecInt(64) each is 1.
# Why it matters: an AUC counts pairs by comparisons. Scores in units of 10^-10, or counts of pairs that are compared
# with a bound, give sums that look like counts. The length has to be set by hand, and nothing checks it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpyc==0.11 2>/dev/null
"$folder/venv/bin/python" - --no-log 2>/dev/null <<'PY'
from mpyc.runtime import mpc

short, long = mpc.SecInt(), mpc.SecInt(64)


async def greater(number, of):
    return int(await mpc.output(of(number) > of(5)))


async def main():
    await mpc.start()
    numbers = (10**9, 5 * 10**9, 9 * 10**10, 10**12)
    back = [int(await mpc.output(short(number) + short(0))) for number in numbers]
    found = [await greater(number, short) for number in numbers]
    less = int(await mpc.output(short(9 * 10**10) < short(5)))
    right = [await greater(number, long) for number in numbers]
    await mpc.shutdown()
    print(f"{short.__name__}: {back} > 5: {found}; {long.__name__}: {right}; 9e10 < 5: {less}")
    assert back == list(numbers) and found == [1, 2, 21, 233] and less == -20 and right == [1, 1, 1, 1]


mpc.run(main())
PY
