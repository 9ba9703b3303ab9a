"""The directory over HTTP (envelope 4): publish, read a card, search, events, lineage.

All of it is public, that is, it needs no token of this node: a publication is proven by its signature,
and reads are open, except for what is hidden (see `comity.directory.reading`). The guard's
budget stands in front of everything. Every refusal is a status and `{"detail": sentence}`.
"""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.routing import BaseRoute, Route

from comity.directory.publish import PublishHandler, read_publication
from comity.directory.reading import DirectoryQuery, DirectoryReadHandler, DirectoryReads
from comity.http.asgi import Endpoint, Receive, Scope, Take, header, read_json_body
from comity.http.guard import caller_of
from comity.requests.budget import Quota
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Store
from comity.wire import strict_json
from comity.wire.errors import MalformedError
from comity.wire.machine import Clock

PUBLISH_PATH = "/v1/halo"
QUERY_PATH = "/v1/query_capability"
CARD_PREFIX = "/v1/capability_card/"
EVENT_LOG_PREFIX = "/v1/event_log/"
EVENT_PREFIX = "/v1/event/"
LINEAGE_PREFIX = "/v1/lineage/"
REVOCATIONS_PATH = "/v1/revocation_list"

DIRECTORY_PUBLIC_PATHS = frozenset({PUBLISH_PATH, QUERY_PATH, REVOCATIONS_PATH})
DIRECTORY_PUBLIC_PREFIXES = (CARD_PREFIX, EVENT_LOG_PREFIX, EVENT_PREFIX, LINEAGE_PREFIX)

_BODY_LIMIT = 1_048_576
_PARAMETERS = 32


def directory_routes(
    *,
    pipeline: Pipeline,
    store: Store,
    clock: Clock,
    body_limit: int = _BODY_LIMIT,
    quota: Quota | None = None,
) -> list[BaseRoute]:
    reads = DirectoryReads(store, clock)
    endpoint = partial(Endpoint, feature="directory", record=pipeline.record)
    return [
        Route(PUBLISH_PATH, endpoint("POST", _publish(pipeline, PublishHandler(store, quota), body_limit))),
        Route(QUERY_PATH, endpoint("POST", _read(pipeline, reads.query))),
        Route(CARD_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.card))),
        Route(EVENT_LOG_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.event_log))),
        Route(EVENT_PREFIX + "{seq}", endpoint("GET", _read(pipeline, reads.event))),
        Route(LINEAGE_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.lineage))),
        Route(REVOCATIONS_PATH, endpoint("GET", _read(pipeline, reads.revocations))),
    ]


def _publish(pipeline: Pipeline, handler: PublishHandler, body_limit: int) -> Take:
    async def take(scope: Scope, receive: Receive) -> Any:
        body = await read_json_body(scope, receive, body_limit, "a publication")
        publication = read_publication(strict_json.loads(body, unique_keys=True))
        request = Request(door="directory", caller=caller_of(scope), body=publication, size=len(body))
        return await pipeline.run(handler, request)

    return take


def _read(pipeline: Pipeline, handler: DirectoryReadHandler) -> Take:
    async def take(scope: Scope, _receive: Receive) -> Any:
        question = DirectoryQuery(
            host=header(scope, b"host") or "",
            path=scope["path"],
            query=_query(scope["query_string"]),
            subject=next(iter(scope["path_params"].values()), None),
        )
        return await pipeline.run(handler, Request(door="directory", caller=caller_of(scope), body=question))

    return take


def _query(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS
        )
    except ValueError as reason:  # not ASCII, not UTF-8 behind the escapes, or too many
        raise MalformedError(
            f"the query is not up to {_PARAMETERS} parameters in UTF-8, percent-encoded"
        ) from reason
    query = dict(pairs)
    if len(query) != len(pairs):
        raise MalformedError("a query parameter comes twice; send each once")
    return query
