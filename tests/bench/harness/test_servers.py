"""Processes that get ready, that do not, and that are gone afterwards."""

import contextlib
import http.client
import json
import os
import sys

import pytest

from bench.harness.servers import serving

TELLS_ITS_ENVIRONMENT = """
import json, os, signal
print(json.dumps({"url": json.dumps([os.getpid(), "COMITY_DATA" in os.environ])}), flush=True)
signal.pause()
"""


def script(source):
    return [sys.executable, "-c", source]


def test_a_server_runs_while_it_is_measured_and_is_gone_afterwards(tmp_path):
    with serving(script(TELLS_ITS_ENVIRONMENT), tmp_path / "stderr") as told:
        pid, _ = json.loads(told)
        os.kill(pid, 0)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_is_gone_also_when_measuring_it_breaks(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        serving(script(TELLS_ITS_ENVIRONMENT), tmp_path / "stderr") as told,
    ):
        raise ZeroDivisionError

    with pytest.raises(ProcessLookupError):
        os.kill(json.loads(told)[0], 0)


def test_settings_of_whoever_measures_stay_out_of_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("COMITY_DATA", "elsewhere")

    with serving(script(TELLS_ITS_ENVIRONMENT), tmp_path / "stderr") as told:
        assert json.loads(told)[1] is False


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit('the port is taken')",
        "import sys; print('the port is taken', file=sys.stderr); print('hello')",
        "import sys; print('the port is taken', file=sys.stderr); print('{}')",
    ],
    ids=["ends", "says something else", "says too little"],
)
def test_a_server_that_does_not_get_ready_is_told_with_its_last_words(tmp_path, source):
    with (
        pytest.raises(RuntimeError, match="the port is taken"),
        serving(script(source), tmp_path / "stderr"),
    ):
        pass


def test_a_silent_server_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.harness.servers.READY_SECONDS", 0.1)

    with (
        pytest.raises(RuntimeError, match="did not get ready"),
        serving(script("import signal; signal.pause()"), tmp_path / "stderr"),
    ):
        pass


def test_the_bare_echo_answers_with_the_body_it_was_sent(tmp_path):
    with serving([sys.executable, "-m", "bench.baselines.asgi_echo"], tmp_path / "stderr") as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", "/x", b'{"nonce":"1"}')
            answer = connection.getresponse()

            assert answer.status == 200
            assert answer.read() == b'{"nonce":"1"}'
