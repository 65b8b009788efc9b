"""A Flower app that trains a model on all sites, and has it judged by one encrypted AUC over all their rows.

What is trained is small: slope and intercept that turn a risk score into a probability. What is fhe-auc's are two
calls, `answer` at the site and `evaluate` at the server; all the rest is an ordinary Flower app.
"""

import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.metrics import roc_auc_score

from fhe_auc.counts import PartyData
from fhe_auc.flower.client_app import answer, site_config
from fhe_auc.flower.server_app import evaluate

client = ClientApp()
server = ServerApp()


def rows_of(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """The site's own rows: labels, and the logit of the score as the only feature."""
    rows = np.load(site_config(context)["data"])
    score = np.clip(rows["y_score"], 1e-6, 1 - 1e-6)
    return rows["y_true"], np.log(score / (1 - score))


def probabilities(model: np.ndarray, feature: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(model[0] + model[1] * feature)))


@client.train()
def train(message: Message, context: Context) -> Message:
    """Some steps of gradient descent on the site's rows."""
    y_true, feature = rows_of(context)
    model = message.content["arrays"]["model"].numpy()
    for _ in range(20):
        error = probabilities(model, feature) - y_true
        model = model - context.run_config["learning-rate"] * np.array([error.mean(), (error * feature).mean()]) / 4
    content = {
        "arrays": ArrayRecord({"model": Array(model)}),
        "metrics": MetricRecord({"num-examples": len(y_true)}),
    }
    return Message(RecordDict(content), reply_to=message)


@client.evaluate()
def judge(message: Message, context: Context) -> Message:
    """Score the site's rows with the shared model, keep the scores, and tell the site's own AUC: the usual way."""
    y_true, feature = rows_of(context)
    scores = probabilities(message.content["arrays"]["model"].numpy(), feature)
    context.state["scores"] = ArrayRecord({"y_score": Array(scores)})
    both = 0 < y_true.sum() < len(y_true)  # else this site has no AUC, and cannot count
    told = {"auc": roc_auc_score(y_true, scores) if both else 0.5, "num-examples": len(y_true) if both else 0}
    return Message(RecordDict({"metrics": MetricRecord(told)}), reply_to=message)


@client.query("fhe_auc")
def take_part(message: Message, context: Context) -> Message:
    """The site's part in the encrypted evaluation, on the scores that it has kept."""
    y_true, _ = rows_of(context)
    scores = context.state["scores"]["y_score"].numpy()
    return answer(message, context, rows=lambda name, analysis: PartyData.from_arrays(name, y_true, scores))


@server.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = FedAvg()
    start = ArrayRecord({"model": Array(np.array([0.0, 1.0]))})
    trained = strategy.start(grid, start, num_rounds=config["num-server-rounds"])

    averaged = trained.evaluate_metrics_clientapp[config["num-server-rounds"]]["auc"]
    Path(config["average"]).write_text(json.dumps(averaged))

    record = evaluate(grid, config)  # in place of the average: one AUC over all rows, which the sites learn
    print(f"encrypted evaluation of {len(record.counted)} sites, {len(record.missing)} missing")
