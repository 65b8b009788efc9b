"""What the schemes over rings of polynomials share, CKKS (`fhe_auc.ckks`) and BFV (`fhe_auc.bfv`) alike.

Ciphertexts and keys are polynomials modulo primes, whatever is encrypted in them: how these travel (`polynomials`,
`seeded`, `container`), how they enter and leave the libraries (`layout`, `openfhe_library`, `seal_format`), which
library there is (`backends`), what security asks of the moduli (`parameters`), and what keys never do (`context`).
"""
