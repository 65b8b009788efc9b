"""Sessions between machines, carried by NVIDIA FLARE (`nvflare`, the extra ``fhe-auc[flare]``).

The server plays the aggregator (`controller`), each client answers as a site or a helper (`executor`). The rounds are
`fhe_auc.session`; what a site keeps is in its `fhe_auc.machines.site_state`. Importing this package does not
import nvflare.
"""

TASK, MESSAGE, REFUSED = "fhe_auc", "fhe-auc.message", "fhe-auc.refused"
"""The name of the task that clients execute; entries of what is sent: the message, and why there is none."""
