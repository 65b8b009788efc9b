"""The definitions of proofs/*.v in Python, word for word, against the code: where it changes, proofs have to follow."""

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fhe_auc.base.errors import VerificationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.rlwe import modular
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.proof import Authenticator, authenticated
from fhe_auc.sums.vector_sums import VectorAuthenticator, VectorSums
from fhe_auc_protocols.exact_auc.auc_sums import auc_of_sums
from fhe_auc_protocols.exact_auc.comparison_sums import ComparisonSums
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from fhe_auc_protocols.exact_auc.release_part import Reading
from fhe_auc_protocols.exact_auc.site_sums import SiteSums, fraction_bits
from tests.support.several import CLASSES, SEX, binned, made

PROOFS = Path(__file__).parents[2] / "proofs"
ALL = Analysis(models=("old", "new"), by=(SEX,), heterogeneity=True, cross_groups=True)  # every kind of sum
MAX_ROWS, T, PRIME = 600, 2**62 - 57, 2**50 - 27
Entry, Kind, Form = tuple[Any, ...], tuple[Any, ...], dict[tuple[Any, ...], int]


# Analysis.v


class Row(NamedTuple):
    of_class: int
    in_group: set[int]
    bin: list[int]
    at_lower: list[int]
    upper_share: list[int]


def share(r: Row, m: int, j: int, scale: int) -> int:
    return {r.at_lower[m]: scale - r.upper_share[m], r.at_lower[m] + 1: r.upper_share[m]}.get(j, 0)


def of_row(r: Row, entry: Entry, scale: int) -> int:
    match entry:
        case ("count", m, g, c, k):
            return int(r.of_class == c and g in r.in_group and r.bin[m] == k)
        case ("coarse", what, m, c, j):
            at, own = int(j == r.at_lower[m]), share(r, m, j, scale)
            return int(r.of_class == c) * (at, own, own**2, at * (scale - r.upper_share[m]) * r.upper_share[m])[what]
        case (_, a, b, c, j, k):
            return int(r.of_class == c) * share(r, a, j, scale) * share(r, b, k, scale)
    raise ValueError(entry)


def sum_of(kind: Kind, sums: AnalysisSums) -> list[tuple[int, list[Form]]]:
    bins, coarse = range(sums.bins), range(ComparisonSums(((0, 1),), sums.bins)._coarse.ends)

    def beside(m: int, side: Any, k: int) -> Form:
        return {("count", m, side.group, c, n): (n < k) - (k < n) for c in side.classes for n in bins}

    def worth(m: int, b: int, j: int) -> Form:
        return {("coarse", 0, m, 1 - b, n): (1 if b else -1) * ((n < j) - (j <= n)) for n in coarse}

    if kind[0] in ("Difference", "Ties", "Squares"):
        x = sums.analysis.contrasts[kind[1]]
        sides = (x.positives, x.negatives) if kind[2:] != (0,) else (x.negatives, x.positives)
        each = [[{("count", x.model, side.group, c, k): 1 for c in side.classes} for side in sides] for k in bins]
        others = [beside(x.model, sides[1], k) for k in bins]
        last = {"Difference": [[o] for o in others], "Ties": [[own[1]] for own in each]}
        return [(1, [own[0], *end]) for own, end in zip(each, last.get(kind[0], [[o, o] for o in others]), strict=True)]
    match kind:
        case ("Rows", g, c):
            return [(1, [{("count", 0, g, c, k): 1 for k in bins}])]
        case ("First", m, b):
            return [(1, [{("coarse", 1, m, b, j): 1}, worth(m, b, j)]) for j in coarse]
        case ("Second", m, b):
            own = [(1, [{("coarse", 2, m, b, j): 1}, worth(m, b, j), worth(m, b, j)]) for j in coarse]
            return own + [(2, [{("coarse", 3, m, b, j): 1}, worth(m, b, j), worth(m, b, j + 1)]) for j in coarse]
        case ("Mixed", m, n, b):
            pairs = itertools.product(coarse, coarse)
            return [(1, [{("table", m, n, b, j, k): 1}, worth(m, b, j), worth(n, b, k)]) for j, k in pairs]
    return [(1, [{kind: 1}])]  # Site


def value(f: list[tuple[int, list[Form]]], x: Mapping[Entry, int]) -> int:
    return sum(c * math.prod(sum(w * x[entry] for entry, w in form.items() if w) for form in forms) for c, forms in f)


DEGREE_OF = {
    **dict.fromkeys(("Rows", "Site"), 1),
    **dict.fromkeys(("Difference", "Ties", "First"), 2),
    **dict.fromkeys(("Squares", "Second", "Mixed"), 3),
}


def room(kind: str, max_rows: int, scale: int, site_scale: int) -> int:
    most_cubic, pairs = 4 * max_rows**3 // 27, 2 * (max_rows**2 // 4)
    of_site = site_scale * max(max_rows**2, 256 * max_rows)
    rooms = {"Difference": pairs, "Ties": pairs, "Squares": most_cubic, "Rows": max_rows, "Site": 2 * of_site}
    return rooms.get(kind, 2 * scale**2 * most_cubic)


# What the code calls by other names


def entry_of(vector: str, at: int, sums: AnalysisSums) -> Entry:
    numbers = [int(each) for each in re.findall(r"\d+", vector)]
    if vector[0] == "t":
        of_two = divmod(at, ComparisonSums(((0, 1),), sums.bins)._coarse.ends)
        what = ("", "x", "xx", "xy").index("".join(re.findall("[xy]", vector)))
        return ("coarse", what, *numbers, at) if len(numbers) == 2 else ("table", *numbers, *of_two)
    return ("count" if vector[0] == "m" else "Site", *numbers, at)


def kinds_of(sums: AnalysisSums) -> Iterator[Kind]:
    analysis, models = sums.analysis, range(len(sums.analysis.models))
    for x, contrast in enumerate(analysis.contrasts):
        yield from [("Difference", x), ("Ties", x)]
        yield from [("Squares", x, 1), ("Squares", x, 0)] if sums.interval and contrast.interval else []
    yield from (("Rows", g, c) for g in range(len(analysis.groups)) for c in range(analysis.classes_of_rows))
    if analysis.comparisons and sums.interval:
        yield from ((which, m, b) for m in models for b in (1, 0) for which in ("First", "Second"))
        yield from (("Mixed", *pair, b) for pair in analysis.comparisons for b in (1, 0))
    yield from (("Site", m, e) for m in models for e in range(11) if analysis.heterogeneity)


def rows_of(data: PartyData, sums: AnalysisSums) -> Iterator[Row]:
    coarse = ComparisonSums(((0, 1),), sums.bins)._coarse
    starts, scale = coarse.starts(thresholds.uniform(sums.bins)), coarse.scale
    of = np.searchsorted(starts, range(sums.bins), side="right") - 1
    wide = np.diff(starts, append=sums.bins)[of]
    upper = np.floor(scale * (np.arange(sums.bins) + 0.5 - starts[of]) / wide + 0.5).astype(int)
    bins = np.array([binned(scores, thresholds.uniform(sums.bins)) for scores in data.scores]).T.tolist()
    for row, (label, own) in enumerate(zip(data.labels.tolist(), bins, strict=True)):
        groups = enumerate(sums.analysis.groups)
        inside = {g for g, (_, by, level) in groups if by is None or data.groups[by][row] == level}
        yield Row(label, inside, own, of[own].tolist(), upper[own].tolist())


@pytest.mark.parametrize(("analysis", "bins"), [(ALL, 4), (CLASSES, 4), (Analysis(models=("old", "new")), 130)])
def test_sketches_and_released_sums_are_those_of_the_model(analysis: Analysis, bins: int) -> None:
    sums = AnalysisSums(analysis, bins, interval=True)
    scale = ComparisonSums(((0, 1),), bins)._coarse.scale
    parties = made(analysis, 5, 3, most=30)
    rows = [list(rows_of(each, sums)) for each in parties]
    entries = [entry_of(name, at, sums) for name, length in sums.release.sketch.vectors for at in range(length)]
    pooled = dict.fromkeys(entries, 0)
    for data, own in zip(parties, rows, strict=True):
        sketch = dict(zip(entries, sums.sketch(data, thresholds.uniform(bins), MAX_ROWS, T).tolist(), strict=True))
        for entry, number in sketch.items():
            pooled[entry] += number
            if entry[0] == "Site":
                assert abs(number) <= max(len(own) ** 2, 256 * len(own)) << fraction_bits(MAX_ROWS, T)
            else:
                assert number == sum(of_row(r, entry, scale) for r in own), entry
    totals = sums.release.totals(modular.residues(list(pooled.values()), PRIME), PRIME).tolist()
    for kind, total, released in zip(kinds_of(sums), totals, sums.release.sums, strict=True):
        f = sum_of(kind, sums)
        assert total == value(f, pooled) % PRIME, kind
        assert max(len(forms) for _, forms in f) == released.degree == DEGREE_OF[kind[0]]


@pytest.mark.parametrize("max_rows", [2, 50, 10_000, 600_000])
@pytest.mark.parametrize("bins", [4, 300])
def test_every_plan_has_the_room_that_the_theorem_asks_for(bins: int, max_rows: int) -> None:
    asked: dict[str, Any] = {"interval": True, "max_rows": max_rows}
    plan = plan_exact(thresholds=bins, parties=5, backend="tenseal", analysis=ALL, **asked)
    scales = ComparisonSums(((0, 1),), bins)._coarse.scale, 1 << fraction_bits(max_rows, plan.modulus)
    needed = {room(kind[0], max_rows, *scales) for kind in kinds_of(plan.sums)}
    assert max(needed) < plan.modulus
    for sums in (plan.sums, AnalysisSums(ALL, bins, interval=False)):  # also where primes are no larger than that
        of_rows = {kind[0] for kind in kinds_of(sums)} - {"Site"}
        needed = {room(kind, max_rows, *scales) for kind in of_rows}
        assert max(*needed, 5 * max_rows) < sums.least_modulus(max_rows, 5)  # `all_rows`: nobody has more than max_rows


def test_sums_are_read_around_zero_or_from_zero_on_as_the_model_says() -> None:
    reading = Reading(analysis=ALL, max_rows=MAX_ROWS, modulus=T)
    ComparisonSums(((0, 1),), 4).read_sums([-1] * 10, reading)
    SiteSums(1).read_sums([-1] * 11, reading)
    ((of_pairs,), (sites,)) = (say.args for say in reading.sayings)  # type: ignore[attr-defined]
    (paired,) = of_pairs.values()
    assert {tuple(each) for each in paired[:2]} == {(-1, -1, T - 1, T - 1, -1)}  # First, Second, Mixed
    difference, ties, square = -1, 2 - T, 1 - T
    auc = Fraction(1, 2) - Fraction(1, 8)
    assert auc_of_sums([difference, ties, square, square], 2, 2, T) == (auc, Fraction(2, 8), 2, 2, 1, 1, Fraction(2, 8))
    assert [each.difference for each in sites] == [-1]


# Authenticators.v


def submit(alpha: int, w: list[int], rho: list[int], mu: list[list[int]], u: list[int]) -> list[int]:
    inverse = pow(alpha, -1, PRIME)
    lasts = [
        (own - sum(m * alpha**j for j, m in enumerate(blinders, 1))) * inverse ** (len(blinders) + 1)
        for blinders, own in zip(mu, u, strict=True)
    ]
    tags = [(r - each) * inverse for r, each in zip(rho, w, strict=True)]
    return [each % PRIME for each in (*w, *tags, *(x for b, last in zip(mu, lasts, strict=True) for x in (*b, last)))]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_sent_computed_and_accepted_is_what_the_model_says(seed: int) -> None:
    rnd, sums = random.Random(seed), AnalysisSums(ALL, 2, interval=True)
    release, size, n = sums.release, sums.release.sketch.size, 4
    degrees = [each.degree for each in release.sums]
    authenticator = Authenticator(release, rnd.randbytes(32), rnd.randbytes(32), 0, PRIME)
    w = [[rnd.randrange(PRIME) for _ in range(size)] for _ in range(n)]
    sent = [
        authenticator.sketch(i, np.array(each, np.uint64), KeyStream(rnd.randbytes(32))).tolist()
        for i, each in enumerate(w)
    ]
    for i, each in enumerate(sent):
        secret, rest = authenticator._shares.total([i]).tolist(), iter(each[2 * size :])
        mu = [[next(rest) for _ in range(d)][:-1] for d in degrees if d > 1]
        assert each == submit(int(authenticator._point[0]), w[i], secret[:size], mu, secret[size:])
    L = sorted(rnd.sample(range(n), rnd.randrange(1, n + 1)))
    pooled = [sum(column) % PRIME for column in zip(*(sent[i] for i in L), strict=True)]
    entries = [entry_of(name, at, sums) for name, length in release.sketch.vectors for at in range(length)]
    H, blinders = [], iter(pooled[2 * size :])
    for kind, d in zip(kinds_of(sums), degrees, strict=True):
        mu_d = [next(blinders) for _ in range(d)] if d > 1 else []
        for z in range(d + 1):
            at = (x + y * z for x, y in zip(pooled[:size], pooled[size : 2 * size], strict=True))
            exact = value(sum_of(kind, sums), dict(zip(entries, at, strict=True)))
            H.append((exact + sum(m * z**j for j, m in enumerate(mu_d, 1))) % PRIME)
    assert authenticated(release).totals(np.array(pooled, np.uint64), PRIME).tolist() == H
    assert authenticator.accepts(np.array(H, np.uint64), L)
    H[rnd.randrange(len(H))] += 1
    assert not authenticator.accepts(np.array(H, np.uint64) % np.uint64(PRIME), L)


# Vectors.v


@pytest.mark.parametrize("seed", range(8))
def test_vectors_are_tagged_padded_read_and_accepted_as_the_model_says(seed: int) -> None:
    rnd, sums = random.Random(seed), VectorSums(7, 4)
    t, digest = sums.modulus, rnd.randbytes(32)
    own = VectorAuthenticator(sums, rnd.randbytes(32), digest)
    r, k = own._weights.tolist(), [own._pads.total([i]).tolist() for i in range(4)]
    assert [sum(each) % t for each in zip(*k, strict=True)] == own._pads.total([0, 1, 2, 3]).tolist()

    def tag(v: Sequence[int]) -> list[int]:
        return [sum(a * b for a, b in zip(row, v, strict=True)) % t for row in r]

    assert (len(r), sums.largest) == (2, t // 2 // 4)  # `not_beyond`
    w = [[rnd.randrange(-sums.largest, sums.largest + 1) for _ in range(7)] for _ in range(4)]
    for i in range(4):  # tagged
        padded = [(x + y) % t for x, y in zip([*w[i], *tag(w[i])], k[i], strict=True)]
        assert own.submitted(i, np.array(w[i])).tolist() == padded
    L = sorted(rnd.sample(range(4), rnd.randrange(1, 5)))
    W = [sum(w[i][j] for i in L) for j in range(7)]
    y = [(x + sum(k[i][j] for i in L)) % t for j, x in enumerate([*W, *tag(W)])]
    assert own.proved_sums(np.array(y, np.uint64), L, -t, t).tolist() == W
    y[rnd.randrange(9)] += 1
    with pytest.raises(VerificationError):
        own.proved_sums(np.array(y, np.uint64) % np.uint64(t), L, -t, t)


def test_what_is_played_here_is_defined_there() -> None:
    defined = "".join(path.read_text(encoding="utf-8") for path in PROOFS.glob("*.v"))
    for name in ("share", "of_row", "sum_of", "value", "degree_of", "room", "submit", "H", "tagged", "vector_read"):
        assert f"Definition {name} " in defined, name
    assert set(DEGREE_OF) == set(re.findall(r"^\| (\w+)", defined.split("Inductive released")[1], re.MULTILINE))
