#!/usr/bin/env bash
# flwr 1.42.0: FedAvg leaves out clients that answer with an error. Wrapped by one of the classes for differential
# privacy (DifferentialPrivacyServerSideFixedClipping), one such answer throws away the round of all. A line of INFO
# says so; the run goes on and ends as usual.
#
# Seen: ten clients, one of which fails in each of three rounds. FedAvg: the mean of nine. Wrapped: a result without any
# array, no error and no warning.
# Why it matters: of 1,000 devices one always fails, so no private round ever counts. Whoever makes federated noise has
# to say how many may fail.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.42.0
"$folder/venv/bin/python" - <<'PY'
import logging

import numpy as np
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

logging.getLogger("flwr").setLevel(logging.ERROR)  # the line of INFO goes with the others
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
CLIENTS = 10


class Clients(Grid):
    """Ten clients in this process, whose counts are 10 and 20; the last one fails."""

    set_run = run = create_message = push_messages = pull_messages = None

    def get_node_ids(self):
        return range(2, 2 + CLIENTS)

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages]

    def answer(self, message):
        if message.metadata.dst_node_id == 1 + CLIENTS:
            return Message(Error(code=0, reason="out of memory"), reply_to=message)
        counts = ArrayRecord({"counts": Array(np.array([10.0, 20.0]))})
        return Message(RecordDict({"a": counts, "m": MetricRecord({"num-examples": 1})}), reply_to=message)


def after_three_rounds(private):
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    if private:
        strategy = DifferentialPrivacyServerSideFixedClipping(strategy, 1e-9, 1e6, CLIENTS)
    start = ArrayRecord({"counts": Array(np.zeros(2))})
    arrays = strategy.start(Clients(), start, num_rounds=3).arrays.to_numpy_ndarrays()
    return [array.round(9).tolist() for array in arrays]


plain, private = after_three_rounds(False), after_three_rounds(True)
print(f"FedAvg {plain}, private {private}")
assert plain == [[10, 20]] and private == []
PY
