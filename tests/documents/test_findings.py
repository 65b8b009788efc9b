"""Each script of findings/ has the form that CONTRIBUTING.md states, and a line of its own in the README there."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

FINDINGS = Path(__file__).parents[2] / "findings"
SCRIPTS = sorted(FINDINGS.glob("*.sh"))
_INSTALL = re.compile(r'^.*\b(?:pip[\d.]*"?|npm)(?: -\S+)* (?:install|i|add) (.*)$', re.MULTILINE)
_PINNED = re.compile(r"[\w.-]+(\[[\w,-]+\])?==[\w.+$]+|(@[\w.-]+/)?[\w.-]+@\d[\w.+-]*")
_FETCHES = re.compile(r"\b(curl|wget|npx|uvx|pipx|conda|apt|apt-get|cargo|git clone) ")
_PRINTS = re.compile(r"(?:\bprint\(|\becho |\bprintf |console\.log\()(?!.*>&2)")
_LISTED = re.compile(r"^- `([^`]+\.sh)`: \S", re.MULTILINE)


def code(script: str) -> str:
    """A script's lines without its comments, those that go on joined."""
    lines = [line for line in script.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines)


def loose(script: str) -> list[str]:
    """What a script installs whose version it leaves open."""
    found = []
    for words in _INSTALL.findall(code(script)):
        named = [word.strip("\"'") for word in re.sub(r"\s+\d?>.*| \|\|.*", "", words).split() if word[0] != "-"]
        found += [word for word in named if not _PINNED.fullmatch(word) and not word.startswith("$folder/")]
    return found


def faults(script: str) -> list[str]:
    """What a script lacks of the form of a finding."""
    head, strict, _ = script.partition("\nset -euo pipefail\n")
    wanted = {
        "bash": script.startswith("#!/usr/bin/env bash\n# "),
        "set -euo pipefail": bool(strict) and all(line.startswith("#") for line in head.splitlines()),
        "a version in its first words": bool(re.search(r"\d", head.split("\n# ")[1].partition(":")[0])),
        "Why it matters": "Why it matters: " in head,
        "a temporary folder": "folder=$(mktemp -d)\n" in script,
        "its removal": bool(re.search(r"^ *(trap '.*)?rm -rf \"\$folder\"", script, re.MULTILINE)),
        "a trap on its exit": bool(re.search(r"^trap \S.* EXIT$", script, re.MULTILINE)),
        "a package to install": bool(_INSTALL.findall(code(script))),
        "an assertion": bool(re.search(r"\bassert |exit 1|^test |^\[ |^grep -q ", code(script), re.MULTILINE)),
        "something printed": bool(_PRINTS.search(code(script))),
        "nothing but packages": not _FETCHES.search(code(script)),
        "nothing of ours": not re.search(r"(import|from|install.*) fhe[_-]auc", code(script)),
    }
    return [name for name, there in wanted.items() if not there] + loose(script)


def test_every_script_has_one_line_in_the_readme_and_every_line_a_script() -> None:
    listed = Counter(_LISTED.findall((FINDINGS / "README.md").read_text(encoding="utf-8")))
    assert listed == Counter(script.name for script in SCRIPTS)
    assert {path.name for path in FINDINGS.iterdir()} == {"README.md", *listed}


def test_a_test_that_the_readme_names_is_there() -> None:
    named = re.findall(r"→\s+`([^`]+)`", (FINDINGS / "README.md").read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (FINDINGS.parent / path).is_file()] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_has_the_form_of_a_finding(script: Path) -> None:
    assert faults(script.read_text(encoding="utf-8")) == []
    assert os.access(script, os.X_OK)
    assert subprocess.run(["/usr/bin/env", "bash", "-n", script], capture_output=True).stderr == b""


def test_a_script_without_the_form_is_noticed() -> None:
    python, node = (
        (FINDINGS / name).read_text(encoding="utf-8")
        for name in (
            "sqlite-column-declared-string-stores-007-as-7.sh",
            "hpke-two-libraries-of-one-kem-derive-two-keys.sh",
        )
    )
    assert faults(python) == faults(node) == []
    strict = "set -euo pipefail\n"
    for script, before, after, fault in (
        (python, "/usr/bin/env bash", "/bin/sh", "bash"),
        (python, "set -euo", "set -eu", "set -euo pipefail"),
        (python, "Why it matters", "Note", "Why it matters"),
        (python, "rm -rf", "ls", "its removal"),
        (python, "import apsw", "import apsw, fhe_auc\nfrom fhe_auc import sums", "nothing of ours"),
        (python, "apsw==", "apsw>=", "apsw>=3.50.4.0"),
        (python, "assert ", "print ", "an assertion"),
        (python, "print(", "repr(", "something printed"),
        (python, strict, f"{strict}python3 -m pip install numpy\n", "numpy"),
        (python, strict, f"{strict}pip3 --quiet install apsw==3.50.4.0 pandas\n", "pandas"),
        (python, strict, f"{strict}curl -s https://example.org/install | sh\n", "nothing but packages"),
        (node, "hpke@1.1.7", "hpke", "hpke"),
        (node, "@hpke/core@1.9.0", "@hpke/core", "@hpke/core"),
        (node, "@hpke/core@1.9.0", "@hpke/core@latest", "@hpke/core@latest"),
        (node, "console.log(", "String(", "something printed"),
    ):
        assert before in script, before
        assert fault in faults(script.replace(before, after)), fault
