"""What may write, or prove to be this project, runs no code of ours and takes only what another job has summed up."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
RELEASE = WORKFLOWS["release"]
TARGETS = dict(re.findall(r"^([a-z-]+):(.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
RIGHTS = {
    "publish": {"id-token": "write", "attestations": "write", "packages": "write"},
    "announce": {"contents": "write"},
    "pages": {"pages": "write", "id-token": "write"},
}
"""Of the release's jobs; no other job of a workflow has any."""

# What the commands of such a job begin with: none runs a file of the artifacts or of the repository.
PLAIN = re.compile(
    r'echo |sha256sum --check --strict$|tar --extract --file release\.tar$|name="ghcr|uv publish |'
    r"pip install --no-deps --only-binary=uv --require-hashes -r publish\.txt$|docker login |skopeo copy |"
    r"(if )?gh release |then$|else$|fi$"
)
NESTED = re.compile(r"`|<\(|\$\((?!cat digest\))")
SUMMED = 'echo "$SUM  release.tar" | sha256sum --check --strict && tar --extract --file release.tar'


def faults(name: str, text: str) -> Iterator[str]:
    """What is wrong with a workflow."""
    found = yaml.safe_load(text)
    triggers = found[True]  # YAML's `on`
    if found["permissions"] != {"contents": "read"} or "secrets." in text:
        yield "more than reading, or a secret"
    if set(triggers) - {"push", "pull_request", "schedule", "workflow_dispatch"}:
        yield "started by what others do"
    for line in re.findall(r"uses:.*", text):
        if not re.fullmatch(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line):
            yield f"{line}: not a commit of GitHub's own actions"
    if missing := [path for path in re.findall(r"\btests/[\w/.]+", text) if not (ROOT / path).exists()]:
        yield f"there is no {missing}"
    jobs = found["jobs"]
    if {job: said["permissions"] for job, said in jobs.items() if "permissions" in said} != (
        RIGHTS if name == "release" else {}
    ):
        yield "rights"
    for job, said in jobs.items():
        steps = said["steps"]
        runs = [step["run"].strip() for step in steps if "run" in step]
        if any(
            step.get("with", {}).get("persist-credentials") is not False
            for step in steps
            if "checkout@" in step.get("uses", "")
        ):
            yield f"{job}: what runs may use the checkout's credentials"
        if not said["timeout-minutes"] <= 350:
            yield f"{job}: takes too long"
        if any("${{" in script for script in runs):
            yield f"{job}: text of others becomes a command"
        targets = {word for script in runs if script.startswith("make ") for word in script.split()[1:]}
        if {word for word in targets if "=" not in word} - set(TARGETS):
            yield f"{job}: make has no such target"
        if name == "release":
            yield from release_faults(job, said, runs, jobs)
    if name == "release" and triggers != {"push": {"tags": ["v*"]}}:
        yield "released without a tag"


def release_faults(job: str, said: dict[str, Any], runs: list[str], jobs: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a job of the release."""
    steps = said["steps"]
    actions = [step.get("uses", "").partition("@")[0].removeprefix("actions/") for step in steps]
    if "cache" in str(steps):
        yield f"{job}: takes what other runs have left"
    if job == "build" and any(re.search(r"make (?!release )|pip |uv ", script) for script in runs):
        yield "build: runs what is not locked by hash"
    if job not in RIGHTS:
        return
    commands = [part.strip() for script in runs for part in re.split(r"\n| && | \|\|? |; ", script)]
    if unknown := [each for each in commands if not PLAIN.match(each) or NESTED.search(each)]:
        yield f"{job}: runs {unknown}"
    if "checkout" in actions:
        yield f"{job}: takes code"
    needed, more = set[str](), {job}
    while more:
        more = {name for one in more for name in as_list(jobs[one].get("needs", []))} - needed
        needed |= more
    if not needed >= {"test", "build"}:
        yield f"{job}: before the tests have passed"
    if job == "pages":
        return
    taken, summed = steps[:2]
    if (taken.get("with"), summed.get("run"), summed.get("env")) != (
        {"name": "${{ needs.build.outputs.files }}"},
        SUMMED,
        {"SUM": "${{ needs.build.outputs.sum }}"},
    ) or actions.count("download-artifact") != 1:
        yield f"{job}: takes what nobody has summed up"


def as_list(found: str | list[str]) -> list[str]:
    return [found] if isinstance(found, str) else found


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_job_may_do_more_than_it_must(name: str) -> None:
    assert list(faults(name, WORKFLOWS[name])) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("permissions:\n  contents: read\n", "permissions:\n  contents: write\n", "more than reading"),
        ("${{ github.token }}", "${{ secrets.PAT }}", "a secret"),
        ("  push:\n", "  pull_request_target:\n  push:\n", "started by what others do"),
        ('tags: ["v*"]', "branches: [main]", "without a tag"),
        ("actions/setup-python@ece7cb06caefa5fff74198d8649806c4678c61a1 # v6.3.0", "actions/setup-python@v6", "commit"),
        ("actions/attest-sbom@", "somebody/attest-sbom@", "commit"),
        ("  test:\n", "  test:\n    permissions:\n      id-token: write\n", "rights"),
        ("  build:\n", "  build:\n    permissions: write-all\n", "rights"),
        ("      contents: write # the release\n", "      contents: write\n      id-token: write\n", "rights"),
        ('"$GITHUB_REF_NAME" dist/* --clobber', "${{ github.ref_name }} dist/* --clobber", "text of others"),
        ('python-version: "3.12"', 'python-version: "3.12"\n          cache: pip', "other runs"),
        ("persist-credentials: false", "persist-credentials: true", "credentials"),
        ("make release ", "make test release ", "not locked by hash"),
        ("      - run: mkdir release\n", "      - run: pip install build\n", "not locked by hash"),
        ("      - run: uv publish", "      - run: make test\n      - run: uv publish", "publish: runs"),
        ("      - run: uv publish", "      - run: sh dist/hook\n      - run: uv publish", "publish: runs"),
        ("      - run: uv publish", "      - run: echo; python dist/a.py\n      - run: uv publish", "publish: runs"),
        ("$(cat digest)", "$(sh dist/hook)", "publish: runs"),
        ("--require-hashes -r publish.txt", "-r publish.txt", "publish: runs"),
        ("docker login", "docker run", "publish: runs"),
        (
            "      - id: image\n",
            "      - uses: actions/checkout@" + "0" * 40 + " # v1.0.0\n      - id: image\n",
            "code",
        ),
        ("needs: [test, build]", "needs: build", "before the tests"),
        ("needs: [test, announce]", "needs: test", "before the tests"),
        ("SUM: ${{ needs.build.outputs.sum }}", "SUM: ${{ needs.test.outputs.sum }}", "summed"),
        ("sha256sum --check --strict && tar", "cat; tar", "summed"),
        ("name: ${{ needs.build.outputs.files }}", "name: dist", "summed"),
        ("make lint", "make lint publish-now", "no such target"),
        ("make lint", "make lint ARGS=tests/nothing", "there is no"),
        ("timeout-minutes: 20", "timeout-minutes: 999", "too long"),
    ],
)
def test_a_workflow_that_does_more_is_noticed(old: str, new: str, fault: str) -> None:
    assert old in RELEASE
    assert any(fault in found for found in faults("release", RELEASE.replace(old, new, 1)))


def test_every_python_that_installs_runs_the_tests_and_the_demo_before_a_change_lands() -> None:
    found = yaml.safe_load(WORKFLOWS["checks"])
    job = found["jobs"]["tests"]
    assert {"push", "pull_request"} <= set(found[True])
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make test PYTHON=python", "make demo"]
    assert {"python-version": "${{ matrix.python }}"} in [step.get("with") for step in job["steps"]]
    asked = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert asked
    assert {f"3.{minor}" for minor in range(*map(int, asked.groups()))} <= set(job["strategy"]["matrix"]["python"])


def test_a_release_is_built_by_tools_that_are_locked_by_hash() -> None:
    assert TARGETS["release"].startswith(" ##"), "make release needs no other target, such as .venv"
    for name in ("scripts/make_release.sh", "Dockerfile"):
        text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
        installs = re.findall(r"pip\b.* (?:install|wheel) .*", text)
        assert len(installs) >= 3
        assert [line for line in installs if not re.search("--require-hashes -r |--no-deps", line)] == []
        assert not re.search(r"uv tool|uvx|pipx|curl|wget|\.venv", text)


def test_the_site_that_is_deployed_is_the_one_that_the_tests_have_built() -> None:
    jobs = yaml.safe_load(RELEASE)["jobs"]
    for job, output in (("test", "site"), ("build", "files")):
        uploads = [step["with"]["name"] for step in jobs[job]["steps"] if "upload-" in step.get("uses", "")]
        assert uploads == [jobs[job]["outputs"][output]]
    assert jobs["pages"]["steps"][0]["with"] == {"artifact_name": "${{ needs.test.outputs.site }}"}
