"""The laboratory: attacks, comparisons, benchmarks, simulations and studies. Nothing that evaluates a model imports it."""
