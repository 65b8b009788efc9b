#!/usr/bin/env bash
# diffprivlib 0.6.6: quantile splits epsilon between its quantiles, and the accountant adds the parts up in floats, with
# no tolerance. Nine times 1/9 is more than 1: whoever has a budget of 1 and asks for the nine deciles with epsilon 1
# gets a BudgetError at the ninth. The eight that were drawn are lost, and 0.89 is spent.
#
# Seen: of 2 to 59 quantiles 24 numbers fail, as 9, 11, 18, 20, 50; 10 and 19 pass.
# Why it matters: edges of bins with equal numbers of rows are such quantiles. A budget is better added up in fractions,
# or reserved for the whole release at once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check diffprivlib==0.6.6 scikit-learn==1.7.2 \
  numpy==2.3.5 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.tools import quantile
from diffprivlib.utils import BudgetError

scores = np.random.default_rng(1).random(1000)


def spent(number):
    accountant = BudgetAccountant(epsilon=1, delta=0)
    levels = np.linspace(0, 1, number + 2)[1:-1]
    try:
        quantile(scores, levels, epsilon=1, bounds=(0, 1), random_state=1, accountant=accountant)
    except BudgetError:
        return round(float(accountant.total()[0]), 4), len(accountant)


failed = {number: found for number in range(2, 60) if (found := spent(number))}
print(f"{len(failed)} numbers of quantiles fail: {list(failed)}; nine: spent, drawn {failed[9]}")
assert failed[9] == (0.8889, 8) and len(failed) == 24 and not {10, 19} & set(failed)
PY
