"""The slot layout, and that the circuit on it gives class totals and nothing else in every slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc_protocols.blinded_auc.packing import Packing


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    log_slots = draw(st.integers(3, 9))
    log_classes = draw(st.integers(0, min(3, log_slots - 1)))
    log_bins = draw(st.integers(0, log_slots - 1 - log_classes))
    return Packing(2**log_slots, 2**log_classes, 2**log_bins, draw(st.integers(1, 4)), draw(st.integers(0, 3)))


@st.composite
def packed_integers(draw: st.DrawFn) -> tuple[Packing, np.ndarray, np.ndarray]:
    """A packing, and X and Y for it: complex, with whole parts, so that sums are exact."""
    packing = draw(packings())
    bins = draw(st.integers(1, packing.blocks * packing.bins))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def whole() -> np.ndarray:
        return generator.integers(-1000, 1000, (packing.classes, bins)).astype(complex)

    return packing, whole() + 1j * whole(), whole()


def circuit(packing: Packing, sums: list[np.ndarray]) -> np.ndarray:
    """The aggregation circuit on plain slots; a rotation to the left by s is `np.roll` by -s."""
    product = sum(block * np.roll(block, -packing.half) for block in sums)
    for step in packing.trace_steps:
        product = product + np.roll(product, -step)
    return product


def test_sizes_that_make_no_sense_or_do_not_fit_are_refused() -> None:
    for name in ["slots", "classes", "bins"]:
        for value in [0, -2, 3, 6, 4097]:
            sizes = {"slots": 4096, "classes": 2, "bins": 128, "blocks": 1, "x_bits": 4}
            with pytest.raises(ValueError, match=f"{name} must be a power of two, got {value}"):
                Packing(**{**sizes, name: value})
    for slots, classes, bins, blocks in [(4096, 2, 2048, 1), (4096, 4096, 1, 1), (2, 2, 1, 1), (4096, 2, 1024, 0)]:
        with pytest.raises(ValueError, match=f"{classes} classes of {bins} bins do not fit {slots} slots"):
            Packing(slots, classes, bins, blocks, 4)
    for x_bits in [-1, 33]:
        with pytest.raises(ValueError, match=f"x_bits must lie between 0 and 32, got {x_bits}"):
            Packing(64, 2, 4, 1, x_bits)
    for shape in [(2, 9), (3, 8), (1, 8), (4, 8), (8,), (2, 8, 1)]:
        packing = Packing(64, 2, 4, 2, 2)  # two blocks of four bins
        good, bad = np.ones((2, 8), complex), np.ones(shape, complex)
        for x, y in ((bad, good), (good, bad), (bad, bad), (good, good[:, :5])):
            with pytest.raises((ValueError, IndexError)):
                packing.pack(x, y)


@given(packed_integers())
def test_every_slot_holds_what_the_formula_says(drawn: tuple[Packing, np.ndarray, np.ndarray]) -> None:
    packing, x, y = drawn
    vectors = packing.pack(x, y)
    assert len(vectors) == packing.blocks
    c, period = packing.classes, 2 * packing.classes * packing.bins
    for block, vector in enumerate(vectors):
        assert vector.shape == (packing.slots,)
        for slot, value in enumerate(vector):
            place = slot % period
            side, place = (x * packing.x_unit, place) if place < c * packing.bins else (y, place - c * packing.bins)
            q, k = place % c, place // c + block * packing.bins
            assert value == (side[q, k] if k < side.shape[1] else 0)


def test_the_layout_of_a_small_case_written_out_and_its_products_without_the_trace() -> None:
    x, y = np.array([[4, 8, 12], [44, 48, 52]], complex), np.array([[5, 6, 7], [15, 16, 17]], complex)
    assert Packing(16, 2, 4, 1, 2).x_unit == 1 / 4
    (vector,) = Packing(16, 2, 4, 1, 2).pack(x, y)
    assert vector.real.astype(int).tolist() == [1, 11, 2, 12, 3, 13, 0, 0, 5, 15, 6, 16, 7, 17, 0, 0]
    first, second = Packing(8, 2, 2, 2, 2).pack(x, y)
    assert first.real.astype(int).tolist() == [1, 11, 2, 12, 5, 15, 6, 16]
    assert second.real.astype(int).tolist() == [3, 13, 0, 0, 7, 17, 0, 0]
    # What the trace is there for: this must differ from slot to slot.
    packing = Packing(64, 2, 4, 1, 2)
    x = np.arange(8, dtype=complex).reshape(2, 4)
    (vector,) = packing.pack(x, x)
    product = packing.by_class(vector * np.roll(vector, -packing.half))
    assert len(set(product[0])) > 1


@given(packings())
def test_derived_numbers_fit_together(packing: Packing) -> None:
    assert packing.half == packing.classes * packing.bins
    assert packing.copies * packing.classes * packing.bins == packing.slots
    assert packing.copies >= 2
    assert packing.half in packing.trace_steps  # so that the product needs no rotation key of its own
    assert packing.trace_steps == tuple(sorted(set(packing.trace_steps)))
    assert sum(packing.trace_steps) == packing.slots - packing.classes  # each slot of a class is added once
    assert all(step % packing.classes == 0 for step in packing.trace_steps)  # no value moves to another class


@given(packed_integers())
def test_every_slot_ends_up_with_its_class_total_in_all_blocks(drawn: tuple[Packing, np.ndarray, np.ndarray]) -> None:
    packing, x, y = drawn
    result = circuit(packing, packing.pack(x, y))
    totals = packing.gain * (x * y).sum(axis=1)
    assert np.array_equal(packing.by_class(result), np.tile(totals[:, None], packing.slots // packing.classes))
    packing, x, y = drawn
    bins = 1 << (packing.blocks * packing.bins - 1).bit_length()
    whole = Packing(2 * packing.classes * bins, packing.classes, bins, 1, 2)
    split_total = packing.by_class(circuit(packing, packing.pack(x, y)))[:, 0] / packing.gain
    whole_total = whole.by_class(circuit(whole, whole.pack(x, y)))[:, 0] / whole.gain
    assert np.array_equal(split_total, whole_total)


@settings(max_examples=30)
@given(packed_integers(), st.integers(2, 5))
def test_packed_parties_add_up(drawn: tuple[Packing, np.ndarray, np.ndarray], parties: int) -> None:
    packing, x, y = drawn
    submissions = [packing.pack(x * factor, y + factor) for factor in range(1, parties + 1)]
    sums = [np.sum(blocks, axis=0) for blocks in zip(*submissions, strict=True)]
    pooled_x = x * sum(range(1, parties + 1))
    pooled_y = y * parties + sum(range(1, parties + 1))
    expected = packing.gain * (pooled_x * pooled_y).sum(axis=1)
    assert np.array_equal(packing.by_class(circuit(packing, sums))[:, 0], expected)


@given(packings(), st.integers(0, 2**32 - 1))
def test_rows_by_class_hold_the_slots_of_a_class(packing: Packing, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-9, 9, packing.classes).astype(complex)
    slots = np.tile(values, packing.slots // packing.classes)
    assert np.array_equal(packing.by_class(slots), np.repeat(values[:, None], packing.slots // packing.classes, axis=1))
