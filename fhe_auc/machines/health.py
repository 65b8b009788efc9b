"""Whether all is well at a role: what somebody has to look at, whom it is about, and since when; for alarms, too.

What is wrong with a session is told until it is mended there, the session is gone from the exchange, or a later session
of the same study, by the same maker, has a result here: a later one that fails, too, hides nothing. Where a session was
refused, it is enough that this role has answered a later one. What others have replaced is told in any session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import InputError
from fhe_auc.base.logs import one_line
from fhe_auc.session import journal

_STALE = 600.0  # seconds: when it is too long ago that a process has said that it looks
_ONCE_STALE = 86_400.0  # where looks are a command of their own


class Problem(NamedTuple):
    """Something that somebody has to look at.

    `rule` is what kind of thing it is, one of these:

    - "role": the role's own configuration, key store, exchange or disk is at fault;
    - "restored": its key store was put back to an older one, and no session has ended since;
    - "refused": a session has come that this role takes no part in;
    - "failed": a session has failed, or its round has;
    - "no result": a session has ended here without one;
    - "not counted": a site is not in the last result;
    - "replaced": what this role has written was changed in the exchange, and is put back;
    - "skipped": a file does not count, and stays as it is;
    - "clock": a member's clock is more than ten minutes off this one's, by what it has signed last;
    - "members": a list of members in the exchange is none, or there are two of one version, or theirs ends soon;
    - "columns": the site's file of rows has not the columns that it should have;
    - "row caps": they miss some of the session's sites;
    - "result": the command that takes results has failed;
    - "repeat": a study's session that this site should make could not be made, or has no result;
    - "old": the last result is older than it should be.
    """

    rule: str
    what: str
    who: str = ""  # a member, or ""
    session: str = ""  # its id, or ""


class Health:
    """The problems that a role has seen at its last look."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._since: dict[tuple[str, str, str], str] = {}
        self.problems: tuple[Problem, ...] = ()

    def see(self, problems: Iterable[Problem]) -> None:
        """Take in what is wrong now; what is not in it is mended."""
        self.problems = tuple(dict.fromkeys(problems))
        now, before = self._clock.told(), self._since
        self._since = {_about(problem): before.get(_about(problem), now) for problem in self.problems}

    @property
    def line(self) -> str:
        """What is wrong in a line; "ok" where nothing is."""
        told = [": ".join(filter(None, (problem.session[:8], problem.who, problem.what))) for problem in self.problems]
        return one_line("; ".join(told)) or "ok"

    def told(self) -> list[dict[str, str]]:
        """Return the problems for the status."""
        return [
            {name: one_line(text) for name, text in problem._asdict().items()} | {"since": self._since[_about(problem)]}
            for problem in self.problems
        ]


def _about(problem: Problem) -> tuple[str, str, str]:
    return problem.rule, problem.who, problem.session


def metrics(status: Mapping[str, Any]) -> str:
    """Return a status (of `serve`) in Prometheus's text format; times are Unix seconds."""
    role = {"role": status["role"], "name": status["name"]}
    problems = [
        ({name: each[name] for name in ("rule", "who", "session")}, _seconds(each["since"]))
        for each in status["problems"]
    ]
    awaited = [
        ({"session": each["session"], "who": who}, _seconds(since))
        for each in status["sessions"]
        for who, since in each["awaited"].items()
    ]
    families: list[tuple[str, str, Sequence[tuple[Mapping[str, str], float]]]] = [
        ("healthy", "1 if nobody has to look at this role.", [({}, float(status["health"] == "ok"))]),
        ("look_timestamp_seconds", "When the role has looked last.", [({}, _seconds(status["look"]))]),
        ("replaced_total", "Files of this role that others have changed.", [({}, status["replaced"])]),
        ("problem_since_timestamp_seconds", "What somebody has to look at, and since when.", problems),
        ("awaited_since_timestamp_seconds", "Who is awaited in a session, and since when.", awaited),
    ]
    if status["result"]:
        families.append(("result_timestamp_seconds", "When the last result came.", [({}, _seconds(status["result"]))]))
    lines = []
    for name, help_text, samples in families:
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP fhe_auc_{name} {help_text}", f"# TYPE fhe_auc_{name} {kind}"]
        series = {_labels({**role, **labels}): value for labels, value in samples}  # one of each: else all is refused
        lines += [f"fhe_auc_{name}{{{labels}}} {value:.15g}" for labels, value in series.items()]
    return "\n".join(lines) + "\n"


def read_role(config: Mapping[str, Any], clock: Clock = SYSTEM) -> tuple[dict[str, Any], str]:
    """Return the status that a server has written last, and what is wrong with it: "" if all is well."""
    if not config.get("state"):
        raise InputError("state is not configured")
    folder = Path(str(config["state"]))
    told = journal.read_status(folder)
    once = told is not None and told["once"]
    if not once and not journal.is_running(folder):
        return told or {}, "it does not run: start `fhe-auc serve`"
    if told is None:
        return {}, f"it runs, but no status can be read or written in {str(folder)!r} (a full disk?): see its log"
    ago = (clock.now() - datetime.fromisoformat(told["look"])).total_seconds()
    if abs(ago) > (_ONCE_STALE if once else _STALE):
        return told, f"it has not looked for {ago:.0f} s: see its log"
    return told, "" if told["health"] == "ok" else told["health"]


def _seconds(told: str) -> float:
    return datetime.fromisoformat(told).timestamp()


def _labels(labels: Mapping[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
