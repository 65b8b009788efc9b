"""The definitions of proofs/*.v in Python, word for word, against the code: where it changes, proofs have to follow."""

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
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
from fhe_auc_protocols.exact_auc.comparison_sums import ComparisonSums
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums, ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from fhe_auc_protocols.exact_auc.site_sums import fraction_bits
from tests.support.several import CLASSES, SEX, binned
from tests.support.several import made as made_rows

PROOFS = Path(__file__).parents[2] / "proofs"
ALL = Analysis(models=("old", "new"), by=(SEX,), heterogeneity=True, cross_groups=True)  # every kind of sum
MAX_ROWS, T, PRIME, PRIMES = 600, 2**62 - 57, 2**50 - 27, (786433, 1048583, 2**50 - 27)
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


def place(v: bool, r: Row, m: int, merge: Sequence[int]) -> int:
    return merge[r.bin[m]] if v else r.bin[m]


def of_row(r: Row, entry: Entry, scale: int, merge: Sequence[int]) -> int:
    match entry:
        case ("count", m, g, c, v, k):
            return int(r.of_class == c and g in r.in_group and place(v, r, m, merge) == k)
        case ("coarse", what, m, c, j):
            at, own = int(j == r.at_lower[m]), share(r, m, j, scale)
            return int(r.of_class == c) * (at, own, own**2, at * (scale - r.upper_share[m]) * r.upper_share[m])[what]
        case (_, a, b, c, j, k):
            return int(r.of_class == c) * share(r, a, j, scale) * share(r, b, k, scale)
    raise ValueError(entry)


def sum_of(kind: Kind, sums: AnalysisSums) -> list[tuple[int, list[Form]]]:
    coarse = range(ComparisonSums(((0, 1),), sums.bins)._coarse.ends)

    def worth(m: int, b: int, j: int) -> Form:
        return {("coarse", 0, m, 1 - b, n): (1 if b else -1) * ((n < j) - (j <= n)) for n in coarse}

    if kind[0] in ("Difference", "Ties", "OneLabel", "Squares"):
        what, v, x, *more = kind
        contrast, grid = sums.analysis.contrasts[x], range((sums.bins, max(merge_of(sums), default=-1) + 1)[v])
        sides = contrast.negatives, contrast.positives

        def each(b: int, k: int) -> Form:
            return {("count", contrast.model, sides[b].group, c, v, k): 1 for c in sides[b].classes}

        def beside(b: int, k: int) -> Form:
            own = ((("count", contrast.model, sides[b].group, c, v, n), n) for c in sides[b].classes for n in grid)
            return {entry: (n < k) - (k < n) for entry, n in own}

        match what:
            case "Difference":
                return [(1, [each(1, k), beside(0, k)]) for k in grid]
            case "Ties":
                return [(int(k in more[0]), [each(1, k), each(0, k)]) for k in grid]
            case "OneLabel":
                return [(int(k in more[1]), [each(more[0], k), each(more[0], k)]) for k in grid]
        return [(1, [each(more[0], k), beside(1 - more[0], k), beside(1 - more[0], k)]) for k in grid]
    match kind:
        case ("Rows", g, c):
            return [(1, [{("count", 0, g, c, False, k): 1 for k in range(sums.bins)}])]
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


def made(j: Entry, x: Mapping[Entry, int], merge: Sequence[int]) -> int:
    if j in x:
        return x[j]
    count, m, g, c, v, k = j
    assert v, "a prime lacks an entry"
    return sum(x[count, m, g, c, False, i] for i, at in enumerate(merge) if at == k)


DEGREE_OF = {
    **dict.fromkeys(("Rows", "Site"), 1),
    **dict.fromkeys(("Difference", "Ties", "OneLabel", "First"), 2),
    **dict.fromkeys(("Squares", "Second", "Mixed"), 3),
}
FROM_ZERO_ON = {"Ties", "OneLabel", "Squares", "Rows"}  # `lo`


def room(kind: str, parties: int, max_rows: int, scale: int, site_scale: int) -> int:
    most_pairs, most_cubic = max_rows**2 // 4, 4 * max_rows**3 // 27
    return {
        "Difference": 2 * most_pairs,
        "Ties": most_pairs,
        "OneLabel": max_rows**2,
        "Squares": most_cubic,
        "Rows": parties * max_rows,
        "First": 2 * (scale * most_pairs),
        "Site": 2 * (site_scale * max(max_rows**2, 256 * max_rows)),
    }.get(kind, 2 * (scale**2 * most_cubic))


# What the code calls by other names


def merge_of(sums: AnalysisSums) -> list[int]:
    starts = [at for own in sums.release.sketch.merged for at in own.starts]
    return (np.searchsorted(starts, range(sums.bins), side="right") - 1).tolist() if starts else []


def entry_of(vector: str, at: int, sums: AnalysisSums) -> Entry:
    numbers = [int(each) for each in re.findall(r"\d+", vector)]
    if vector[0] == "t":
        of_two = divmod(at, ComparisonSums(((0, 1),), sums.bins)._coarse.ends)
        what = ("", "x", "xx", "xy").index("".join(re.findall("[xy]", vector)))
        return ("coarse", what, *numbers, at) if len(numbers) == 2 else ("table", *numbers, *of_two)
    if vector[0] == "m":
        return ("count", *numbers, vector.endswith("merged"), at)
    return ("Site", *numbers, at) if vector.startswith("sites") else ("signed", vector, at)


def kinds_of(sums: AnalysisSums) -> Iterator[Kind]:
    analysis, models, aucs = sums.analysis, range(len(sums.analysis.models)), sums.parts[0]
    merge = merge_of(sums)
    wide, alike = (own if own is None else tuple(np.flatnonzero(own)) for own in (aucs.wide, aucs.alike))  # type: ignore[attr-defined]
    merging = tuple(sorted({merge[k] for k in wide})) if merge else ()
    for x, contrast in enumerate(analysis.contrasts):
        yield from [("Difference", False, x), ("Ties", False, x, wide)]
        if sums.interval and contrast.interval:
            yield from [("Squares", bool(merge), x, 1), ("Squares", bool(merge), x, 0)]
            if merge:
                yield from [("Difference", True, x), ("Ties", True, x, merging)]
                yield from [("OneLabel", True, x, 1, merging), ("OneLabel", True, x, 0, merging)]
        if alike is not None and contrast.positives.group == contrast.negatives.group == 0:
            yield ("Ties", False, x, alike)
    yield from (("Rows", g, c) for g in range(len(analysis.groups)) for c in range(analysis.classes_of_rows))
    if analysis.comparisons and sums.interval:
        yield from ((which, m, b) for m in models for b in (1, 0) for which in ("First", "Second"))
        yield from (("Mixed", *pair, b) for pair in analysis.comparisons for b in (1, 0))
    yield from ((total.name,) for total in sums.parts[1 + bool(analysis.comparisons)].sums)  # signed: not in the model
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


def planned(sums: AnalysisSums, parties: int) -> Any:
    """What `ExactPlan.integers` looks at of a plan, with two small primes, and one that sums of sites take besides."""
    known = sums.primes_of(PRIMES, MAX_ROWS, parties)
    moduli = SimpleNamespace(plain_moduli=PRIMES)
    return SimpleNamespace(sums=sums, max_rows=MAX_ROWS, parties=parties, parameters=moduli, _primes_of=known)


@pytest.mark.parametrize(
    "sums",
    [
        AnalysisSums(ALL, 4, interval=True),
        AnalysisSums(ALL, 7, interval=True, variance_bins=3),
        AnalysisSums(CLASSES, 6, interval=True, variance_bins=4),
        AnalysisSums(Analysis(models=("old", "new")), 130, interval=True, runs=(2, 126, 2), variance_bins=2),
    ],
)
def test_sketches_and_released_sums_are_those_of_the_model_modulo_every_prime(sums: AnalysisSums) -> None:
    scale, merge = ComparisonSums(((0, 1),), sums.bins)._coarse.scale, merge_of(sums)
    grid = thresholds.uniform(sums.bins)
    parties = made_rows(sums.analysis, 5, 3, most=30)
    plan, kinds = planned(sums, len(parties)), list(kinds_of(sums))
    rows = [list(rows_of(each, sums)) for each in parties]
    counts = [sums.sketch(data, grid, MAX_ROWS, T) for data in parties]
    pooled, totals = list[dict[Entry, int]](), []
    for at, prime in enumerate(PRIMES[: max(plan._primes_of)]):
        release = sums.release.only([known > at for known in plan._primes_of])
        sent = [entry_of(name, k, sums) for name, length in release.sketch.vectors for k in range(length)]
        pooled.append(dict.fromkeys(sent, 0))
        for data, own in zip(counts, rows, strict=True):
            sketch = dict(zip(sent, sums.release.sketch.taken(data, release.sketch).tolist(), strict=True))
            for entry, number in sketch.items():
                pooled[at][entry] += number
                if entry[0] == "Site":
                    assert abs(number) <= max(len(own) ** 2, 256 * len(own)) << fraction_bits(MAX_ROWS, T)
                elif entry[0] != "signed":
                    assert number == sum(of_row(r, entry, scale, merge) for r in own), entry
        totals.append(release.totals(modular.residues(list(pooled[at].values()), prime), prime))
    assert {*plan._primes_of} >= ({1, 2, 3} if sums.analysis is ALL else {1, 2})
    integers, residues = ExactPlan.integers(plan, totals), [iter(own.tolist()) for own in totals]
    for kind, known, integer, released in zip(kinds, plan._primes_of, integers, sums.release.sums, strict=True):
        own_residues = [next(residues[at]) for at in range(known)]
        if kind[0] not in DEGREE_OF:
            continue
        f = sum_of(kind, sums)
        there = {entry for _, forms in f for form in forms for entry, weight in form.items() if weight}
        exact, *others = [{entry: made(entry, own, merge) for entry in there} for own in pooled[:known]]
        assert [exact] * len(others) == others, kind
        assert integer == value(f, exact), kind
        assert [integer % prime for prime in PRIMES[:known]] == own_residues, kind
        assert max(len(forms) for _, forms in f) == released.degree == DEGREE_OF[kind[0]]


@pytest.mark.parametrize("max_rows", [2, 50, 10_000, 600_000])
@pytest.mark.parametrize("bins", [4, 600])
def test_every_plan_has_the_room_that_the_theorem_asks_for(bins: int, max_rows: int) -> None:
    asked: dict[str, Any] = {"interval": True, "max_rows": max_rows}
    plan = plan_exact(thresholds=bins, parties=5, backend="tenseal", analysis=ALL, **asked)
    scales = ComparisonSums(((0, 1),), bins)._coarse.scale, 1 << fraction_bits(max_rows, plan.modulus)
    ranges = plan.sums.ranges(max_rows, 5)
    for kind, known, own in zip(kinds_of(plan.sums), plan._primes_of, ranges, strict=True):
        needed = room(kind[0], 5, max_rows, *scales)
        assert needed < math.prod(plan.parameters.plain_moduli[:known])
        span = (0, needed) if kind[0] in FROM_ZERO_ON else (-needed // 2, needed // 2)
        assert own == (None if kind[0] == "Site" else span)


def test_sums_are_read_around_zero_or_from_zero_on_as_the_model_says() -> None:
    sums = AnalysisSums(ALL, 7, interval=True, variance_bins=3)
    plan = planned(sums, 5)
    numbers = [sum(known > at for known in plan._primes_of) for at in range(len(PRIMES))]
    minus_one = [np.full(number, prime - 1) for number, prime in zip(numbers, PRIMES, strict=True)]
    for kind, known, read in zip(kinds_of(sums), plan._primes_of, ExactPlan.integers(plan, minus_one), strict=True):
        assert read == (math.prod(PRIMES[:known]) - 1 if kind[0] in FROM_ZERO_ON else -1), kind


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
    rnd, sums = random.Random(seed), AnalysisSums(ALL, 3, interval=True, variance_bins=2)
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
            own, f = dict(zip(entries, at, strict=True)), sum_of(kind, sums)
            there = {entry for _, forms in f for form in forms for entry in form}
            exact = value(f, {entry: made(entry, own, merge_of(sums)) for entry in there})
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
    played = "share place of_row sum_of made value degree_of room submit H tagged vector_read"
    for name in played.split():
        assert f"Definition {name} " in defined, name
    assert set(DEGREE_OF) == set(re.findall(r"^\| (\w+)", defined.split("Inductive released")[1], re.MULTILINE))
