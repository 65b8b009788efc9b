"""From an exception to one line on stderr, with ``--json`` also an object on stdout, and an exit status."""

import traceback

import click

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.cli import output, settings

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


_MEANT = {
    **dict.fromkeys(("--alpha", "--ci", "--level"), "use --interval LEVEL"),
    "--no-interval": "use --interval none",
    "--out": "--json prints everything, and fhe-auc report --table FILE writes CSV",
    "--classes": "fhe-auc evaluate has it",
    "--pdf": "fhe-auc report has it",
    "--roc": "the page of fhe-auc report has the curve",
    "--bins": "use --thresholds EDGES",
    **dict.fromkeys(
        ("--weight-column", "--time-column", "--event-column", "--horizon", "--time-grid"),
        "fhe-auc evaluate and report have it; a calibration map with weights, or at a horizon, is made from the result "
        "file (.json) of a report between machines",
    ),
}
"""What those want who type an option that a command does not have."""


class Interrupted(Exception):
    """The user pressed Ctrl-C."""


def report(error: Exception, *, debug: bool, as_json: bool) -> int:
    """Print a line on stderr (JSON if the log is), with `as_json` an object on stdout too; return the exit status."""
    if debug and not isinstance(error, (Interrupted, click.Abort)):
        traceback.print_exception(type(error), error, error.__traceback__)
    line, status = _describe(error)
    from fhe_auc.base import logs

    if logs.writes_json():
        logs.LOGGER.error(line.removeprefix("error: "))
    else:
        output.print_line(line)
    if as_json:
        output.print_json(as_dict(error))
    return status


def as_dict(error: Exception) -> dict[str, str | int | None]:
    """Return what programs are told: ``error``, the text; ``kind``, its type; and where it is, null if unknown."""
    where = {name: getattr(error, name, None) for name in ("party", "file", "line", "column")}
    return {"error": _describe(error)[0].removeprefix("error: "), "kind": type(error).__name__, **where}


def _describe(error: Exception) -> tuple[str, int]:
    if isinstance(error, (Interrupted, click.Abort)):
        return "interrupted", INTERRUPTED
    if isinstance(error, click.UsageError):
        text = " ".join(error.format_message().split()).rstrip(".")
        if isinstance(error, click.NoSuchOption) and error.option_name in _MEANT:
            text = f"no such option {error.option_name}: {_MEANT[error.option_name]}"
        command = error.ctx.command_path if error.ctx is not None else "fhe-auc"
        return f"error: {text[:1].lower()}{text[1:]}{_origin(error)}; see {command} --help", BAD_INPUT
    if isinstance(error, click.ClickException):
        return f"error: {error.format_message()}", error.exit_code
    if isinstance(error, FheAucError):
        return f"error: {error}", BAD_INPUT if isinstance(error, InputError) else FAILED
    if isinstance(error, MemoryError):
        return "error: not enough memory; take fewer bin edges, or fewer rows at a time", FAILED
    if isinstance(error, OSError):  # a full disk, say: not a bug
        return f"error: {error}", FAILED
    # Not the message: it might quote a party's rows.
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" in {place[0].filename}, line {place[0].lineno}" if place else ""
    return f"internal error: {type(error).__name__}{where} (run with --debug for the traceback)", FAILED


def _origin(error: click.UsageError) -> str:
    """Say where a wrong value comes from, if it was not given."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    place = settings.origin(error.ctx, error.param)
    return "" if place is None else f" (from {place})"
