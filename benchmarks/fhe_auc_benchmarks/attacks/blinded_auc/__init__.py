"""Attacks on the blinded AUC: on real ciphertexts, and on the numbers that they hold."""
