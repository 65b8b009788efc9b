#!/usr/bin/env python3
"""Put faults into a copy of the tree, one at a time: does the suite notice?

    scripts/mutants.py named                 those of NAMED, which reviewers have measured suites by
    scripts/mutants.py random                100 of lines that the suite executes in FOLDERS, drawn by the seed 62:
                                             conditions, comparisons, returned values, orders, calls that are dropped
    scripts/mutants.py random --only 17      one of them again

A survivor is printed as a diff. Either a rule of the suite learns to notice it, or tests/suite/equivalent_mutants.toml
has it, by the name that is printed, with the reason why it changes nothing. Needs Python 3.12, in .venv.
"""

import argparse
import ast
import difflib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / "tests/suite/equivalent_mutants.toml"
FOLDERS = "fhe_auc/session", "keys/fhe_auc_keys/roles", "fhe_auc/machines"
SUITE = "-x", "-q", "--no-header", "-p", "no:cacheprovider", "tests/suite"
LONGEST = 1800  # seconds of a run; a fault that makes it longer is noticed: something waits for ever
NOT_TRIED = re.compile(r"\blog\b|LOGGER|warning|timeout|deadline|monotonic|perf_counter|sleep|seconds|win32|os\.name")
"""Logs, time-outs, Windows."""
SWAPPED = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn},
    **{ast.NotIn: ast.In, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add},
}
AGGREGATOR, PARTY = "fhe_auc/session/aggregator.py", "fhe_auc/session/party.py"
RESTORED = "self._round, self.ended, self._seconds = saved.round,"
NAMED = {
    "a submission is taken twice": (AGGREGATOR, "if self.has_accepted(party):", "if False:"),
    "nobody looks who is asked": (AGGREGATOR, "if not self._is_asked(party):", "if False:"),
    "senders are not compared": (AGGREGATOR, ", sender=party)", ")"),
    "digests are not compared": ("fhe_auc/session/messages.py", "if digest != rest[:DIGEST]:", "if False:"),
    "no message is kept": (AGGREGATOR, "self.journal.keep_message(number, message)", "pass"),
    "no submission is kept": (AGGREGATOR, "journal.add(self.round, party, submission)", "pass"),
    "a closed round is forgotten": (AGGREGATOR, "self.journal.close_round(self.round, answered)", "pass"),
    "a party forgets its round": (PARTY, RESTORED, "_, self.ended, self._seconds = 0,"),
    "a party forgets its own state": (PARTY, "self._side.restore(saved.own)", "pass"),
    "too few are enough": (AGGREGATOR, "if len(self._digests) >= least:", "if True:"),
    "below is above": ("fhe_auc/sums/terms.py", '.over == "below":', '.over == "above":'),
}


class Mutant(NamedTuple):
    """A part of a file, by its bytes, and what it becomes."""

    name: str
    file: str
    start: int
    end: int
    text: str


def changed(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield the parts of a node that a mutant has another text for."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield node.test, f"not ({ast.unparse(node.test)})"
    elif isinstance(node, ast.comprehension):
        yield from ((test, f"(not ({ast.unparse(test)}))") for test in node.ifs)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        other = ast.Compare(node.left, [SWAPPED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        yield node, f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield node, f"({ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))})"
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, {"True": "return False", "False": "return True"}.get(ast.unparse(node.value), "return None")
    elif isinstance(node, ast.Call) and len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        yield node, ast.unparse(ast.Call(node.func, node.args[::-1], node.keywords))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"


def depend(one: ast.stmt, two: ast.stmt) -> bool:
    """Whether it may matter which comes first: the second reads what the first sets, or both call something."""
    if isinstance(one, ast.Assign) and any(ast.unparse(target) in ast.unparse(two) for target in one.targets):
        return True
    return all(any(isinstance(part, ast.Call) for part in ast.walk(each)) for each in (one, two))


def mutants_of(file: str, source: bytes, lines: set[int]) -> Iterator[Mutant]:
    """Yield all mutants of lines that are executed."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def made(where: str, first: ast.expr | ast.stmt, text: str, last: ast.AST) -> Iterator[Mutant]:
        start = starts[first.lineno - 1] + first.col_offset
        end = starts[last.end_lineno - 1] + last.end_col_offset  # type: ignore[attr-defined]
        before = source[start:end].decode()
        if first.lineno in lines and not NOT_TRIED.search(before):
            yield Mutant(" ".join(f"{file} {where}: {before} => {text}".split()), file, start, end, text)

    def visit(node: ast.AST, where: str) -> Iterator[Mutant]:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            where = f"{where}.{node.name}".strip(".")
        for part, text in changed(node):
            yield from made(where, part, text, part)
        plain = (ast.Assign, ast.AugAssign, ast.Expr)  # two such after one another may change places
        body = node.body if isinstance(node, (ast.FunctionDef, ast.If, ast.For, ast.With)) else []
        for one, two in itertools.pairwise(body):
            if isinstance(one, plain) and isinstance(two, plain) and depend(one, two):
                yield from made(where, one, f"{ast.unparse(two)}\n{' ' * one.col_offset}{ast.unparse(one)}", two)
        for child in ast.iter_child_nodes(node):  # not what errors say, nor annotations and decorators
            skipped = isinstance(child, (ast.Raise, ast.arguments, ast.JoinedStr))
            if not skipped and getattr(child, "name", "") != "__repr__":
                yield from visit(child, where)

    yield from visit(ast.parse(source), "")


def paths(tree: Path) -> list[str]:
    return [str(tree / part) for part in ("", "keys", "protocols", "benchmarks")]


def executed(tree: Path) -> dict[str, set[int]]:
    """Run the suite in this process, as it is; return the lines in FOLDERS that it executes, by file."""
    import pytest

    lines: dict[str, set[int]] = {}
    folders, watch = tuple(f"{tree / folder}/" for folder in FOLDERS), sys.monitoring

    def seen(code: CodeType, line: int) -> object:
        if code.co_filename.startswith(folders):
            lines.setdefault(Path(code.co_filename).relative_to(tree).as_posix(), set()).add(line)
        return watch.DISABLE

    watch.use_tool_id(watch.COVERAGE_ID, "lines")
    watch.register_callback(watch.COVERAGE_ID, watch.events.LINE, seen)
    watch.set_events(watch.COVERAGE_ID, watch.events.LINE)
    sys.path[:0] = paths(tree)
    os.chdir(tree)
    if pytest.main(list(SUITE)):
        sys.exit("the suite fails without a mutant")
    return lines


def is_noticed(tree: Path, mutant: Mutant) -> bool:
    """Whether the suite fails in the tree with the mutant, which is taken out again."""
    path = tree / mutant.file
    source = path.read_bytes()
    path.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
    command = [sys.executable, "-m", "pytest", *SUITE]
    more = {"PYTHONPATH": os.pathsep.join(paths(tree)), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **more}
    try:
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=LONGEST)
        return run.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_bytes(source)


def named(name: str, file: str, old: str, new: str) -> Mutant:
    source, text = (ROOT / file).read_bytes(), old.encode()
    if source.count(text) != 1:
        sys.exit(f"{name}: {file} does not have once {old!r}: bring NAMED up to date")
    return Mutant(name, file, source.index(text), source.index(text) + len(text), new)


def drawn(tree: Path, number: int, seed: int) -> list[Mutant]:
    lines = executed(tree)
    every = [each for file in sorted(lines) for each in mutants_of(file, (tree / file).read_bytes(), lines[file])]
    known = tomllib.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else {}
    print(f"{len(every)} mutants, {sum(each.name in known for each in every)} of them equivalent", flush=True)
    order = random.Random(seed).sample(every, len(every))  # noqa: S311 # a draw of tests
    return [each for each in order if each.name not in known][:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["named", "random"])
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=62)
    parser.add_argument("--only", type=int, help="the number of one, as it was printed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv*", "build", "dist", "__pycache__"))
        mutants = (
            [named(name, *fault) for name, fault in NAMED.items()]
            if given.kind == "named"
            else drawn(tree, given.number, given.seed)
        )
        survivors = 0
        for number, mutant in enumerate(mutants):
            if given.only not in (None, number):
                continue
            started = time.monotonic()
            noticed = is_noticed(tree, mutant)
            survivors += not noticed
            seconds = time.monotonic() - started
            print(
                f"{number:3} {'noticed' if noticed else 'NOT NOTICED':11} {seconds:4.0f} s  {mutant.name}", flush=True
            )
            if not noticed:
                source = (tree / mutant.file).read_bytes()
                other = source[: mutant.start] + mutant.text.encode() + source[mutant.end :]
                texts = (each.decode().splitlines(keepends=True) for each in (source, other))
                print("".join(difflib.unified_diff(*texts, mutant.file, mutant.file, n=2)), flush=True)
        sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
