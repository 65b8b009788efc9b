#!/usr/bin/env bash
# hypothesis 6.168.5: with derandomize=True, state machines that are made by type(NAME, (Base,), {...}), one for each case
# of a parametrised test, all draw the same steps and values if NAME is the same; with other names they differ. A test's
# seed is a digest of its source, and of a class without source it is one of the name. Of a class with source the name
# does not count: two classes of a factory function draw the same, whatever they are called afterwards.
#
# Seen: eight examples of eight steps; two cases of one name: the same 64 steps; another name: other steps; two classes
# of one factory with other __name__s: the same steps.
# Why it matters: a suite that runs one machine over many protocols in CI looks at one walk again and again, where it
# seems to look at many.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check hypothesis==6.168.5
cat >"$folder/walks.py" <<'PY'
import collections

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

walks = collections.defaultdict(list)


class Base(RuleBasedStateMachine):
    case = ""

    @rule(number=st.integers(0, 10**6))
    def step(self, number):
        walks[self.case].append(number)

    @rule(text=st.text(max_size=3))
    def other_step(self, text):
        walks[self.case].append(text)


def with_source(name):
    class Machine(Base):
        case = name

        @rule(number=st.integers(0, 10**6))
        def third_step(self, number):
            walks[self.case].append(-number)

    Machine.__name__ = name
    return Machine


calm = settings(
    max_examples=8, stateful_step_count=8, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
for case, name in (("first", "Machine"), ("second", "Machine"), ("third", "Another")):
    run_state_machine_as_test(type(name, (Base,), {"case": case}), settings=calm)
for case in ("fourth", "fifth"):
    run_state_machine_as_test(with_source(case), settings=calm)
same, renamed = walks["first"] == walks["second"], walks["first"] == walks["third"]
print(f"{len(walks['first'])} steps; one name: same {same}; another name: same {renamed}")
print("classes with source, two names: same", walks["fourth"] == walks["fifth"])
assert same and not renamed and walks["fourth"] == walks["fifth"] and len(walks["first"]) >= 8
PY
cd "$folder" && venv/bin/python walks.py
