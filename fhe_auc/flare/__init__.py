"""Sessions between machines, carried by NVIDIA FLARE (`nvflare`, the extra ``fhe-auc[flare]``).

A job of FLARE runs one session: its server plays the aggregator (`controller`), each client answers as a site or a
helper (`executor`). FLARE moves bytes and knows of no cryptography, as little as this package does: the rounds are
`fhe_auc.rounds`, and what a site keeps is in its `fhe_auc.site_state`. Importing this package does not import nvflare.
"""

TASK, MESSAGE, REFUSED = "fhe_auc", "fhe-auc.message", "fhe-auc.refused"
"""The name of the task that clients execute; entries of what is sent: the message, and why there is none."""
