"""All chains of moduli are within the security table, which `RingParameters` holds every plan to."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.bfv.parameters import CHAINS as BFV_CHAINS
from fhe_auc.ckks.parameters import CHAINS as CKKS_CHAINS
from fhe_auc.rlwe.ring_parameters import MAX_MODULUS_BITS, Chain

TABLE = {4096: 106, 8192: 214, 16384: 430, 32768: 868}
"""log2 q at most: ePrint 2024/463, table 5.2, ternary secrets, 128 bits against classical attacks."""


def test_the_table_is_that_of_the_guidelines_of_2024() -> None:
    assert MAX_MODULUS_BITS == TABLE


def test_all_chains_are_within_the_table() -> None:
    for chain in (*BFV_CHAINS, *itertools.chain(*CKKS_CHAINS.values())):
        assert sum(chain.modulus_bits) + chain.special_bits <= TABLE[chain.ring_dimension], chain


ERROR = 3.19  # the least deviation of an error here: OpenFHE's; ours and SEAL's is 3.24
TERNARY = math.sqrt(2 / 3)
PAGE = Path(__file__).parents[2] / "docs" / "security" / "encryption.md"
ROWS = {
    "BFV, t of up to 42 bits": BFV_CHAINS[0],
    "BFV, the same, many more products": BFV_CHAINS[1],
    "BFV, t of 43 to 50 bits": BFV_CHAINS[2],
    "CKKS, OpenFHE": CKKS_CHAINS["openfhe"][0],
    "CKKS, SEAL": CKKS_CHAINS["tenseal"][0],
    "CKKS, larger, OpenFHE": CKKS_CHAINS["openfhe"][1],
    "CKKS, larger, SEAL": CKKS_CHAINS["tenseal"][1],
}
"""The special prime of SEAL does not count: nothing is published modulo it."""


def block_size(n: int, log2_q: float, error: float, secret: float) -> int:
    samples = np.arange(1, 2 * n + 1)
    dimension = samples + n + 1
    volume = (samples * log2_q + n * math.log2(error / secret)) / dimension

    def found(beta: int) -> bool:
        log2_delta = math.log2((math.pi * beta) ** (1 / beta) * beta / (2 * math.pi * math.e)) / (2 * (beta - 1))
        reached = (2 * beta - dimension - 1) * log2_delta + volume
        return bool((math.log2(error) + math.log2(beta) / 2 <= reached).any())

    low, high = 50, 2 * n  # the formula for δ is for blocks of 50 and more
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle + 1, high)
    return low


def row(name: str, chain: Chain) -> tuple[str, ...]:
    bits = sum(chain.modulus_bits)
    beta = block_size(chain.ring_dimension, bits, ERROR, TERNARY)
    limit = MAX_MODULUS_BITS[chain.ring_dimension]
    return name, f"{chain.ring_dimension}", f"{bits}", f"{limit}", f"{beta}", f"{0.292 * beta:.1f}"


@pytest.mark.parametrize(("n", "binomial", "beta"), [(1024, 16, 967), (512, 24, 449)], ids=["NewHope", "JarJar"])
def test_the_estimate_gives_the_block_sizes_of_the_paper_that_it_is_from(n: int, binomial: int, beta: int) -> None:
    """Its table 1: 967 and 449, for q = 12289 and secrets as large as errors; here 968 and 451."""
    deviation = math.sqrt(binomial / 2)
    assert abs(block_size(n, math.log2(12289), deviation, deviation) - beta) <= 2


def test_the_page_has_both_counts_of_every_chain() -> None:
    assert set(ROWS.values()) == {*BFV_CHAINS, *itertools.chain(*CKKS_CHAINS.values())}
    lines = (re.fullmatch(r"\| (.*) \|", line) for line in PAGE.read_text(encoding="utf-8").splitlines())
    written = [tuple(found[1].split(" | ")) for found in lines if found]
    assert [each for each in written if len(each) == 6][1:] == [row(*each) for each in ROWS.items()]
