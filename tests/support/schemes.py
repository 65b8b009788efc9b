"""CKKS and BFV behind one interface, for what tests claim of the contexts of both."""

from typing import Any

import msgspec
import numpy as np

from fhe_auc import bfv, ckks
from fhe_auc.bfv.parameters import CHAINS as BFV_CHAINS
from fhe_auc.ckks.parameters import CHAINS as CKKS_CHAINS
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Words


class Ckks:
    """Complex values, whose sum is squared, slot by slot, and read as sums over all slots."""

    name, library = "ckks", ckks
    submission, result = "submission", "result"
    multiplier, flooding_bits = 3, 60

    def __repr__(self) -> str:
        return "ckks"

    def parameters(self, backend: Any, log2_scale: float = 45.0) -> ckks.CkksParameters:
        return ckks.CkksParameters(backend, *msgspec.structs.astuple(CKKS_CHAINS[backend][0]), log2_scale)

    def other_parameters(self, backend: Any) -> ckks.CkksParameters:
        """Parameters that no test takes otherwise."""
        return self.parameters(backend, log2_scale=44.0)

    def some(self, seed: int) -> ckks.Slots:
        generator = np.random.default_rng(seed)
        return 1000 * (generator.uniform(-1, 1, (4, 1024)) + 1j * generator.uniform(-1, 1, (4, 1024)))

    def encrypt(self, secret: ckks.SecretContext, values: ckks.Slots) -> bytes:
        return secret.encrypt(values)

    def read(self, public: ckks.PublicContext, submission: bytes) -> Words:
        return public.read_submission(submission)

    def computed(self, public: ckks.PublicContext, total: Words) -> bytes:
        """All that the keys of a public context are for: the result from a sum of submissions."""
        return public.dump_sums([public.sum_of_squares([total])], self.multiplier, self.flooding_bits)

    def expected(self, values: ckks.Slots) -> ckks.Slots:
        """The multiplier times the sums over all slots of components 1 and 3 of the square."""
        roots = np.exp(1j * np.pi * (4 * np.arange(1024) + 1) / 2048)
        a, b, c, d = values
        return self.multiplier * 2 * np.array([(a * b + roots * c * d).sum(), (a * d + b * c).sum()])

    def decrypt(self, secret: ckks.SecretContext, result: bytes) -> ckks.Slots:
        return secret.decrypt_sums(result, 1)[0]

    def agree(self, found: ckks.Slots, expected: ckks.Slots) -> bool:
        return np.allclose(found, expected, atol=1e-3)


class Bfv:
    """Residues modulo one of three primes, which are multiplied by plaintexts."""

    name, library = "bfv", bfv
    primes = (*primes_above(2**41, 2, 8192), 65537)

    def __init__(self, prime: int = 0) -> None:
        self.prime = prime
        self.submission, self.result = (f"{what} modulo {self.primes[prime]}" for what in ("submission", "result"))

    def __repr__(self) -> str:
        return f"bfv modulo {self.primes[self.prime]}"

    def parameters(self, backend: Any, primes: tuple[int, ...] = primes) -> bfv.BfvParameters:
        return bfv.BfvParameters(backend, *msgspec.structs.astuple(BFV_CHAINS[0]), primes)

    def other_parameters(self, backend: Any) -> bfv.BfvParameters:
        """Parameters that no test takes otherwise."""
        return self.parameters(backend, self.primes[:2])

    def some(self, seed: int) -> bfv.Residues:
        return np.random.default_rng(seed).integers(0, self.primes[self.prime], 8192, dtype=np.uint64)

    def encrypt(self, secret: bfv.SecretContext, values: bfv.Residues) -> bytes:
        return secret.encrypt(values, self.prime)

    def read(self, public: bfv.PublicContext, submission: bytes) -> bfv.Ciphertext:
        return public.read_submission(submission, self.prime)

    def computed(self, public: bfv.PublicContext, ciphertext: bfv.Ciphertext) -> bytes:
        """All that is done with a ciphertext: times the numbers of the slots, plus them, and flooded."""
        slots = np.arange(8192)
        product = public.sum_of_products(self.prime, [ciphertext], [slots])
        return public.dump_result(public.flood(product, slots), public.ciphertext_shape.shape[0] // 2)

    def expected(self, values: bfv.Residues) -> bfv.Residues:
        found = [(value * slot + slot) % self.primes[self.prime] for slot, value in enumerate(values.tolist())]
        return np.array(found, np.uint64)

    def decrypt(self, secret: bfv.SecretContext, result: bytes) -> bfv.Residues:
        return secret.decrypt(result, self.prime, len(secret.parameters.modulus_bits))

    def agree(self, found: bfv.Residues, expected: bfv.Residues) -> bool:
        return np.array_equal(found, expected)


SCHEMES: dict[str, Any] = {"ckks": Ckks(), "bfv": Bfv()}
