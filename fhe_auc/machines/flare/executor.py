"""The client's part: it answers as ``local/fhe-auc/NAME.toml`` of its FLARE workspace says, NAME being the client's."""

from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fhe_auc.base.files import read_config
from fhe_auc.base.logs import LOGGER, RoleLog, write_to_stderr
from fhe_auc.machines.flare import MESSAGE, REFUSED
from fhe_auc.machines.site_role import ENTRIES, Answer, answer, attempt


class SessionExecutor(Executor):  # type: ignore[misc] # FLARE has no types
    """Answers a session's messages."""

    rows = None
    """In a subclass a method: returns the rows in place of the site's file, as `site_role.answer` takes it."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Return a submission; or an error that tells the kind of what went wrong, with the rest in the site's log."""

        def answered(log: RoleLog) -> Answer:
            write_to_stderr()
            folder = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir(), "fhe-auc")
            config = read_config(folder / f"{fl_ctx.get_identity_name()}.toml", ENTRIES)
            return answer(config, shareable[MESSAGE], self.rows, log=log)

        LOGGER.propagate = False  # into FLARE's own logs, which it streams to the server, and its administrators read
        submission, kind = attempt(answered)
        if submission is not None:
            return Shareable({MESSAGE: submission})
        reply = make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
        reply[REFUSED] = kind
        return reply
