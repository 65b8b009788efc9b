"""What the schemes over rings of polynomials share, CKKS (`fhe_auc.ckks`) and BFV (`fhe_auc.bfv`) alike.

Ciphertexts and keys are polynomials modulo primes, whatever is encrypted in them:

    parameters                         ring, moduli and what security asks of them; which library there is
    modular, polynomials               arithmetic modulo primes; polynomials, and their values at roots of unity
    ciphertexts                        how they are encrypted, travel and get smaller, and which are refused
    context                            what a public and a secret key do, and never do; how a library makes them
    openfhe_library, seal_library      the libraries
"""
