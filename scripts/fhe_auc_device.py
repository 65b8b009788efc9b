"""What a device of a fleet works with; the wheel `fhe-auc-device` has this, and what this loads (`device_wheel.py`).

docs/guide/devices.md says how. These are modules of `fhe-auc`, so only one of the two can be installed: where both are,
no session's protocol loads, and the error says so.
"""

from fhe_auc.rows.party_data import PartyData as PartyData
from fhe_auc_keys.bundles.announcement import open_announcement as open_announcement
from fhe_auc_keys.fleet.device import Device as Device
from fhe_auc_keys.fleet.device import Floor as Floor
from fhe_auc_keys.fleet.device import Record as Record
from fhe_auc_keys.fleet.device import Submitted as Submitted
from fhe_auc_keys.fleet.device import released as released
from fhe_auc_keys.trust.members import Members as Members
from fhe_auc_protocols.exact_auc.exact_protocols import Exact as Exact  # a plug-in, by its entry point
from fhe_auc_protocols.histograms.protocols import HistogramDistributedDp as HistogramDistributedDp  # another one

Exact().key_kinds()["helper"]()  # loads what a session needs: `device_wheel.py` takes what is loaded then
