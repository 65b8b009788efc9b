"""Residues as bytes: each modulo q takes the ⌈log2 q⌉ bits that it needs.

Residue i takes those from i·⌈log2 q⌉ on, the lowest first; bit b is bit b mod 8, from the lowest, of byte b div 8. The
last byte is filled up with zeros.

Eight residues take whole bytes, so that every eighth begins at the same bit of a byte: these are shifted together,
within the eight bytes from where they begin, and one more if need be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.modular import Residues

_WORD_BITS = 64


def packed_size(count: int, modulus: int) -> int:
    """Return the bytes of so many residues."""
    return -(-count * _width(modulus) // 8)


def pack(values: Residues, modulus: int) -> bytes:
    """Return residues, shape (count,), as bytes; ValueError where one is not below the modulus, of 2 to 63 bits."""
    if int(values.max(initial=0)) >= modulus:
        raise ValueError("a residue is not below its modulus")
    table, octets = _room(len(values), _width(modulus))
    table.reshape(-1)[: len(values)] = values
    for column, (words, shift, above) in zip(table.T, _places(table, octets, _width(modulus)), strict=True):
        words |= column << shift
        if above is not None:
            above |= (column >> (np.uint64(_WORD_BITS) - shift)).astype(np.uint8)
    return bytes(octets[: packed_size(len(values), modulus)])


def unpack(data: bytes | memoryview, count: int, modulus: int) -> Residues:
    """Return so many residues, shape (count,); `DeserialisationError` for other than what `pack` has made."""
    size, width = packed_size(count, modulus), _width(modulus)
    if len(data) != size:
        raise DeserialisationError(f"expected {size} bytes of residues, got {len(data)}", field="length")
    if data[-1] >> (8 - (8 * size - count * width)):
        raise DeserialisationError("the bits behind the last residue are not zero")
    table, octets = _room(count, width)
    octets[:size] = data
    for column, (words, shift, above) in zip(table.T, _places(table, octets, width), strict=True):
        np.right_shift(words, shift, out=column)
        if above is not None:
            column |= above.astype(np.uint64) << (np.uint64(_WORD_BITS) - shift)
    table &= np.uint64(2**width - 1)
    values: Residues = table.reshape(-1)[:count]
    if int(values.max()) >= modulus:
        raise DeserialisationError(f"residue {int((values >= modulus).argmax())} is not below its modulus, {modulus}")
    return values


def _width(modulus: int) -> int:
    return (modulus - 1).bit_length()


def _room(count: int, width: int) -> tuple[Residues, bytearray]:
    """Return room for residues, a row for those of eight bytes at least, and for their bytes, with some to spare."""
    group = 8 * -(-8 // width)
    table: Residues = np.zeros((-(-count // group), group), np.uint64)
    return table, bytearray(table.size * width // 8 + 9)


def _places(
    table: Residues, octets: bytearray, width: int
) -> Iterator[tuple[Residues, np.uint64, NDArray[np.uint8] | None]]:
    """Yield for each column the words where its residues begin, at which bit, and the bytes behind that they reach."""
    rows, group = table.shape
    for start, shift in (divmod(place * width, 8) for place in range(group)):
        words: Residues = np.ndarray(rows, "<u8", octets, start, (group * width // 8,))
        reaches = width + shift > _WORD_BITS
        above: NDArray[np.uint8] = np.ndarray(rows, np.uint8, octets, start + 8, (group * width // 8,))
        yield words, np.uint64(shift), above if reaches else None
