"""CKKS and BFV behind one interface, for what tests claim of the contexts of both."""

from typing import Any

import msgspec
import numpy as np

from fhe_auc import bfv, ckks
from fhe_auc.bfv.parameters import CHAINS as BFV_CHAINS
from fhe_auc.ckks.parameters import CHAINS as CKKS_CHAINS
from fhe_auc.rlwe.primes import primes_above


class Ckks:
    """Complex values, of which a product is taken, as results are of degree 2."""

    name, library = "ckks", ckks
    public_keys = ("public_key", "relinearisation_key", "rotation_keys")
    submission, result = "submission", "result"

    def __repr__(self) -> str:
        return "ckks"

    def parameters(
        self, backend: Any, log2_scale: float = 40.0, rotations: tuple[int, ...] = (1, 2, 2048)
    ) -> ckks.CkksParameters:
        return ckks.CkksParameters(backend, *msgspec.structs.astuple(CKKS_CHAINS[backend][0]), log2_scale, rotations)

    def other_parameters(self, backend: Any) -> ckks.CkksParameters:
        """Parameters that no test takes otherwise."""
        return self.parameters(backend, log2_scale=39.0)

    def some(self, seed: int) -> ckks.Slots:
        generator = np.random.default_rng(seed)
        return 1000 * (generator.uniform(-1, 1, 4096) + 1j * generator.uniform(-1, 1, 4096))

    def encrypt(self, secret: ckks.SecretContext, values: ckks.Slots) -> bytes:
        return secret.encrypt(values)

    def read(self, public: ckks.PublicContext, submission: bytes) -> Any:
        return public.read_submission(submission)

    def ciphertext(self, public: ckks.PublicContext, words: Any) -> ckks.Ciphertext:
        return public.ciphertext(words)

    def fresh(self, public: ckks.PublicContext, values: ckks.Slots) -> ckks.Ciphertext:
        """An encryption under the public key, from which a result can be made."""
        return public.encrypt(values, degree=2)

    def computed(self, public: ckks.PublicContext, ciphertext: ckks.Ciphertext) -> ckks.Ciphertext:
        """All that the keys of a public context are for: the product with the same values, rotated by two."""
        return public.multiply(ciphertext, public.rotate(ciphertext, 2))

    def expected(self, values: ckks.Slots) -> ckks.Slots:
        return values * np.roll(values, -2)

    def decrypt(self, secret: ckks.SecretContext, result: bytes) -> ckks.Slots:
        return secret.decrypt(result)

    def agree(self, found: ckks.Slots, expected: ckks.Slots) -> bool:
        return np.allclose(found, expected, atol=1e-3)


class Bfv:
    """Residues modulo one of three primes, which are multiplied by plaintexts."""

    name, library = "bfv", bfv
    public_keys = ("public_key",)
    primes = (*primes_above(2**41, 2, 8192), 65537)

    def __init__(self, prime: int = 0) -> None:
        self.prime = prime
        self.submission, self.result = (f"{what} modulo {self.primes[prime]}" for what in ("submission", "result"))

    def __repr__(self) -> str:
        return f"bfv modulo {self.primes[self.prime]}"

    def parameters(self, backend: Any, primes: tuple[int, ...] = primes) -> bfv.BfvParameters:
        return bfv.BfvParameters(backend, *msgspec.structs.astuple(BFV_CHAINS[backend][0]), primes)

    def other_parameters(self, backend: Any) -> bfv.BfvParameters:
        """Parameters that no test takes otherwise."""
        return self.parameters(backend, self.primes[:2])

    def some(self, seed: int) -> bfv.Residues:
        return np.random.default_rng(seed).integers(0, self.primes[self.prime], 8192, dtype=np.uint64)

    def encrypt(self, secret: bfv.SecretContext, values: bfv.Residues) -> bytes:
        return secret.encrypt(values, self.prime)

    def read(self, public: bfv.PublicContext, submission: bytes) -> Any:
        return public.read_submission(submission, self.prime)

    def ciphertext(self, public: bfv.PublicContext, words: Any) -> bfv.Ciphertext:
        return public.ciphertext(words, self.prime)

    def fresh(self, public: bfv.PublicContext, values: bfv.Residues) -> bfv.Ciphertext:
        """An encryption under the public key, from which a result can be made."""
        return public.encrypt(values, self.prime)

    def computed(self, public: bfv.PublicContext, ciphertext: bfv.Ciphertext) -> bfv.Ciphertext:
        """All that is done with a ciphertext: times the numbers of the slots, plus them, and flooded."""
        slots = np.arange(8192)
        return public.flood(public.add_values(public.multiply_values(ciphertext, slots), slots))

    def expected(self, values: bfv.Residues) -> bfv.Residues:
        found = [(value * slot + slot) % self.primes[self.prime] for slot, value in enumerate(values.tolist())]
        return np.array(found, np.uint64)

    def decrypt(self, secret: bfv.SecretContext, result: bytes) -> bfv.Residues:
        return secret.decrypt(result, self.prime)

    def agree(self, found: bfv.Residues, expected: bfv.Residues) -> bool:
        return np.array_equal(found, expected)


SCHEMES: dict[str, Any] = {"ckks": Ckks(), "bfv": Bfv()}
