"""Products modulo primes of any size are those of integers, also of the largest residues; rows are packed as one is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular, packing
from fhe_auc.rlwe.modular import Matrix, matmul, product, uniform, uniform_rows

PRIMES = [7, 257, *(modular.primes_below(bits, 1, 8)[0] for bits in (21, 42, 43, 50, 51, 53, 56))]


def drawn(prime: int, seed: int, *shape: int) -> modular.Residues:
    """Residues, of which a third are the largest, and some at a half."""
    stream = KeyStream(seed.to_bytes(32, "big"))
    kinds = stream.words(*shape) % np.uint64(6)
    return np.where(kinds < 2, prime - 1, np.where(kinds < 3, prime // 2, uniform(stream, prime, *shape)))


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 16, 4), (2, 530, 3), (300, 700, 2), (1, 40_000, 1)])
def test_products_of_matrices_are_those_of_integers(prime: int, size: tuple[int, int, int]) -> None:
    x, y = drawn(prime, 1, *size[:2]), drawn(prime, 2, *size[1:])
    x[-1], y[:, -1] = prime - 1, prime - 1
    assert (matmul(x, y, prime) == x.astype(object) @ y.astype(object) % prime).all()
    assert (Matrix(y, prime).after(x[None, None]) == matmul(x, y, prime)).all()


@pytest.mark.parametrize("prime", PRIMES)
def test_products_of_elements_are_those_of_integers(prime: int) -> None:
    x, y = drawn(prime, 1, 7, 300), drawn(prime, 2, 300)
    for other in (y, y[0]):
        assert (product(x, other, prime).astype(object) == x.astype(object) * other.astype(object) % prime).all()


@given(
    st.sampled_from([7, 100, 127, 2**42 - 11, 2**42 - 2**35, 2**56 - 5]), st.lists(st.binary(min_size=32, max_size=32))
)
def test_rows_of_several_keys_are_what_their_streams_draw(modulus: int, keys: list[bytes]) -> None:
    """Also where most are drawn again, and where words are reduced."""
    expected = [uniform(KeyStream(key), modulus, 50).tolist() for key in keys]
    assert uniform_rows(keys, modulus, 50).tolist() == expected


@given(st.integers(2, 2**63 - 1), st.integers(1, 40), st.integers(0, 3), st.data())
def test_rows_are_packed_as_integers_and_a_row_that_is_none_is_told(
    modulus: int, count: int, rows: int, data: st.DataObject
) -> None:
    row = st.lists(st.integers(0, modulus - 1), min_size=count, max_size=count)
    values = data.draw(st.lists(row, min_size=rows, max_size=rows))
    width, size = (modulus - 1).bit_length(), packing.packed_size(count, modulus)
    packed = packing.pack_rows(np.array(values, np.uint64).reshape(rows, count), modulus)
    whole = [sum(each << width * place for place, each in enumerate(own)) for own in values]
    assert packing.byte_rows(packed) == [each.to_bytes(size, "little") for each in whole]
    found, fit = packing.unpack_rows(packed, count, modulus)
    assert (found.tolist(), fit.tolist()) == (values, [True] * rows)
    more = [*packing.byte_rows(packed), b"\xff" * size]
    found, fit = packing.unpack_rows(packing.octet_rows(more, size), count, modulus)
    none = modulus < 1 << width or count * width % 8 > 0
    assert (found[:rows].tolist(), fit.tolist()) == (values, [True] * rows + [not none])
    with pytest.raises(DeserialisationError, match=f"expected {size} bytes"):
        packing.octet_rows([b"\xff" * (size + 1)], size)
