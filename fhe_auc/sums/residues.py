"""Residues as bytes, each in the ⌈log2 t⌉ bits that it needs.

Residue i takes the bits from i·⌈log2 t⌉ on, the lowest first; bit b is bit b mod 8, from the lowest, of byte b div 8.
The last byte is filled up with zeros.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.modular import Residues

_WORD_BITS = 64
_ONE = np.uint64(1)
_LAST = np.uint64(_WORD_BITS - 1)


def packed_size(count: int, prime: int) -> int:
    """Return the bytes of so many residues."""
    return -(-count * _width(prime) // 8)


def pack(values: Residues, prime: int) -> bytes:
    """Return residues, shape (count,), as bytes; raise ValueError where one is not below the prime, of 2 to 63 bits."""
    if int(values.max(initial=0)) >= prime:
        raise ValueError("a residue is not below its prime")
    count, width = len(values), _width(prime)
    words = np.zeros(-(-count * width // _WORD_BITS), "<u8")
    word, shift = _places(count, width)
    # A residue begins in every word, but perhaps the last; what does not fit of a word's last one begins the next word.
    firsts = np.flatnonzero(np.diff(word, prepend=-1))
    words[: len(firsts)] = np.bitwise_or.reduceat(values << shift, firsts)
    lasts = np.append(firsts[1:], count)[: len(words) - 1] - 1
    words[1:] |= values[lasts] >> (_LAST - shift[lasts]) >> _ONE
    return words.tobytes()[: packed_size(count, prime)]


def unpack(data: bytes, count: int, prime: int) -> Residues:
    """Return so many residues, shape (count,); `DeserialisationError` for other than what `pack` has made."""
    size, width = packed_size(count, prime), _width(prime)
    if len(data) != size:
        raise DeserialisationError(f"expected {size} bytes of residues, got {len(data)}", field="length")
    if data[-1] >> (8 - (8 * size - count * width)):
        raise DeserialisationError("the bits behind the last residue are not zero")
    # Residues begin at the same bits again after some bytes: those of one such place are read together.
    group = 8 // math.gcd(width, 8)
    step, rows = group * width // 8, -(-count // group)
    padded = data + bytes(step + 9)
    table = np.empty((rows, group), np.uint64)
    for place in range(group):
        start, shift = divmod(place * width, 8)
        column = table[:, place]
        np.right_shift(np.ndarray(rows, "<u8", padded, start, (step,)), np.uint64(shift), out=column)
        if width + shift > _WORD_BITS:
            above: Residues = np.ndarray(rows, np.uint8, padded, start + 8, (step,)).astype(np.uint64)
            column |= above << np.uint64(_WORD_BITS - shift)
    table &= np.uint64(2**width - 1)
    values: Residues = table.reshape(-1)[:count]
    if int(values.max()) >= prime:
        raise DeserialisationError(f"residue {int((values >= prime).argmax())} is not below its prime, {prime}")
    return values


def _width(prime: int) -> int:
    return (prime - 1).bit_length()


def _places(count: int, width: int) -> tuple[NDArray[np.int64], Residues]:
    """Return the word in which each residue begins, and from which bit on."""
    starts = np.arange(count) * width
    return starts // _WORD_BITS, (starts % _WORD_BITS).astype(np.uint64)
