"""U-statistics of degree two under local differential privacy, by three protocols.

[USTAT] Bell, Bellet, Gascón, Kulkarni, "Private Protocols for U-Statistics in the Local Model and Beyond", AISTATS
2020.

    krr         quantise, then randomised response over k values: any kernel        Algorithm 1, theorems 1 and 2
    hierarchy   the AUC from hierarchical histograms of one-bit reports              §4, theorem 3
    pairs       random pairs of users compute the kernel and its noise together      §5, theorem 5

What is private, against whom: docs/evidence/u-statistics.md.
"""
