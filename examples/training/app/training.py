"""A Flower app: some rounds of training on all sites, then one encrypted AUC over all their rows.

What is fhe-auc's are two calls, `answer` at the site and `evaluate` at the server; the rest is an ordinary Flower app.
"""

import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from model import START, own_auc, probabilities, rows_of, trained

from fhe_auc.machines.flower.client_app import answer, site_config
from fhe_auc.machines.flower.server_app import evaluate
from fhe_auc.rows.party_data import PartyData

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    y_true, features = rows_of(site_config(context)["data"])
    model = trained(message.content["arrays"]["model"].numpy(), y_true, features)
    content = {"arrays": ArrayRecord({"model": Array(model)}), "metrics": MetricRecord({"num-examples": len(y_true)})}
    return Message(RecordDict(content), reply_to=message)


@client.evaluate()
def judge(message: Message, context: Context) -> Message:
    """Score the site's rows with the shared model, keep the scores, and tell the site's own AUC: the usual way."""
    y_true, features = rows_of(site_config(context)["data"])
    scores = probabilities(message.content["arrays"]["model"].numpy(), features)
    context.state["scores"] = ArrayRecord({"y_score": Array(scores)})
    auc, weight = own_auc(y_true, scores)
    return Message(RecordDict({"metrics": MetricRecord({"auc": auc, "num-examples": weight})}), reply_to=message)


@client.query("fhe_auc")
def take_part(message: Message, context: Context) -> Message:
    """The site's part in the encrypted evaluation, on the scores that it has kept."""
    y_true, _ = rows_of(site_config(context)["data"])
    scores = context.state["scores"]["y_score"].numpy()
    return answer(message, context, rows=lambda name, analysis: PartyData.from_arrays(name, y_true, scores))


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train from the model in a file on, and write it there; then evaluate it."""
    config = context.run_config
    rounds, state = config["num-server-rounds"], Path(config["state"])
    model = np.array(json.loads(state.read_text(encoding="utf-8"))["model"]) if state.exists() else START
    done = FedAvg().start(grid, ArrayRecord({"model": Array(model)}), num_rounds=rounds)
    average = done.evaluate_metrics_clientapp[rounds]["auc"]
    state.write_text(json.dumps({"model": done.arrays["model"].numpy().tolist(), "average": average}), encoding="utf-8")
    evaluate(grid, config)  # in place of the average: one AUC over all rows, which the sites learn
