"""One session, whatever carries it: contract of protocols, manifest, messages, rounds, journal, and computations."""
