"""Sessions of fleets: so many parties that each is a record in a file, and work on them is tasks over files.

    1  device        a record: its padded sketch; and a blob for the helper       `device.py`
    2  aggregator    collects records: checks and adds them, hands on the blobs   `aggregator.py`
    3  helper        opens the sum of the pads of those whose blobs open          `helper.py`
    4  aggregator    takes off the sketches of the others; the encrypted result
    5  helper        decrypts it; the sums, sealed to those that count, and signed
    6  device        unseals and reads them

What a helper is trusted with, `fhe_auc_keys.roles.helper` says. Nobody but it can open a blob, and nobody but the
aggregator a sketch: the helper, who knows the pads, reads no counts though it has the records. A blob is bound to its
sketch by the SHA-256 of the sketch as it is sealed, which tells nothing of it. So whoever changes a sketch on its way
takes it out of the session, and can do no more. What helper and aggregator send each other is sealed likewise.
"""
