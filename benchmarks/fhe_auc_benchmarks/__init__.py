"""The laboratory: attacks, comparison, runtime, simulations and studies. No part of an evaluation imports it."""
