"""SEAL's objects as packed coefficients and back: `save`, `layout_of` and `parse`, for every scheme of the library.

SEAL's own loader sees only what SEAL has written on this machine, coefficients filled in (`fhe_auc.rlwe.layout`).
"""

import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from typing import Any

import tenseal.sealapi as seal
import zstandard

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.rlwe.layout import CoefficientLayout, Run

# SEAL's serialisation: a 16-byte header (magic, header size, version, compression, total size) before every object and
# every array inside it; arrays go on with a 64-bit count and the words themselves.
_HEADER = struct.Struct("<HBBBBHQ")
_MAGIC = 0xA15E
_UNCOMPRESSED, _ZSTD = 0, 2
_SEED_BYTES = 64
_SEED_INFO_BYTES = _HEADER.size + 1 + _SEED_BYTES


@contextmanager
def _private_file() -> Iterator[str]:
    """Yield the path of an empty file that nobody else can open: SEAL takes paths only.

    Linux has such files in memory, so that keys stay off the disk. Elsewhere it is in a private folder, and is
    overwritten before it goes. Raises `InputError` where SEAL would write to another path than this one.
    """
    if sys.platform == "linux":
        descriptor = os.memfd_create("fhe-auc")
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory(prefix="fhe-auc-") as folder:  # mode 700
        if sys.platform == "win32" and not folder.isascii():  # it reads the path's UTF-8 in the system's code page
            raise InputError(
                f"the folder for temporary files, {os.path.dirname(folder)!r}, has letters beyond ASCII, which SEAL "
                "cannot use on Windows: set TEMP to another folder of your own, as C:\\fhe-auc-temp"
            )
        path = os.path.join(folder, "object")
        open(path, "xb").close()
        try:
            yield path
        finally:
            with open(path, "r+b") as file:
                file.write(bytes(os.path.getsize(path)))
                file.flush()
                os.fsync(file.fileno())


def save(item: Any) -> bytes:
    """Return SEAL's uncompressed serialisation of `item` (saving always compresses)."""
    with _private_file() as path:
        item.save(path)
        with open(path, "rb") as stream:
            data = stream.read()
    magic, header_size, major, minor, compression, reserved, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC or header_size != _HEADER.size or compression != _ZSTD:
        raise DeserialisationError("SEAL wrote a format that this version of fhe-auc does not know")
    body = zstandard.ZstdDecompressor().decompressobj().decompress(data[_HEADER.size :])
    size = _HEADER.size + len(body)
    return _HEADER.pack(magic, header_size, major, minor, _UNCOMPRESSED, reserved, size) + body


def _coefficients(raw: bytes, ring_dimension: int, moduli: Sequence[int]) -> tuple[list[Run], list[tuple[int, int]]]:
    """Find SEAL's arrays of whole polynomials, and the seed that stands right behind the array of a seeded object."""
    mark = _HEADER.pack(_MAGIC, _HEADER.size, *raw[3:5], _UNCOMPRESSED, 0, 0)[:8]
    runs: list[Run] = []
    seeds: list[tuple[int, int]] = []
    position = raw.find(mark)
    while position >= 0 and len(raw) >= position + _HEADER.size + 8:
        size = _HEADER.unpack_from(raw, position)[-1]
        start = position + _HEADER.size + 8
        count = int.from_bytes(raw[start - 8 : start], "little")
        if count and count % ring_dimension == 0 and size == _HEADER.size + 8 + 8 * count:
            for modulus in islice(cycle(moduli), count // ring_dimension):
                runs.append(Run(start, ring_dimension, modulus))
                start = runs[-1].end
        elif size == _SEED_INFO_BYTES and runs and runs[-1].end == position:
            seeds.append((position + _SEED_INFO_BYTES - _SEED_BYTES, _SEED_BYTES))
            start = position + _SEED_INFO_BYTES
        else:
            start = position + 1
        position = raw.find(mark, start)
    return runs, seeds


def public_key(generator: Any) -> Any:
    """Return a fresh public key of a `seal.KeyGenerator`."""
    key = seal.PublicKey()
    generator.create_public_key(key)
    return key


def layout_of(item: Any, ring_dimension: int, moduli: Sequence[int]) -> CoefficientLayout:
    """Return the layout of objects like `item`, whose polynomials are modulo these primes in turn."""
    return CoefficientLayout(save(item), partial(_coefficients, ring_dimension=ring_dimension, moduli=moduli))


def parse(empty: Any, context: Any, raw: bytes) -> Any:
    """Fill `empty`, a new SEAL object, from what a `CoefficientLayout` made; `DeserialisationError` else."""
    with _private_file() as path:
        with open(path, "wb") as stream:
            stream.write(raw)
        try:
            empty.load(context, path)
        except (RuntimeError, ValueError) as error:
            raise DeserialisationError(f"SEAL refused the object: {error}") from None
    return empty
