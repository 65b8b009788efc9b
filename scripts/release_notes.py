"""release_notes.py TAG ADDRESS: prints what CHANGELOG.md says of this version, as the notes of its release.

It fails where the tag is not `v` and the version, so that nothing is published under another one's tag. ADDRESS is
where the files of the tag are: links that are relative in the changelog lead nowhere in a release.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_, tag, address = sys.argv
version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
if tag != f"v{version}":
    sys.exit(f"fhe-auc: the tag is {tag}, but the version in pyproject.toml is {version}: nothing is released")
_, heading, rest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition(f"\n## [{version}] - ")
if not heading:
    sys.exit(f"fhe-auc: CHANGELOG.md has no section of {version} with a date: nothing is released")
_, _, notes = rest.partition("\n")  # without the date
notes = notes.partition("\n## ")[0].strip()
notes = re.sub(r"\]\((?!https?://)", f"]({address}/", notes)
print(re.sub(r"\n  (?=[^\s-])", " ", notes))  # a release's page would show the line breaks within an item
