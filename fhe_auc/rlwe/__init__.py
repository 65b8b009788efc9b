"""What the schemes over rings of polynomials share, CKKS (`fhe_auc.ckks`) and BFV (`fhe_auc.bfv`) alike.

Ciphertexts and keys are polynomials modulo primes, whatever is encrypted in them: how these travel (`polynomials`,
`seeded`, `container`), what a library offers (`library`: `openfhe_library`, `seal_library`) and how its objects become
coefficients (`layout`), arithmetic on these (`modular`, `primes`, `number_theoretic_transform`, `modulus_switching`,
`integer_products`), which library there is (`backends`), what security asks of the moduli (`parameters`), what keys
never do (`context`).
"""
