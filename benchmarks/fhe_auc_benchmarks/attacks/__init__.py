"""Attacks on the encrypted protocols, run against them: what passes, what is refused, and how likely luck is."""
