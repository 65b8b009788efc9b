"""SIMULATED noise and made-up scores, for experiments: fast, seeded, and protecting nobody."""
