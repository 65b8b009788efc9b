"""SIMULATED noise, for experiments: fast, seeded, and protecting nobody."""
