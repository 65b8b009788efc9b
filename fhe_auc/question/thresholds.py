"""Threshold grids: the ascending decision points at which every party counts.

Every grid is a read-only array of float64, shape (m,), with m from 2 to 2^20; any other m raises `InputError`. No grid
looks at data, so that none gives anything away. [FHE] uses uniform points, but a classifier of rare events puts all its
scores into a few of their bins; `hybrid` tells those apart, too (docs/evidence/precision.md). `dpauc` is the grid with
which the tables of [DPAUC] come out, which does not say what its points are.

`quantile:SIZE` is no grid but a wish: thresholds between which about equally many pooled rows lie, which a session of
its own has to find (`fhe_auc.results.evaluation.QuantileThresholds`, docs/security/histograms.md). With noise
`quantile` alone is for as many as rows and budget allow.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_text, write_atomically
from fhe_auc.base.python_options import count, number, plain
from fhe_auc.question import score_bins
from fhe_auc.question.score_bins import numbers

MIN_SIZE = 2  # with a single bin every AUC is 1/2
MAX_SIZE = 2**20
DEFAULT_SIZE = 1000
MAX_PLACES = 5

_LOGITS = (
    (1, Decimal("-744.44"), Decimal(-100)),
    (3, Decimal(-100), Decimal(-35)),
    (7, Decimal(-35), Decimal(-8)),
    (29, Decimal(-8), Decimal(-3)),
    (34, Decimal(-3), Decimal("-0.5")),
    (13, Decimal("-0.5"), Decimal(1)),
    (7, Decimal(1), Decimal(5)),
    (4, Decimal(5), Decimal(15)),
    (2, Decimal(15), Decimal(34)),
)
"""Of the points of `hybrid` on the logit scale, so many percent lie equidistantly from the one logit to the other.

The best of some dozens of trials: on made-up scores of 0.2 to 50 % positives, on those of simple classifiers on real
data, and on the bundled sets (docs/evidence/precision.md). Nearby numbers do about as well. Crowded scores of rare
events need most points, the ends only what naive Bayes takes.
"""

CELL_HEIGHT = 14
"""h of the 2^h cells in which exact counts find quantile thresholds: they fill one ciphertext of the largest ring."""

TREE_HEIGHT = 10
"""h of the cells in which noisy counts find them: 4^5, the lowest level of a tree."""

_CELLS_OF_OCTAVES = (2048, 2048, 1024, *[512] * 3, *[256] * 4, *[32] * 8)
"""Of 2^14 cells, those from 1/4 to 1/2, from 1/8 to 1/4, and so on to 2^-19; as many of one minus the score."""

_LEAST_DPAUC = 4  # one point in each share
_TEXT_SUFFIXES = (".txt", ".csv")
_FILE_SUFFIXES = (".npy", *_TEXT_SUFFIXES)
QUANTILE, VALUES = "quantile", "values"


def uniform(m: int) -> NDArray[np.float64]:
    """Return m equidistant thresholds from 0 to 1, the grid of [FHE]: read-only, shape (m,)."""
    return explicit(np.linspace(0.0, 1.0, _checked_size(m)))


def hybrid(m: int = DEFAULT_SIZE) -> NDArray[np.float64]:
    """Return m thresholds for any scores from 0 to 1, however close to the ends they lie: read-only, shape (m,).

    A fifth of the points, and one, are equidistant from 0 to 1: of 5,000 they are all multiples of 0.001. The others
    are sigmoid(x), with x equidistant between the knots of `_LOGITS`: most lie between 0.0003 and 0.38, where scores of
    rare events crowd, and some as far as 5e-324, the least positive float64, and 1 - 2e-15, for naive Bayes.

    Points are the same to the last bit on every machine. Where two are one float64, one moves to the next free one.
    """
    return _hybrid(_checked_size(m))


@lru_cache(maxsize=8)
def _hybrid(m: int) -> NDArray[np.float64]:
    equidistant = max(MIN_SIZE, round(m / 5) + 1)
    even = np.arange(equidistant) / (equidistant - 1)  # the float64 nearest to each, as a file's "0.123" is
    points = np.sort(np.concatenate([even, _sigmoid_points(m - equidistant)]))
    # As integers, neighbouring float64 from 0 on differ by 1. Less its rank, a point is no lower than the one before.
    rank = np.arange(m)
    free = np.maximum.accumulate(points.view(np.int64) - rank)
    last = np.float64(1.0).view(np.int64) - (m - 1)
    return explicit((np.minimum(free, last) + rank).view(np.float64))


def _sigmoid_points(size: int) -> NDArray[np.float64]:
    with localcontext() as context:
        context.prec = 30  # of 2^20 points none is off by more than 10^-24 of itself
        ends = [round(size * sum(share for share, _, _ in _LOGITS[: at + 1]) / 100) for at in range(len(_LOGITS))]
        points = []
        for (_, low, high), number in zip(_LOGITS, np.diff([0, *ends]).tolist(), strict=True):
            odds_against, step = (-low).exp(), ((low - high) / max(number, 1)).exp()
            for _ in range(number):
                points.append(1 / (1 + odds_against))
                odds_against *= step
        return np.array(points, dtype=np.float64)


def dpauc(m: int) -> NDArray[np.float64]:
    """Return the grid that reproduces the tables of [DPAUC]: half of it below 0.2, three quarters below 0.5.

    The points are m // 2 equidistant ones from 0 to 0.2, m // 4 from 0.2 to 0.5 and m // 4 from 0.5 to 1; m is the
    paper's |Θ|, at least 4. There can be fewer than m (m = 10: 9). 0.2 and 0.5 come twice, for noise of their own each
    time. As grids must rise, the second of the two is the next float64: no score lies between them.
    """
    size = _checked_size(m)
    if size < _LEAST_DPAUC:
        raise InputError(f"the grid dpauc takes a number of thresholds from {_LEAST_DPAUC}, not {size}")
    shares = ((0.0, 0.2, size // 2), (0.2, 0.5, size // 4), (0.5, 1.0, size // 4))
    grid = np.concatenate([np.linspace(*share) for share in shares])
    repeated = np.flatnonzero(np.diff(grid) == 0) + 1
    grid[repeated] = np.nextafter(grid[repeated], 1.0)
    return explicit(grid)


def explicit(thresholds: ArrayLike) -> NDArray[np.float64]:
    """Check thresholds of the caller's own and take a read-only copy, float64 of shape (m,).

    They are finite and strictly ascending, and need not lie in [0, 1]: scores may be margins or logits. The first acts
    as minus infinity, whatever its value. Raises `InputError` for anything else, with the position (from 0) and value.
    """
    try:
        given = thresholds if type(thresholds) is np.ndarray else np.asarray(plain(thresholds), dtype=object)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"thresholds must be a one-dimensional array of numbers ({error})") from None
    if given.ndim == 1 and given.dtype == object:
        given = np.array([number(plain(each), f"threshold {at}") for at, each in enumerate(given)], np.float64)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        got = f"of type {given.dtype} and shape {given.shape}" if given.ndim else type(thresholds).__name__
        raise InputError(
            "thresholds must be 'uniform:100', 'hybrid:1000' or the like, or a one-dimensional array of numbers, not "
            f"{got}"
        )
    _checked_size(len(given))
    with np.errstate(over="ignore"):  # a long double that becomes infinite is refused below
        grid: NDArray[np.float64] = given.astype(np.float64) + 0.0  # -0.0 becomes 0.0: equal grids have equal bytes
    if not np.isfinite(grid).all():
        position = int(np.argmin(np.isfinite(grid)))
        raise InputError(f"threshold {position} is {grid[position]}; thresholds must be finite")
    rises = np.diff(grid) > 0
    if not rises.all():
        position = int(np.argmin(rises)) + 1
        raise InputError(
            f"threshold {position} is {grid[position]} after {grid[position - 1]}; they must be strictly ascending"
        )
    grid.flags.writeable = False
    return grid


def decimals(places: int) -> NDArray[np.float64]:
    """Return every number with so many decimals, 1 to 5, from 0 to 1, as numpy.round makes them; read-only."""
    if places not in range(1, MAX_PLACES + 1):
        raise InputError(f"scores can be rounded to 1 to {MAX_PLACES} decimals, not {places!r}")
    return explicit(np.arange(10**places + 1) / 10**places)


GRIDS: Mapping[str, Callable[[int], NDArray[np.float64]]] = MappingProxyType(
    {"uniform": uniform, "hybrid": hybrid, "dpauc": dpauc}
)
"""The grids that a specification ``NAME:SIZE`` can name."""


def parse(spec: str) -> NDArray[np.float64]:
    """Make the thresholds that a specification names: read-only, shape (m,).

    `spec` is ``uniform:100``, ``hybrid:1000``, ``hybrid`` (1,000 points), ``dpauc:100``, ``values:0:9`` (listed scores,
    as `fhe_auc.question.score_bins.parse_listed` takes them), or the path of a ``.npy`` file with a one-dimensional
    array, or of a ``.txt`` or ``.csv`` file with one number a line and no header. Raises `InputError` for anything else
    (the message lists what is understood), or a file that does not hold thresholds.
    """
    if quantiles_wanted(spec) is not None:
        raise InputError(f"thresholds {spec!r} have to be found first, by a session of all parties, not here")
    name, colon, size = spec.strip().partition(":")
    if name == VALUES:
        return explicit(score_bins.thresholds_of(score_bins.parse_listed(size)))
    if name in GRIDS:
        if not colon and name == "hybrid":
            return hybrid()
        return GRIDS[name](_size_in(spec, name, size))
    path = Path(spec)
    if path.suffix.lower() in _FILE_SUFFIXES:
        return _read(path)
    if re.fullmatch("[0-9]{1,9}", spec.strip()):
        size = spec.strip()
        raise InputError(f"thresholds {size} are no grid yet: say uniform:{size} or hybrid:{size}")
    known = ", ".join(f"{grid}:SIZE" for grid in (*GRIDS, QUANTILE))
    raise InputError(
        f"thresholds {spec!r} are unknown; known are {known}, {VALUES}:FIRST:LAST, or a {'/'.join(_FILE_SUFFIXES)} file"
    )


def quantiles_wanted(thresholds: object) -> int | None:
    """Return SIZE of ``quantile:SIZE``, 0 of ``quantile`` (as many as are best), None for all else.

    Raises `InputError` unless SIZE is from 2 to 2^20.
    """
    if not isinstance(thresholds, str):
        return None
    name, colon, size = thresholds.strip().partition(":")
    if name != QUANTILE:
        return None
    return _checked_size(_size_in(thresholds, name, size)) if colon else 0


def perhaps_found(grid: NDArray[np.float64]) -> bool:
    """Tell whether a session may have found these thresholds: they begin with 0 and end below 1, as no grid here."""
    return bool(grid[0] == 0 and grid[-1] < 1)


def held_back(grid: NDArray[np.float64]) -> bool:
    """Tell whether found thresholds are fewer than were asked for: a frequent score fills a cell of its own."""
    widths = np.pad(np.diff(np.searchsorted(cell_starts(CELL_HEIGHT), np.append(grid, 1.0))), 1, constant_values=3)
    return bool(((widths[1:-1] > 0) & (widths[1:-1] <= 2) & (widths[:-2] > 2) & (widths[2:] > 2)).any())


@cache
def cell_starts(height: int) -> NDArray[np.float64]:
    """Return the lower ends of the 2^h cells, shape (2^h,): read-only, h from 1 to 14, each a float64 exactly.

    Below 2^-19 there are 255 octaves of one cell, and a first one from 0 on. One minus a score has float64 down to
    2^-53 alone: 31 octaves of eight cells, and eight cells more.
    """
    octaves = [(2.0 ** -(at + 2), cells) for at, cells in enumerate(_CELLS_OF_OCTAVES)]
    last = octaves[-1][0]
    low = [*octaves, *[(last / 2**at, 1) for at in range(1, 256)]]
    high = [*octaves, *[(last / 2**at, 8) for at in range(1, 32)]]
    ends = (np.concatenate([end * (1 + np.arange(cells) / cells) for end, cells in side[::-1]]) for side in (low, high))
    below, above = ends
    top = above[0] * np.arange(1, 8) / 8
    starts = np.concatenate([[0.0], below, [0.5], 1 - above[:0:-1], 1 - above[:1], 1 - top[::-1]])
    return explicit(starts[:: 2 ** (CELL_HEIGHT - height)])


def _size_in(spec: str, name: str, size: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", size):
        raise InputError(f"thresholds {spec!r}: say how many, {MIN_SIZE} to {MAX_SIZE:,}, as in '{name}:100'")
    return int(size)


def check_savable(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` unless the file's name ends in .txt or .csv."""
    if Path(path).suffix.lower() not in _TEXT_SUFFIXES:
        raise InputError(f"thresholds file {os.fspath(path)!r}: its name must end in {' or '.join(_TEXT_SUFFIXES)}")


def save(path: str | os.PathLike[str], grid: ArrayLike) -> None:
    """Write thresholds to a text file that `parse` reads back to the last bit; raise `InputError` where it cannot."""
    check_savable(path)
    write_atomically(path, "".join(f"{point!r}\n" for point in explicit(grid).tolist()).encode())


def _read(path: Path) -> NDArray[np.float64]:
    try:
        numbers = _load_array(path) if path.suffix.lower() == ".npy" else _parse_lines(path)
        return explicit(numbers)
    except InputError as error:
        raise error.within(f"thresholds file {str(path)!r}", file=str(path)) from None
    except FileNotFoundError:
        raise InputError(f"thresholds file {str(path)!r} does not exist", file=str(path)) from None
    except Exception as error:  # what numpy raises on damaged files has no end
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"thresholds file {str(path)!r} cannot be read: {reason}", file=str(path)) from None


def _load_array(path: Path) -> NDArray[np.float64]:
    with path.open("rb") as opened:  # numpy leaves files open that it cannot read
        loaded = np.load(opened, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise InputError("holds an archive, not one array")
    return loaded


def _parse_lines(path: Path) -> NDArray[np.float64]:
    numbers = []
    for line, text in enumerate(read_text(path).decode().splitlines(), start=1):
        if text.strip():
            try:
                numbers.append(float(text.replace("\N{MINUS SIGN}", "-").replace("_", "?")))  # Python takes 1_000
            except ValueError:
                told = f"line {line} is {text[:40]!r}, which is not a number: a line has one, with a decimal point"
                raise InputError(told, line=line) from None
    return np.array(numbers, dtype=np.float64)


def resolve(thresholds: str | os.PathLike[str] | ArrayLike) -> NDArray[np.float64]:
    """Return the thresholds, shape (m,), of an argument of the public API; errors as of `parse` and `explicit`."""
    if isinstance(thresholds, (str, os.PathLike)):
        return parse(os.fspath(thresholds))
    if isinstance(thresholds, (int, np.integer)) and not isinstance(thresholds, bool):
        return parse(str(thresholds))
    return explicit(thresholds)


def with_asked(grid: NDArray[np.float64], asked: Sequence[float]) -> NDArray[np.float64]:
    """Return the thresholds with those at which decisions are asked for, unless one is the same number.

    Raises `InputError` where one cannot be: scores are probabilities here, or listed values.
    """
    wanted = np.array(asked, np.float64)
    new = wanted[~np.isin(numbers(wanted), numbers(grid))]
    if len(new) and (values := score_bins.listed(grid)) is not None:
        raise InputError(
            f"threshold {new[0]:g} is none of the values that scores have: {values[0]:g} to {values[-1]:g}"
        )
    if len(beyond := new[(new < 0) | (new > 1)]) and grid[0] >= 0 and grid[-1] <= 1:
        raise InputError(f"threshold {beyond[0]:g} is asked for, but scores are from 0 to 1 here")
    return np.union1d(grid, new)


def _checked_size(m: int) -> int:
    size = count(plain(m), "the number of thresholds")
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise InputError(f"the number of thresholds must be from {MIN_SIZE} to {MAX_SIZE:,}, not {size:,}")
    return size
