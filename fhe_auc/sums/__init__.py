"""Sums over the pooled vectors of many parties, under one-time pads: exact, of degree 1 to 3."""
