"""Messages of a session in Flower's records: one array of bytes, which Flower sends once to all who get the same."""

from flwr.app import Array, ArrayRecord, Message, RecordDict

from fhe_auc.base.errors import MessageError

MESSAGE_TYPE = "query.fhe_auc"
"""Flower's type of all messages of a session; a ClientApp answers it in ``@app.query("fhe_auc")``."""

REFUSED = 101
"""Flower error code of a site that could not answer; the reason is the error's type, never its text."""

_RECORD, _ARRAY = "fhe-auc", "message"


def packed(message: bytes) -> RecordDict:
    """Return a session's message as a record."""
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: Array("uint8", (len(message),), "fhe-auc", message)})})


def unpacked(message: Message) -> bytes:
    """Return the session's message that Flower has carried; raise `MessageError` where it is something else."""
    try:
        return bytes(message.content.array_records[_RECORD][_ARRAY].data)
    except (KeyError, ValueError):
        raise MessageError("not a message of a session", field="format") from None
