"""`Report`: the report card of one or two models, with what the page says of the sessions that it comes from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.base.errors import InputError
from fhe_auc.report.page import render, save
from fhe_auc.report.steps import report_steps, told_by
from fhe_auc.results import result_file
from fhe_auc.results.asked import Asked
from fhe_auc.results.evaluation import Outcome, framed
from fhe_auc.results.report_card import Facts, ReportCard
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_lines import COLUMNS, as_csv, report_lines
from fhe_auc.results.result_tables import (
    ends,
    notebook_html,
    of_comparisons,
    of_estimates,
    of_groups,
    of_measures,
    of_net_benefits,
    of_sites,
)

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Report:
    """The report card of a classifier, or of two, with what the page says of the session.

    Attributes
    ----------
    card : ReportCard
        All numbers and curves of the first model, or the only one.
    facts : Facts
        Title, date, warnings, groups, sites, a second model, what the session has cost and revealed to whom.
    own_warnings : tuple of str
        Warnings about single parties. They name the parties and small numbers, and are not for readers of the page.
    """

    card: ReportCard
    facts: Facts
    own_warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Asked, outcomes: Sequence[Outcome]) -> Report:
        """Return the report of what the sessions have yielded, in their order (`fhe_auc.report.steps.next_step`).

        Raises `InputError` where they are not those of the question, or not all; errors as `federated_report`.
        """
        return cls(*told_by(report_steps(asked), outcomes))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Return the report of a result that a site has written, whoever has signed it: `fhe-auc check` shows that.

        It is dated as that. Raises `InputError` where it is none of a report's last session, and the site's error where
        that has no result.
        """
        found = result_file.read(path)
        if (asked := found.asked) is None or asked.report is None:
            raise InputError(f"result {os.fspath(path)!r} is none of a report: its session's study asked for none")
        found.outcome  # noqa: B018 - raises where there is none
        made = cls.of(asked, found.outcomes)
        session = {**made.facts.session, "fhe-auc": found.version}
        return replace(made, facts=replace(made.facts, date=found.time.date(), session=session))

    @property
    def cards(self) -> dict[str, ReportCard]:
        """The card of each model by its name, which is empty where there is one model; figures show them all."""
        return {card.model: card for card in self.facts.cards(self.card)}

    @property
    def auc(self) -> float:
        """AUC of the first model, or the only one."""
        return self.card.auc.value

    def __str__(self) -> str:
        """Return one line: title, each model's AUC and interval, number of rows, and share of positive rows."""
        about = "about " if self.card.noisy else ""
        total = f"{about}{self.card.histogram.counts.sum():,.0f} rows, {100 * self.card.prevalence:.3g} % positive"
        aucs = []
        for name, card in self.cards.items():
            interval = card.interval
            within = f" (binning error {card.auc.half_width:.2g})" if card.auc.half_width and not card.noisy else ""
            if interval is not None:
                within = f" ({interval.heading} {ends(interval)}, {interval.method})"
            aucs.append(f"{name} AUC {card.auc.value:.4f}{within}".lstrip())
        return f"{self.facts.title}: {'; '.join(aucs)}; {total}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the line, tables of metrics and groups, sites, warnings; not `own_warnings`."""
        tables = [of_measures(self.cards.values())]
        if models := self.facts.models:
            tables += [of_comparisons([models.comparison])] if models.comparison else []
            tables += [of_net_benefits(models.net_benefits)] if models.net_benefits else []
        if self.facts.groups:
            tables += [of_estimates(self.facts.groups)]
            each_model = ((self.facts.of_model(name), card.level) for name, card in self.cards.items())
            tables += [table for facts, level in each_model for table in of_groups(facts, level)]
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in of_sites(self.facts.sites)),
            *(f"warning: {warning}" for warning in self.facts.warnings),
            "save(folder) writes the page with its figures",
        ]
        return notebook_html(str(self), tables, lines)

    def by_group(self, column: str, model: str | None = None) -> DataFrame:
        """Return a pandas data frame of a column's groups at the threshold, as Fairlearn's ``MetricFrame.by_group``.

        Of the first model, unless one is named. Columns: count and rates, by Fairlearn's names; NaN where a group is
        not shown. `InputError`: no such groups.
        """
        import pandas

        of = self.facts.of_model(self.card.model if model is None else model)
        own = [each for each in of.group_decisions if each.variable == column]
        if not own:
            raise InputError(f"the report has no groups by {column!r} at its threshold")
        return pandas.DataFrame([each.rates() for each in own], pandas.Index([each.level for each in own], name=column))

    def as_dict(self) -> dict[str, Any]:
        """Return the whole content as plain types, ready for ``json.dumps``."""
        return as_dict(self.card, self.facts)

    def html(self) -> str:
        """Return the page as HTML; it needs no network."""
        return render(self.card, self.facts)

    def csv(self) -> str:
        """Return all values as CSV, a line each, with one column that is formatted for a paper."""
        return as_csv(report_lines(self.cards, self.facts))

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame of the same lines and columns (`fhe_auc.results.report_lines`)."""
        return framed(report_lines(self.cards, self.facts), COLUMNS)

    def save(self, folder: str | os.PathLike[str], *, pdf: bool = False) -> list[Path]:
        """Write the page, its JSON, its figures, and a PDF of the page if asked, and return their paths.

        Makes the folder if it does not exist, and overwrites files of the same names. Raises `OSError` where a file
        cannot be written, and `InputError` without matplotlib, or WeasyPrint for a PDF.
        """
        return save(self.card, self.facts, folder, pdf=pdf)
