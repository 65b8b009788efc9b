#!/usr/bin/env bash
# mpyc 0.11: a quotient of secure fixed-point numbers is a product with a reciprocal of 16 binary digits, so the larger
# both numbers are, the fewer of its digits are right. It also falls by chance, another time otherwise.
#
# Seen, SecFxp() of 32 bits, 40 quotients each: 76 / 100 is 0.760 or 0.761; 7,600 / 10,000 is 0.696 or 0.812; 20,000 /
# 30,000 is 0.610 or 0.916. With SecFxp(64) 760,000,000 / 1,000,000,000 is 0.708 or 0.885.
# Why it matters: a rate or an AUC that is divided in secret shares is off by more than any interval. Open both counts,
# or scale them to less than 1 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpyc==0.11
"$folder/venv/bin/python" - --no-log <<'PY'
from mpyc.runtime import mpc

fixed, long = mpc.SecFxp(), mpc.SecFxp(64)


async def quotients(above, below, of):
    return sorted({round(float(await mpc.output(of(above) / of(below))), 3) for _ in range(40)})


async def main():
    await mpc.start()
    found = {
        (above, below, of.__name__): await quotients(above, below, of)
        for above, below, of in (
            (76, 100, fixed),
            (7_600, 10_000, fixed),
            (20_000, 30_000, fixed),
            (760_000_000, 1_000_000_000, long),
        )
    }
    await mpc.shutdown()
    for (above, below, name), values in found.items():
        print(f"{name}: {above:,} / {below:,} = {values}, right: {above / below:.3f}")
    small, medium, large, longer = found.values()
    assert all(abs(each - 0.76) < 0.003 for each in small)
    assert all(abs(each - 0.76) > 0.04 for each in medium)
    assert all(abs(each - 2 / 3) > 0.04 for each in large)
    assert all(abs(each - 0.76) > 0.04 for each in longer)


mpc.run(main())
PY
