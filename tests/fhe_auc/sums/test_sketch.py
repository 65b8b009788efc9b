"""Sketches: what is joined comes apart again, and what is no sketch is refused with the culprit's name."""

from __future__ import annotations

import numpy as np
import pytest

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.sums.sketch import MOST_ENTRIES, Sketch

SKETCH = Sketch((("p", 3), ("n'", 1), ("mu 1", 2)))


def vector(*values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


PARTS = {"mu 1": vector(5, 6), "p": vector(1, 2, 3), "n'": vector(4)}


def test_vectors_stand_one_after_another_in_the_sketch_s_order_and_come_apart_again() -> None:
    joined = SKETCH.join(PARTS)
    assert (joined.tolist(), joined.dtype, SKETCH.size) == ([1, 2, 3, 4, 5, 6], np.uint64, 6)
    found = SKETCH.split(joined)
    assert list(found) == ["p", "n'", "mu 1"]
    assert {name: each.tolist() for name, each in found.items()} == {k: v.tolist() for k, v in PARTS.items()}
    for shape in ((5,), (7,), (1, 6)):
        with pytest.raises(ValueError, match="6 entries"):
            SKETCH.split(np.zeros(shape, np.uint64))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"q": vector(1)}, "no vector 'q'"),
        ({"p": vector(1, 2)}, "'p' must be 3 residues"),
        ({"p": vector(1, 2, 3)[None]}, "'p' must be 3 residues"),
        ({"p": np.array([1, 2, 3])}, "'p' must be 3 residues"),
        ({"p": np.array([1.0, 2.0, 3.0])}, "'p' must be 3 residues"),
    ],
    ids=["unknown", "too short", "two-dimensional", "signed", "floats"],
)
def test_other_vectors_are_not_joined(changes: dict[str, np.ndarray], shown: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError, match=shown):
        SKETCH.join({**PARTS, **changes})
    with pytest.raises(InputError, match="vector 'p' is missing"):
        SKETCH.join({"n'": vector(4), "mu 1": vector(5, 6)})


@pytest.mark.parametrize(
    ("vectors", "error", "shown"),
    [
        ((), InputError, "at least one vector"),
        ((("p", 1), ("n", 1), ("p", 2)), InputError, "vector 'p' is there twice"),
        ((("p", 0),), InputError, "vector 'p' must have at least one entry, got 0"),
        ((("p", -1), ("n", 3)), InputError, "vector 'p' must have at least one entry, got -1"),
        ((("", 1),), InputError, "1 to 40 printable ASCII"),
        ((("p" * 41, 1),), InputError, "1 to 40 printable ASCII"),
        ((("p\n", 1),), InputError, "1 to 40 printable ASCII"),
        ((("µ", 1),), InputError, "1 to 40 printable ASCII"),
        ((("p", MOST_ENTRIES), ("n", 1)), CapacityError, "at most 1,048,576 entries, got 1,048,577"),
    ],
)
def test_what_is_no_sketch_is_refused(
    vectors: tuple[tuple[str, int], ...], error: type[InputError], shown: str
) -> None:
    with pytest.raises(error, match=shown):
        Sketch(vectors)
