"""SEAL: contexts and keys, and how its objects become bytes; it loads none."""

import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import cycle, islice
from typing import Any

import _sealapi_cpp as seal  # as tenseal.sealapi has it; tenseal itself loads what works on tensors
import numpy as np
import zstandard

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.rlwe.context import Library, Rows
from fhe_auc.rlwe.polynomials import WORD
from fhe_auc.rlwe.ring_parameters import Chain

# SEAL's serialisation: a 16-byte header (magic, header size, version, compression, total size) before every object and
# every array inside it; arrays go on with a 64-bit count and the words themselves.
_HEADER = struct.Struct("<HBBBBHQ")
_MAGIC = 0xA15E
_UNCOMPRESSED, _ZSTD = 0, 2


@contextmanager
def _private_file() -> Iterator[str]:
    """Yield the path of a file that nobody else can open: SEAL takes paths only.

    Linux has such files in memory, so that keys stay off the disk. Elsewhere it is in a private folder, and is
    overwritten before it goes. Raises `InputError` where SEAL would write to another path than this one.
    """
    descriptor, folder = -1, None
    if sys.platform == "linux":
        descriptor = os.memfd_create("fhe-auc")
        path = f"/proc/self/fd/{descriptor}"
    else:
        folder = tempfile.TemporaryDirectory(prefix="fhe-auc-")  # mode 700
        if sys.platform == "win32" and not folder.name.isascii():  # it reads the path's UTF-8 in the system's code page
            raise InputError(
                f"the folder for temporary files, {os.path.dirname(folder.name)!r}, has letters beyond ASCII, which "
                "SEAL cannot use on Windows: set TEMP to another folder of your own, as C:\\fhe-auc-temp"
            )
        path = os.path.join(folder.name, "object")
    with open(path, "wb"):
        pass
    try:
        yield path
    finally:
        if folder is None:
            os.close(descriptor)
        else:
            with open(path, "r+b") as file:
                file.write(bytes(os.path.getsize(path)))
                file.flush()
                os.fsync(file.fileno())
            folder.cleanup()


def save(item: Any) -> bytes:
    """Return SEAL's uncompressed serialisation of `item` (saving always compresses)."""
    with _private_file() as path:
        item.save(path)
        with open(path, "rb") as stream:
            data = stream.read()
    magic, header_size, major, minor, compression, reserved, size = _HEADER.unpack_from(data)
    if (magic, header_size, compression, size) != (_MAGIC, _HEADER.size, _ZSTD, len(data)):  # a part would unpack, too
        raise DeserialisationError("SEAL wrote a format that this version of fhe-auc does not know")
    body = zstandard.ZstdDecompressor().decompressobj().decompress(data[_HEADER.size :])
    size = _HEADER.size + len(body)
    return _HEADER.pack(magic, header_size, major, minor, _UNCOMPRESSED, reserved, size) + body


def polynomials(raw: bytes, ring_dimension: int, moduli: Sequence[int]) -> Rows:
    """Find SEAL's arrays of whole polynomials, which are modulo these primes in turn."""
    mark, found = _HEADER.pack(_MAGIC, _HEADER.size, *raw[3:5], _UNCOMPRESSED, 0, 0)[:8], Rows()
    position = raw.find(mark)
    while position >= 0 and len(raw) >= position + _HEADER.size + WORD:
        size = _HEADER.unpack_from(raw, position)[-1]
        start = position + _HEADER.size + WORD
        count = int.from_bytes(raw[start - WORD : start], "little")
        if count and count % ring_dimension == 0 and size == _HEADER.size + WORD + WORD * count:
            for modulus in islice(cycle(moduli), count // ring_dimension):
                found.append((modulus, np.frombuffer(raw, "<u8", ring_dimension, start)))
                start += WORD * ring_dimension
        else:
            start = position + 1
        position = raw.find(mark, start)
    return found


class Scheme(Library):
    """SEAL for one chain."""

    def __init__(self, chain: Chain) -> None:
        primes = seal.CoeffModulus.Create(chain.ring_dimension, [*chain.modulus_bits, chain.special_bits])
        # A site that has submitted needs no more of SEAL than its primes: to make a key takes 50 ms of each process.
        self.moduli = tuple(prime.value() for prime in primes)
        self._settings = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        self._settings.set_poly_modulus_degree(chain.ring_dimension)
        self._settings.set_coeff_modulus(primes)
        super().__init__(chain)

    @cached_property
    def context(self) -> Any:
        """SEAL's own."""
        return seal.SEALContext(self._settings, True, seal.SEC_LEVEL_TYPE.TC128)

    def _new_key(self) -> Rows:
        key = save(seal.KeyGenerator(self.context).secret_key())
        return polynomials(key, self.chain.ring_dimension, self.moduli)
