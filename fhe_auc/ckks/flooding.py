"""Flooding: noise that hides what a ciphertext's own noise would tell to those who can decrypt it.

The aggregator adds it to a result, as fresh public-key encryptions of Gaussian noise; a member of a joint session adds
it to a partial decryption (smudging). It comes from `secrets`, through a ChaCha20 key stream.
"""

from __future__ import annotations

import secrets

import numpy as np
from scipy.special import ndtri

from fhe_auc.ckks.context import Ciphertext, PublicContext, Slots
from fhe_auc.keystream import KeyStream

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
    stream = KeyStream(secrets.token_bytes(32))
    real, imaginary = ndtri(stream.fractions(2, slots)) * (standard_deviation / np.sqrt(2))
    return np.asarray(real + 1j * imaginary)
