"""What the schemes over rings of polynomials share, CKKS (`fhe_auc.ckks`) and BFV (`fhe_auc.bfv`) alike.

Ciphertexts and keys are polynomials modulo primes, whatever is encrypted in them:

    parameters, backends                             ring, moduli and what security asks of them; which library there is
    polynomials, seeded, wire_format                 how ciphertexts and keys travel
    modular, primes, number_theoretic_transform,
    modulus_switching                                arithmetic on coefficients
    error_sampling                                   errors of encryptions
    library: openfhe_library, seal_library           what a library does; `layout`: its objects as coefficients
    context                                          what a public and a secret key do, and never do; how they are made
    transparent_ciphertexts                          results that anybody could make, which parties refuse
"""
