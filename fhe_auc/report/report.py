"""`Report`: the report card of one or two models, with what the page says of the sessions that it comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.base.errors import InputError
from fhe_auc.report.page import render, save
from fhe_auc.report.steps import report_steps
from fhe_auc.results import result_file
from fhe_auc.results.asked import Asked
from fhe_auc.results.evaluation import Outcome, framed, warnings_text
from fhe_auc.results.report_card import Facts, ReportCard
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_lines import COLUMNS, as_csv, report_lines
from fhe_auc.results.report_tables import of_groups, of_measures, of_net_benefits
from fhe_auc.results.result_tables import ends, notebook_html, of_comparisons, of_estimates, of_sites
from fhe_auc.session.steps import told_by

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Report:
    """The report card of a classifier, or of two, with what the page says of the session.

    Attributes
    ----------
    cards : Mapping of ReportCard
        All numbers and curves of each model by its name, which is empty where there is one; figures show them all.
    facts : Facts
        Title, date, warnings, how two models differ, what the session has cost and revealed to whom.
    own_warnings : tuple of str
        Warnings about single parties. They name the parties and small numbers, and are not for readers of the page.

    Examples
    --------
    >>> from fhe_auc import federated_report
    >>> site = {"died": [0, 1, 0, 1, 0], "risk": [0.1, 0.7, 0.3, 0.6, 0.2]}
    >>> report = federated_report([site] * 3, label="died", score="risk", min_cell=1)
    >>> report.auc
    1.0
    >>> report.to_frame().columns.tolist()[3:7]
    ['measure', 'estimate', 'low', 'high']
    """

    cards: Mapping[str, ReportCard]
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
        found = result_file.read_result(path)
        if (asked := found.asked) is None or asked.report is None:
            raise InputError(f"result {os.fspath(path)!r} is none of a report: its session's study asked for none")
        found.outcome  # noqa: B018 - raises where there is none
        made = cls.of(asked, found.outcomes)
        session = {**made.facts.session, "fhe-auc": found.version}
        return replace(made, facts=replace(made.facts, date=found.time.date(), session=session))

    @property
    def card(self) -> ReportCard:
        """The card of the first model, or the only one."""
        return next(iter(self.cards.values()))

    @property
    def auc(self) -> float:
        """AUC of the first model, or the only one."""
        return self.card.auc.value

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readers ought to know first; `own_warnings` are not for them."""
        return self.facts.warnings

    def __str__(self) -> str:
        """Return one line: title, each model's AUC and interval, number of rows, and share of positive rows."""
        about = "about " if self.card.noisy else ""
        total = f"{about}{self.card.total:,.0f} rows, {100 * self.card.prevalence:.3g} % positive"
        total += ", by weight" * self.card.weighted
        aucs = []
        for name, card in self.cards.items():
            interval = card.interval
            within = f" (binning error {card.auc.half_width:.2g})" if card.auc.half_width and not card.noisy else ""
            if interval is not None:
                method = "" if len(self.cards) > 1 else f", {interval.method}"  # three lines of a terminal are enough
                within = f" ({interval.heading} {ends(interval)}{method})"
            aucs.append(f"{name} AUC {card.auc.value:.4f}{within}".lstrip())
        return f"{self.facts.title}: {'; '.join(aucs)}; {total}{warnings_text(self.warnings)}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the line, tables of metrics and groups, sites, warnings; not `own_warnings`."""
        cards, facts = self.cards.values(), self.facts
        tables = [of_measures(cards)]
        tables += [of_comparisons([facts.comparison])] if facts.comparison else []
        tables += [of_net_benefits(facts.net_benefits)] if facts.net_benefits else []
        if found := facts.bootstrap.differences if facts.bootstrap else ():
            tables += [of_net_benefits(found, "difference by the bootstrap")]
        if groups := [each for card in cards for each in card.groups]:
            tables += [of_estimates(groups)]
            tables += [table for card in cards for table in of_groups(card) if table.rows]
        lines = [
            *([str(facts.weighting["text"])] if facts.weighting else []),
            *(
                f"{label} {value}: {note}"
                for label, value, note in of_sites(card.sites for card in cards if card.sites)
            ),
            *(f"warning: {warning}" for warning in facts.warnings),
            "save(folder) writes the page with its figures",
        ]
        return notebook_html(str(self), tables, lines)

    def by_group(self, column: str, model: str | None = None) -> DataFrame:
        """Return a pandas data frame of a column's groups at the threshold, as Fairlearn's ``MetricFrame.by_group``.

        Of the first model, unless one is named. Columns: count and rates, by Fairlearn's names; NaN where a group is
        not shown. `InputError`: no such groups.
        """
        import pandas

        card = self.cards.get(self.card.model if model is None else model)
        own = [each for each in (card.group_decisions if card else ()) if each.variable == column]
        if not own:
            raise InputError(f"the report has no groups by {column!r} at its threshold")
        return pandas.DataFrame([each.rates() for each in own], pandas.Index([each.level for each in own], name=column))

    def as_dict(self) -> dict[str, Any]:
        """Return the whole content as plain types, ready for ``json.dumps``."""
        return as_dict([*self.cards.values()], self.facts)

    def html(self) -> str:
        """Return the page as HTML; it needs no network."""
        return render([*self.cards.values()], self.facts)

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
        return save([*self.cards.values()], self.facts, folder, pdf=pdf)
