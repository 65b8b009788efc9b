"""A lying aggregator against the exact protocols: on the integers in the slots, and on ciphertexts."""
