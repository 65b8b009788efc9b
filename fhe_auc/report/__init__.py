"""The report card of a classifier: one page for people, the same content as JSON for programs, and its figures.

>>> import datetime
>>> from fhe_auc.metrics.histogram import Histogram
>>> card = report_card(Histogram([0, 0.5, 1], [1, 3], [4, 2]))
>>> day = datetime.date(2026, 11, 23)
>>> facts = Facts(title="Two bins", date=day, privacy="Made-up counts.", session={"parties": 1})
>>> as_dict([card], facts)["metrics"]["roc_auc"]["value"]
0.7083333333333334
>>> render([card], facts).startswith("<!DOCTYPE html>")
True
"""

from fhe_auc.figures.report_card import draw as draw
from fhe_auc.report.from_rows import federated_report as federated_report
from fhe_auc.report.from_rows import report_of as report_of
from fhe_auc.report.page import FILES as FILES
from fhe_auc.report.page import render as render
from fhe_auc.report.page import save as save
from fhe_auc.report.report import Report as Report
from fhe_auc.results.asked import ReportAsked as ReportAsked
from fhe_auc.results.decisions import Decision as Decision
from fhe_auc.results.report_card import Facts as Facts
from fhe_auc.results.report_card import ReportCard as ReportCard
from fhe_auc.results.report_card import report_card as report_card
from fhe_auc.results.report_json import as_dict as as_dict
