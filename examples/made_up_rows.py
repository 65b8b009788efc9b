"""Make up the rows of docs/guide/paper.md and docs/guide/weights.md, as CSV files of three hospitals.

python examples/made_up_rows.py

NAME.csv            patients: outcome, the risks by two models, what they are grouped by
NAME-visits.csv     several visits of some of these patients
NAME-sampled.csv    all whom model a put at risk, or who died, and one in eight of the others, with weights
NAME-followed.csv   patients who are followed up until an event (1), another death (2), or the end of the study (0)
"""

import numpy as np
import pandas as pd

random = np.random.default_rng(2026)
for site, rows in (("north", 900), ("south", 600), ("west", 400)):
    sex = random.choice(["F", "M"], rows)
    age_band = random.choice(["18-49", "50-64", "65-79", "80+"], rows, p=[0.30, 0.35, 0.30, 0.05])
    illness = random.normal(size=rows)
    died = (random.random(rows) < 1 / (1 + np.exp(2 - 1.6 * illness))).astype(int)
    risk_a, risk_b = (1 / (1 + np.exp(2 - 1.5 * random.normal(illness, noise))) for noise in (0.8, 1.1))
    columns = {"died": died, "risk_a": risk_a, "risk_b": risk_b, "sex": sex, "age_band": age_band}
    pd.DataFrame(columns).to_csv(f"{site}.csv", index=False, float_format="%.4f")

random = np.random.default_rng(2027)
for site in ("north", "south", "west"):
    patients = pd.read_csv(f"{site}.csv").rename_axis("patient_id")
    visits = patients.sample(frac=3, replace=True, random_state=random)
    for risk in ("risk_a", "risk_b"):
        visits[risk] = (visits[risk] + random.normal(0, 0.03, len(visits))).clip(0, 1)
    visits.to_csv(f"{site}-visits.csv")

random = np.random.default_rng(2028)
for site, rows in (("north", 4500), ("south", 3000), ("west", 2000)):
    illness = random.normal(size=rows)
    died = random.random(rows) < 1 / (1 + np.exp(3 - 1.2 * illness))
    risk_a, risk_b = (1 / (1 + np.exp(3 - random.normal(illness, noise))) for noise in (0.6, 1.0))
    chance = np.where(died | (risk_a > 0.1), 1, 0.125)
    columns = {"died": died.astype(int), "risk_a": risk_a, "risk_b": risk_b, "weight": 1 / chance}
    sampled = pd.DataFrame(columns)[random.random(rows) < chance]
    sampled.to_csv(f"{site}-sampled.csv", index=False, float_format="%.4f")

for site, rows in (("north", 900), ("south", 600), ("west", 400)):
    illness = random.normal(size=rows)
    end_of_study, event = random.uniform(0, 1500, rows), random.exponential(2500 * np.exp(-0.9 * illness))
    ends = np.stack([end_of_study, event, random.exponential(6000, rows)])  # in the order of the codes 0, 1, 2
    risk = 1 / (1 + np.exp(1.5 - random.normal(illness, 0.5)))
    columns = {"days": np.ceil(ends.min(axis=0)).astype(int), "status": ends.argmin(axis=0), "risk": risk}
    pd.DataFrame(columns).to_csv(f"{site}-followed.csv", index=False, float_format="%.4f")
