"""Flooding: noise that hides what a ciphertext's own noise would tell to those who can decrypt it.

The aggregator adds it to a result: fresh public-key encryptions of Gaussian noise, by ChaCha20 from `secrets`.
"""

import secrets

import numpy as np

from fhe_auc.base.keystream import KeyStream
from fhe_auc.ckks.context import Ciphertext, PublicContext, Slots

_LAYER_BITS = 40
_FILLED_BITS = 50  # a layer as small as that ends in no zeros: a double holds 53 bits


def flood(context: PublicContext, ciphertext: Ciphertext, standard_deviation: float, unit: float) -> Ciphertext:
    """Return `ciphertext` itself, with fresh public-key encryptions of Gaussian noise added.

    `standard_deviation` is that of a slot in plain units: E|z|² is its square; `unit` is as `flooding_layers`.
    """
    for layer in flooding_layers(context.parameters.slots, standard_deviation, unit=unit):
        context.add_in_place(ciphertext, context.encrypt(layer, degree=2))
    return ciphertext


def flooding_layers(slots: int, standard_deviation: float, *, unit: float) -> list[Slots]:
    """Return vectors of complex Gaussian noise over all slots, to be encoded and added one after the other.

    The standard deviation is that of all layers together: E|z|² is its square. `unit` is what one unit of the encoded
    integer coefficients is worth: encoded from double precision, a layer's coefficients end in zeros; so layer follows
    layer, each 2^40 times smaller, until the lowest bits are filled.
    """
    layers = [_gaussian(slots, standard_deviation)]
    while standard_deviation > 2.0**_FILLED_BITS * unit:
        standard_deviation *= 2.0**-_LAYER_BITS
        layers.append(_gaussian(slots, standard_deviation))
    return layers


def _gaussian(slots: int, standard_deviation: float) -> Slots:
    """Return z of E|z|² = σ² a slot, by Box and Muller: |z|²/σ² is exponential, and the angle uniform.

    Each is of 52 bits of its own, in double precision; |z| up to √(53 ln 2)·σ = 6.06 σ: larger ones are 2^-53 likely.
    """
    above, turns = KeyStream(secrets.token_bytes(32)).fractions(2, slots)
    return np.asarray(standard_deviation * np.sqrt(-np.log(above)) * np.exp(2j * np.pi * turns))
