"""Attacks that learn: who reads what lies and travels, and who lies to be told more than it should be."""
