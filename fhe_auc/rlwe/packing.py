"""Residues as bytes: each modulo q takes the ⌈log2 q⌉ bits that it needs.

Residue i takes those from i·⌈log2 q⌉ on, the lowest first; bit b is bit b mod 8, from the lowest, of byte b div 8. The
last byte is filled up with zeros.

Eight residues take whole bytes, so that every eighth begins at the same bit of a byte: these are shifted together,
within the eight bytes from where they begin, and one more if need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.modular import Residues

Octets: TypeAlias = NDArray[np.uint8]
_WORD_BITS = 64


def packed_size(count: int, modulus: int) -> int:
    """Return the bytes of so many residues."""
    return -(-count * _width(modulus) // 8)


def pack(values: Residues, modulus: int) -> bytes:
    """Return residues, shape (count,), as bytes; ValueError where one is not below the modulus, of 2 to 63 bits."""
    if int(values.max(initial=0)) >= modulus:
        raise ValueError("a residue is not below its modulus")
    return pack_rows(values[None], modulus).tobytes()


def unpack(data: bytes | memoryview, count: int, modulus: int) -> Residues:
    """Return so many residues, shape (count,); `DeserialisationError` for other than what `pack` has made."""
    size, width = packed_size(count, modulus), _width(modulus)
    if len(data) != size:
        raise DeserialisationError(f"expected {size} bytes of residues, got {len(data)}", field="length")
    if data[-1] >> (8 - (8 * size - count * width)):
        raise DeserialisationError("the bits behind the last residue are not zero")
    values: Residues = unpack_rows(np.frombuffer(data, np.uint8)[None], count, modulus)[0][0]
    if int(values.max()) >= modulus:
        raise DeserialisationError(f"residue {int((values >= modulus).argmax())} is not below its modulus, {modulus}")
    return values


def octet_rows(parts: Sequence[bytes | memoryview], size: int) -> Octets:
    """Return byte strings as rows, shape (parts, size); `DeserialisationError` where one is not `size` bytes long."""
    if any(len(part) != size for part in parts):
        raise DeserialisationError(f"expected {size} bytes, got {sorted(map(len, parts))}", field="length")
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size)


def byte_rows(octets: Octets) -> list[bytes]:
    """Return rows as byte strings."""
    found: list[bytes] = np.ascontiguousarray(octets).view(f"V{octets.shape[1]}")[:, 0].tolist()
    return found


def pack_rows(values: Residues, modulus: int) -> Octets:
    """Return rows of residues, shape (rows, count), each as `pack` does: shape (rows, bytes). All are below it."""
    (rows, count), width = values.shape, _width(modulus)
    group, octets = _room(rows, count, width)
    for place, words, shift, above in _places(octets, count, group, width):
        column = values[:, place::group]
        words |= column << shift
        if above is not None:
            above |= (column >> (np.uint64(_WORD_BITS) - shift)).astype(np.uint8)
    return octets[:, : packed_size(count, modulus)]


def unpack_rows(data: Octets, count: int, modulus: int) -> tuple[Residues, NDArray[np.bool_]]:
    """Return rows of residues, shape (rows, count), of `data`, shape (rows, bytes); and which of them `pack` can make.

    Raises ValueError for rows of another length.
    """
    size, width = packed_size(count, modulus), _width(modulus)
    group, octets = _room(len(data), count, width)
    octets[:, :size] = data
    values: Residues = np.empty((len(data), count), np.uint64)
    for place, words, shift, above in _places(octets, count, group, width):
        column = values[:, place::group]
        np.right_shift(words, shift, out=column)
        if above is not None:
            column |= above.astype(np.uint64) << (np.uint64(_WORD_BITS) - shift)
    values &= np.uint64(2**width - 1)
    spare = octets[:, size - 1] >> np.uint8(8 - (8 * size - count * width)) if count * width % 8 else 0
    return values, (values.max(axis=1, initial=0) < modulus) & (spare == 0)


def _width(modulus: int) -> int:
    return (modulus - 1).bit_length()


def _room(rows: int, count: int, width: int) -> tuple[int, Octets]:
    """Return how many residues begin anew at a whole byte, eight bytes of them at least, and room for rows of bytes."""
    group = 8 * -(-8 // width)
    return group, np.zeros((rows, -(-count // group) * group * width // 8 + 9), np.uint8)


def _places(
    octets: Octets, count: int, group: int, width: int
) -> Iterator[tuple[int, Residues, np.uint64, Octets | None]]:
    """Yield for each place in a group the words where its residues begin, at which bit, and the bytes behind these."""
    for place in range(min(count, group) if len(octets) else 0):
        start, shift = divmod(place * width, 8)
        shape, strides = (len(octets), -(-(count - place) // group)), (octets.strides[0], group * width // 8)
        words: Residues = np.ndarray(shape, "<u8", octets, start, strides)
        above: Octets = np.ndarray(shape, np.uint8, octets, start + 8, strides)
        yield place, words, np.uint64(shift), above if width + shift > _WORD_BITS else None
