"""What a client gets of an error. The class of the error states it (`wire/errors.py`)."""

from comity.wire.errors import ComityError, ErrorAnswer


def http_status(error: ComityError) -> int:
    """Give the status of an HTTP answer that carries this error."""
    return _answer_of(error).http_status


def rpc_code(error: ComityError) -> int:
    """Give the code of a JSON-RPC answer that carries this error."""
    return _answer_of(error).rpc_code


def sentence_for_strangers(error: ComityError) -> str:
    """Errors of ours keep their words; what happened inside stays inside."""
    if _answer_of(error).own_words:
        return error.message
    return "this node cannot serve the request right now; its log says why"


def _answer_of(error: ComityError) -> ErrorAnswer:
    return error._answer  # noqa: SLF001 - classes state it; programs that catch an error do not need it
