"""The client's part: an executor that answers as a site or a helper, and writes the result down there.

The configuration is the site's own: ``local/fhe-auc/NAME.toml`` in its FLARE workspace, NAME being the client's. No job
brings or changes one.
"""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fhe_auc import site_role
from fhe_auc.analysis import Analysis
from fhe_auc.cli.session import read_config
from fhe_auc.counts import PartyData
from fhe_auc.errors import FheAucError, MessageError
from fhe_auc.flare import MESSAGE, REFUSED
from fhe_auc.logs import RoleLog


class SessionExecutor(Executor):  # type: ignore[misc] # FLARE has no types
    """Answers a session's messages; a subclass whose rows are no file overrides `rows`."""

    def rows(self, name: str, analysis: Analysis) -> PartyData | None:
        """Return the rows of the site of that name for an analysis; None: those in its file, as configured."""
        return None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Return a submission; or an error that tells the kind of what went wrong, with the rest in the site's log."""
        log = RoleLog()
        try:
            message = shareable.get(MESSAGE)
            if not isinstance(message, bytes):
                raise MessageError("not a message of a session", field="format")
            config = read_config(site_file(fl_ctx), site_role.ENTRIES)
            own = None if type(self).rows is SessionExecutor.rows else self.rows
            submission, _ = site_role.answer(config, message, own, log=log)
            return Shareable({MESSAGE: submission})
        except Exception as error:  # whatever it is, its text may hold what must stay at the site
            text = str(error) if isinstance(error, (FheAucError, OSError)) else ""
            log.error("not answered: %s %s", type(error).__name__, text)
            reply = make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
            reply[REFUSED] = type(error).__name__
            return reply


def site_file(fl_ctx: FLContext) -> Path:
    """Return the configuration of the site whose client this is."""
    return Path(
        fl_ctx.get_engine().get_workspace().get_site_config_dir(), "fhe-auc", f"{fl_ctx.get_identity_name()}.toml"
    )
