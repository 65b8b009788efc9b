"""Submissions carry one polynomial and a seed: still a fresh encryption of the same values, half as long."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv, ckks
from fhe_auc.base.errors import BackendUnavailableError, DeserialisationError
from fhe_auc.rlwe.ciphertexts import FRESH_VARIANCE, SEED_BYTES, VARIANCE, Seeded
from fhe_auc.rlwe.context import library_for
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of
from tests.support.bfv_contexts import parameters_of
from tests.support.platforms import needs_fork
from tests.support.schemes import Ckks

FALSE_ALARM = 1e-9
"""Probability with which the statistical test here fails although all is well."""


def noise_of(pair: ckks.KeyPair, words: Words) -> np.ndarray:
    """b + a·s of an encryption of zero: its error, coefficients still as values at roots of unity."""
    half = Seeded(pair.public.ciphertext_shape).half
    b, a = np.split(words.copy(), 2)
    half.add_in_place(b, half.multiply(a, pair.secret.secret_words))
    return b


def small_coefficients(half: Polynomials, values: Words) -> np.ndarray:
    """The coefficients of a small polynomial: the same integers modulo every prime."""
    rows, moduli = coefficients_of(half, values).astype(np.int64), np.array(half.moduli)[:, None]
    rows = np.where(rows > moduli // 2, rows - moduli, rows)
    assert (rows == rows[0]).all()
    return rows[0]


def encrypted_by_the_library(pair: ckks.KeyPair) -> Words:
    """An encryption of zero, before it is reseeded."""
    return pair.secret._zero()


def zeros(pair: ckks.KeyPair) -> ckks.Slots:
    return np.zeros((4, pair.public.parameters.slots), complex)


def test_encryptions_have_an_error_of_the_variance_that_bounds_reckon_with(pair: ckks.KeyPair) -> None:
    half = Seeded(pair.public.ciphertext_shape).half
    submissions = (pair.public.read_submission(pair.secret.encrypt(zeros(pair))) for _ in range(8))
    errors = np.concatenate([small_coefficients(half, noise_of(pair, each)) for each in submissions])
    # Of 65536 values it is off by 0.006; OpenFHE's own error is a little smaller than what is reckoned with.
    assert 0.94 < (errors.astype(float) ** 2).mean() / FRESH_VARIANCE < 1.04
    assert abs(errors.mean()) < 7 * np.sqrt(FRESH_VARIANCE / errors.size)


@pytest.mark.parametrize("name", ["ckks", "bfv"])
def test_a_public_key_encrypts_zero_with_the_second_error_alone(name: str, backend: str) -> None:
    """Under CKKS modulo Q, as only our own arithmetic takes it; under BFV modulo all primes of the library's keys."""
    bfv_parameters = parameters_of(backend, primes_above(2**41, 1, 8192))
    made: Any = ckks.generate(Ckks().parameters(backend)) if name == "ckks" else bfv.generate(bfv_parameters)
    library, secret_key = library_for(made.public.parameters), made.secret._stored.secret_key
    seeded = Seeded(made.public.ciphertext_shape if name == "ckks" else library.public_key.polynomials)
    half, special = seeded.half, name == "bfv" and backend == "tenseal"
    assert len(half.moduli) == len(made.public.parameters.modulus_bits) + special
    secret = library.secret_key.polynomials.unpack(secret_key)[: len(half.moduli)]
    first, second = made.public._stored.public_key, library.new_public_key(secret_key)
    assert len(first) == half.packed_size + SEED_BYTES
    found = []
    for packed in first, second:
        b, a = np.split(seeded.expand(packed), 2)
        half.add_in_place(b, half.multiply(a, secret))
        error = small_coefficients(half, b)
        assert np.abs(error).max() <= 21
        assert (error**2).mean() == pytest.approx(VARIANCE, rel=0.15)
        found.append((error, a))
    (error, a), (other_error, other_a) = found
    assert (a != other_a).mean() > 0.999
    assert abs(np.corrcoef(error, other_error)[0, 1]) < 0.1


def test_an_error_repeated_under_another_seed_tells_no_key(pair: ckks.KeyPair, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = encrypted_by_the_library(pair)
    monkeypatch.setattr(pair.secret, "_zero", repeated.copy)
    first, second = (pair.public.read_submission(pair.secret.encrypt(zeros(pair))) for _ in range(2))
    Seeded(pair.public.ciphertext_shape).whole.subtract_in_place(first, second)
    assert np.count_nonzero(first) > 0.999 * first.size  # the seeds differ
    # With one error the difference is (a' - a)·s, and this zero; now no equation is without an error of its own.
    error = small_coefficients(pair.secret.mask_shape, noise_of(pair, first))
    assert (error**2).mean() == pytest.approx(2 * VARIANCE, rel=0.15)


def test_a_library_that_keeps_polynomials_otherwise_is_refused(
    pair: ckks.KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_for.__wrapped__(pair.public.parameters)
    product = Polynomials.multiply
    monkeypatch.setattr(Polynomials, "multiply", lambda self, x, y: product(self, x, np.roll(y, 1, axis=1)))
    with pytest.raises(BackendUnavailableError, match="install one that fhe-auc asks for"):
        library_for.__wrapped__(pair.public.parameters)


_FORKS = """
import hashlib, json, os, sys
from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError
from fhe_auc.rlwe.context import library_for
from tests.support.schemes import Ckks

parameters, drawn = Ckks().parameters(sys.argv[1]), sys.argv[2]
pair = ckks.generate(parameters)
if drawn == "keys":
    from fhe_auc.rlwe import openfhe_library
    openfhe_library._refuse_forks = lambda: None  # a fork stands for a machine that is resumed twice

def draw():
    if drawn == "keys":
        return library_for(parameters).new_secret_key()
    words = pair.secret._zero()
    ckks.generate(parameters)
    return words.tobytes()

found = []
for _ in range(2):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = hashlib.sha256(draw()).digest()
        except EvaluationError as error:
            told = str(error).encode()
        os.write(writing, told)
        os._exit(0)
    os.waitpid(child, 0)
    found.append(os.read(reading, 1000).hex())
print(json.dumps(found))
"""


@needs_fork
@pytest.mark.openfhe
def test_keys_are_never_made_of_repeated_randomness(run_child: Any) -> None:
    first, second = run_child(_FORKS, "openfhe", "keys")
    assert len(first) == len(second) == 64
    assert first != second


@needs_fork
def test_forked_processes_do_not_encrypt_with_the_same_error(run_child: Any, backend: str) -> None:
    # The error of two encryptions of equal values under different `a` would cancel out, and tell the secret key.
    first, second = map(bytes.fromhex, run_child(_FORKS, backend, "errors"))
    if backend == "openfhe":  # whose random numbers a fork repeats
        assert b"start processes afresh" in first
        assert b"start processes afresh" in second
    else:
        assert len(first) == len(second) == 32
        assert first != second


def test_both_polynomials_of_a_submission_look_uniform_and_another_length_is_refused(pair: ckks.KeyPair) -> None:
    seeded = Seeded(pair.public.ciphertext_shape)
    words = pair.public.read_submission(pair.secret.encrypt(zeros(pair) + 1))
    for row, modulus in zip(words, seeded.whole.moduli, strict=True):
        found = stats.kstest(row / modulus, "uniform").pvalue
        assert found > FALSE_ALARM / len(words)
    for change in [-1, 1, -SEED_BYTES]:
        seeded = Seeded(pair.public.ciphertext_shape)
        with pytest.raises(DeserialisationError, match="bytes of coefficients and seed"):
            seeded.expand(bytes(seeded.half.packed_size + SEED_BYTES + change))
