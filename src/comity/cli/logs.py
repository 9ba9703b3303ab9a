"""Where log lines go while a node runs: stderr, for people or, with `log_json`, one JSON object each."""

import json
import logging
from datetime import UTC, datetime

from comity.config import LogLevel

_TALKATIVE = ("asyncio",)  # it tells of itself what the node says better


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def write_logs(level: LogLevel, *, as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
