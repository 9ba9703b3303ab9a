import pytest

from comity.vcp.client_targets import read_target
from comity.wire.errors import TargetRefusedError


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("ws://127.0.0.1:8420/vcp", "ws://127.0.0.1:8420/vcp"),
        ("WS://LOCALHOST:8420", "ws://localhost:8420/vcp"),
        ("ws://127.0.0.1:8420/", "ws://127.0.0.1:8420/"),
        ("ws://[::1]:8420/vcp?x=1", "ws://[::1]:8420/vcp?x=1"),
        ("wss://server.example/vcp", "wss://server.example:443/vcp"),
        ("http://127.0.0.1:8420", "ws://127.0.0.1:8420/vcp"),
        ("http://127.0.0.1:8420/", "ws://127.0.0.1:8420/vcp"),
        ("http://127.0.0.1/vcp", "ws://127.0.0.1:80/vcp"),
        ("https://server.example/node/", "wss://server.example:443/node/vcp"),
        ("https://server.example?x=1", "wss://server.example:443/vcp?x=1"),
        ("tcp://127.0.0.1:8421", "tcp://127.0.0.1:8421"),
        ("tcps://server.example:8421/", "tcps://server.example:8421"),
        ("tcp://[::1]:8421", "tcp://[::1]:8421"),
    ],
)
def test_an_address_is_written_in_one_way(written, spoken):
    assert read_target(written).url == spoken


@pytest.mark.parametrize(
    "written",
    [
        "",
        "127.0.0.1:8420",
        "ftp://127.0.0.1/",
        "ws://",
        "ws://user:secret@127.0.0.1:8420/vcp",
        "ws://127.0.0.1:99999/vcp",
        "ws://127.0.0.1:8420/a b",
        "ws://127.0.0.1:8420/a\nb",
        "ws://0x7f000001:8420/vcp",
        "tcp://127.0.0.1",
        "tcp://[::1]",
        "tcp://127.0.0.1:8421/vcp",
        "tcp://127.0.0.1:8421?x",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_with_a_sentence(written):
    with pytest.raises(TargetRefusedError) as refusal:
        read_target(written)
    assert len(refusal.value.message) > 20
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize(
    ("written", "better"),
    [
        ("ws://server.example/vcp", "wss://"),
        ("http://server.example", "https://"),
        ("tcp://192.0.2.1:8421", "tcps://"),
        ("ws://127.0.0.1.example/vcp", "wss://"),
    ],
)
def test_in_the_clear_we_speak_to_this_machine_only_unless_allowed(written, better):
    with pytest.raises(TargetRefusedError, match=f"use {better}"):
        read_target(written)
    assert not read_target(written, allow_plain=True).secure
