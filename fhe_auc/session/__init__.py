"""One session, whatever carries it: the contract of protocols, manifest, messages, rounds, journal, computations."""
