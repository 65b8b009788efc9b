"""The laboratory: attacks, comparison, runtime. No part of an evaluation imports it."""
