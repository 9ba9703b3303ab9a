"""Reading strict JSON and writing the form that is signed, on one message of 1.2 KB."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from bench.harness.measure import computing
from bench.harness.row import Contender, Row, Setting, Unit
from bench.rows.messages import CARRIER, SIGNED_FIELDS
from comity.wire import canonical, strict_json

DATA = strict_json.dumps(CARRIER)


@contextlib.contextmanager
def open_read(setting: Setting) -> Iterator[Sequence[Contender]]:
    yield _agreeing(
        setting.seconds,
        {
            "comity strict_json": lambda: strict_json.loads(DATA),
            "orjson": lambda: orjson.loads(DATA),
            "json": lambda: json.loads(DATA),
        },
    )


@contextlib.contextmanager
def open_read_signed(setting: Setting) -> Iterator[Sequence[Contender]]:
    yield _agreeing(
        setting.seconds,
        {
            "comity strict_json": lambda: strict_json.loads(DATA, unique_keys=True),
            "orjson, keys unchecked": lambda: orjson.loads(DATA),
            "json with a hook": lambda: json.loads(DATA, object_pairs_hook=_unique),
        },
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


@contextlib.contextmanager
def open_canonical(setting: Setting) -> Iterator[Sequence[Contender]]:
    yield _agreeing(
        setting.seconds,
        {
            "comity envelope_form": lambda: canonical.envelope_form(SIGNED_FIELDS),
            "json, sorted keys": lambda: json.dumps(
                SIGNED_FIELDS, sort_keys=True, separators=(",", ":"), ensure_ascii=False
            ).encode(),
        },
    )


def _agreeing(seconds: float, works: dict[str, Callable[[], object]]) -> Sequence[Contender]:
    """Contenders that give the same answer: speed is compared among equals only."""
    answers = [work() for work in works.values()]
    if any(answer != answers[0] for answer in answers):
        raise ValueError(f"{', '.join(works)} do not give the same answer")
    return [computing(name, work, seconds) for name, work in works.items()]


ROWS = (
    Row(name="json-read", title="strict JSON read, 1.2 KB", unit=Unit.PROCESSOR_RATE, open=open_read),
    Row(
        name="json-read-signed",
        title="the same where a repeated key must be noticed",
        unit=Unit.PROCESSOR_RATE,
        open=open_read_signed,
    ),
    Row(
        name="canonical",
        title="the form that is signed, 0.8 KB",
        unit=Unit.PROCESSOR_RATE,
        open=open_canonical,
    ),
)
