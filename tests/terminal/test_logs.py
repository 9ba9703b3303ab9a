import json
import sys

SPEAK = """
import logging, sys
from comity.terminal.logs import write_logs
write_logs(sys.argv[1], as_json=sys.argv[2] == "json")
logging.getLogger("comity.walk").debug("quiet %s", 1)
logging.getLogger("comity.walk").warning("loud\\n%s", 2)
logging.getLogger("asyncio").info("about myself")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("comity.walk").exception("broken")
"""


def speak(program, level, form):
    outcome = program(level, form, python=[sys.executable, "-c", SPEAK])
    assert outcome.code == 0
    assert outcome.out == ""
    return outcome.err


def test_json_logs_are_one_object_per_line_tracebacks_included(program):
    lines = [json.loads(line) for line in speak(program, "info", "json").splitlines()]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("warning", "comity.walk", "loud\n2"),
        ("error", "comity.walk", "broken"),
    ]
    assert "ZeroDivisionError" in lines[1]["traceback"]
    assert lines[0]["at"].endswith("+00:00")


def test_plain_logs_follow_the_level(program):
    assert "quiet" not in speak(program, "info", "plain")
    everything = speak(program, "debug", "plain")
    assert "DEBUG comity.walk: quiet 1" in everything
    assert "about myself" in everything
    assert "broken" not in speak(program, "critical", "plain")
