"""What is measured. Each file holds the rows of one concept; `ROWS` is their order in the table."""

from bench.harness.row import Row
from bench.rows import (
    actions,
    audit,
    chain,
    cold_start,
    consensus,
    contexts,
    envelopes,
    events,
    handshakes,
    hostile,
    http,
    json_forms,
    links,
    mcp,
    receipts,
    rooms,
    rpc_stream,
    signatures,
)

ROWS: tuple[Row, ...] = (
    *cold_start.ROWS,
    *chain.ROWS,
    *audit.ROWS,
    *receipts.ROWS,
    *signatures.ROWS,
    *json_forms.ROWS,
    *rpc_stream.ROWS,
    *http.ROWS,
    *envelopes.ROWS,
    *events.ROWS,
    *handshakes.ROWS,
    *contexts.ROWS,
    *hostile.ROWS,
    *links.ROWS,
    *rooms.ROWS,
    *mcp.ROWS,
    *actions.ROWS,
    *consensus.ROWS,
)
