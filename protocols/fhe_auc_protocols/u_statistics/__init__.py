"""The AUC of users who trust nobody with their scores: U-statistics under local differential privacy, as protocols.

[USTAT] Bell, Bellet, Gascón, Kulkarni, "Private Protocols for U-Statistics in the Local Model and Beyond", AISTATS
2020.

    krr         quantise, then randomised response over k values                     Algorithm 1, theorem 1
    hierarchy   hierarchical histograms of one-bit reports                           §4, theorem 3

What is private, against whom: docs/evidence/noise.md.
"""
