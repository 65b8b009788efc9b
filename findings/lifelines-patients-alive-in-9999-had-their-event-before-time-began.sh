#!/usr/bin/env bash
# lifelines 0.30.3: datetimes_to_durations makes of a date that pandas cannot hold, or that is no date, an observed
# event after -9.2e18 days. It warns that "some values of start_times are after end_times"; KaplanMeierFitter takes such
# durations.
#
# Seen: end dates 2020-02-01, 9999-12-31 (the register's "none yet"), 2020-02-30 and an empty one: durations 31,
# -9.2e18, -9.2e18 and 366 days; events True, True, True, False. The curve begins with 2 of 4 dead.
# Why it matters: 9999-12-31 is how registers write "alive". It has to be named, na_values=["9999-12-31"], and then an
# empty date becomes such an event.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lifelines==0.30.3 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
from lifelines import KaplanMeierFitter
from lifelines.utils import datetimes_to_durations

ends = ['2020-02-01', '9999-12-31', '2020-02-30', '']
days, events = datetimes_to_durations(['2020-01-01'] * 4, ends, fill_date='2021-01-01')
named = datetimes_to_durations(['2020-01-01'] * 4, ends, fill_date='2021-01-01', na_values=['9999-12-31'])
alive = KaplanMeierFitter().fit(days, events).predict(0)
print(f'days {days}, events {events}, alive on day 0: {alive}; named {named[0]} {named[1]}')
assert days[1] < -9e18 and days[2] < -9e18 and events.tolist() == [True, True, True, False] and alive == 0.5
assert named[0][1] == 366 and named[0][3] < -9e18
PY
