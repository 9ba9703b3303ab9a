"""The client that goes out: it sends what it is given, to nobody whom it should not."""

import asyncio
import gc
import ssl
import subprocess
import sys

import httpcore
import orjson
import pytest

from comity.http.client import GuardedHttp, HttpResponse
from comity.wire.errors import NoAnswerError, TargetRefusedError, UnreachableError, UnusableAnswerError
from tests.certificates import self_signed
from tests.http.local_server import reply, serving

pytestmark = pytest.mark.usefixtures("patience")

PUBLIC = "93.184.216.34"


def resolving(*answers):
    """A resolver that gives each answer once, the last one for ever, and counts how often it is asked."""
    left = list(answers)

    async def resolve(host, port):
        resolve.asked.append((host, port))
        return left.pop(0) if len(left) > 1 else left[0]

    resolve.asked = []
    return resolve


@pytest.fixture
async def client():
    http = GuardedHttp(allow_loopback=True, timeout=5)
    yield http
    await http.aclose()


async def test_a_request_carries_its_body_and_the_answer_comes_back(client):
    async with serving(lambda _: reply(b'{"a":1}', headers="X-Thing: y\r\n")) as server:
        answer = await client.request("POST", server.url("/x?y=1"), {"é": 1}, {"X-Mine": "z"})
    assert answer == HttpResponse(200, {"content-length": "7", "x-thing": "y"}, b'{"a":1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /x?y=1 http/1.1"
    assert f"host: 127.0.0.1:{server.port}".encode() in lines
    assert b"content-type: application/json" in lines
    assert b"accept-encoding: identity" in lines
    assert b"x-mine: z" in lines
    assert orjson.loads(body) == {"é": 1}


async def test_bytes_are_sent_as_they_are(client):
    async with serving(lambda _: reply()) as server:
        await client.request("POST", server.url(), body=b'{ "spaces" : 1 }')
    assert server.requests[0].endswith(b'\r\n\r\n{ "spaces" : 1 }')


async def test_a_get_has_no_body(client):
    async with serving(lambda _: reply()) as server:
        await client.request("GET", server.url())
    assert b"content-type" not in server.requests[0].lower()


async def test_json_is_posted_as_it_is_written(client):
    async with serving(lambda _: reply()) as server:
        await client.request("POST", server.url(), [1])
    assert server.requests[0].startswith(b"POST / ")
    assert server.requests[0].endswith(b"\r\n\r\n[1]")


async def test_one_connection_serves_many_requests(client):
    async with serving(lambda _: reply()) as server:
        for _ in range(3):
            await client.request("GET", server.url())
        assert server.connections == 1


async def test_a_redirect_is_an_answer_and_is_not_followed(client):
    moved = reply(b"", "307 Temporary Redirect", "location: http://169.254.169.254/\r\n")
    async with serving(lambda _: moved) as server:
        answer = await client.request("POST", server.url(), {})
    assert answer.status == 307
    assert len(server.requests) == 1


async def test_a_cookie_is_not_kept(client):
    async with serving(lambda _: reply(headers="set-cookie: a=b\r\n")) as server:
        await client.request("GET", server.url())
        await client.request("GET", server.url())
    assert b"cookie" not in server.requests[1].lower()


async def test_a_proxy_of_the_environment_is_not_used(client, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    async with serving(lambda _: reply()) as server:
        assert (await client.request("GET", server.url())).status == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://0.0.0.0:8080/",
        "http://[::]:8080/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:127.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
    ],
)
async def test_an_address_that_is_not_public_is_refused_in_every_spelling(url):
    async def nobody(host, port):
        raise AssertionError("an address is not looked up")

    with pytest.raises(TargetRefusedError):
        await GuardedHttp(resolve=nobody).request("GET", url)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.0.0.1"],
        ["fe80::1%eth0"],
        ["::ffff:10.0.0.1"],
        [PUBLIC, "127.0.0.1"],
        ["10.0.0.1", PUBLIC],
        [PUBLIC, PUBLIC, PUBLIC, PUBLIC, PUBLIC, "169.254.169.254"],
        ["2606:4700::1111", "fd00::1"],
        ["not an address"],
    ],
)
async def test_a_name_with_one_bad_address_is_refused(addresses):
    with pytest.raises(TargetRefusedError, match=r"a\.example is at"):
        await GuardedHttp(resolve=resolving(addresses)).request("GET", "http://a.example/")


async def test_the_refusal_does_not_tell_the_address():
    with pytest.raises(TargetRefusedError) as refusal:
        await GuardedHttp(resolve=resolving(["10.77.0.1"])).request("GET", "http://a.example/")
    assert "10.77" not in refusal.value.message


async def test_the_address_that_was_checked_is_the_one_that_is_dialled(monkeypatch):
    """A name that changes its address after the check leads nowhere else."""
    dialled = []
    connect = httpcore.AnyIOBackend.connect_tcp

    async def redirected(self, host, port, *args):
        dialled.append(host)
        return await connect(self, "127.0.0.1", port, *args)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", redirected)
    resolve = resolving([PUBLIC], ["127.0.0.1"])
    http = GuardedHttp(resolve=resolve)
    async with serving(lambda _: reply()) as server:
        url = server.url(host="a.example")
        await http.request("GET", url)
        await http.request("GET", url)
        assert dialled == [PUBLIC]
        assert resolve.asked == [("a.example", server.port)]
        assert f"host: a.example:{server.port}".encode() in server.requests[0].lower()
        await http.aclose()
        with pytest.raises(TargetRefusedError):  # a new connection is judged anew
            await http.request("GET", url)
    assert dialled == [PUBLIC]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1", "127.0.0.3"]],
)
async def test_the_next_address_is_tried_when_one_does_not_answer(addresses):
    http = GuardedHttp(allow=["a.example"], resolve=resolving(addresses))
    async with serving(lambda _: reply()) as server:
        assert (await http.request("GET", server.url(host="a.example"))).status == 200
    await http.aclose()


async def test_an_allowed_name_may_be_on_this_machine():
    http = GuardedHttp(allow=["a.example"], resolve=resolving(["127.0.0.1"]))
    async with serving(lambda _: reply()) as server:
        assert (await http.request("GET", server.url(host="a.example"))).status == 200
        with pytest.raises(TargetRefusedError):
            await http.request("GET", server.url(host="b.example"))
    await http.aclose()


async def test_a_name_without_an_address_is_unreachable():
    with pytest.raises(UnreachableError, match="no address"):
        await GuardedHttp(resolve=resolving([])).request("GET", "http://a.example/")


async def test_a_name_that_the_system_does_not_know_is_unreachable(monkeypatch):
    async def unknown(*args, **kwargs):
        raise OSError(-2, "internal words")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(UnreachableError, match=r"a\.example cannot be resolved") as refusal:
        await GuardedHttp().request("GET", "http://a.example/")
    assert "internal words" not in refusal.value.message


async def test_the_system_resolver_finds_this_machine(client):
    async with serving(lambda _: reply()) as server:
        assert (await client.request("GET", server.url(host="localhost"))).status == 200


async def test_a_closed_port_is_unreachable(client):
    async with serving(lambda _: reply()) as server:
        url = server.url()
    with pytest.raises(UnreachableError, match="could not be reached"):
        await client.request("GET", url)


async def test_a_server_that_hangs_up_gives_no_answer(client):
    async with serving(lambda _: None) as server:
        with pytest.raises(NoAnswerError, match="broke before the answer was complete"):
            await client.request("POST", server.url(), {})


async def test_half_an_answer_is_no_answer(client):
    async def cut_short(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"123456")[:-3])
        await writer.drain()

    async with serving(cut_short) as server:
        with pytest.raises(NoAnswerError, match="broke"):
            await client.request("GET", server.url())


async def test_something_that_is_not_http_gives_no_answer(client):
    async with serving(lambda _: b"SSH-2.0-thing\r\n\r\n") as server:
        with pytest.raises(NoAnswerError):
            await client.request("GET", server.url())


async def test_a_silent_server_gives_no_answer_in_time():
    async def silent(reader, writer):
        await reader.read()

    http = GuardedHttp(allow_loopback=True, timeout=0.05)
    async with serving(silent) as server:
        with pytest.raises(NoAnswerError, match=r"within 0\.05 seconds"):
            await http.request("GET", server.url())
    await http.aclose()


async def test_a_server_that_drips_does_not_outlast_the_timeout():
    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)

    http = GuardedHttp(allow_loopback=True, timeout=0.1)
    async with serving(drip) as server:
        with pytest.raises(NoAnswerError, match="within"):
            await http.request("GET", server.url())
    await http.aclose()


async def test_an_answer_up_to_the_limit_is_read():
    http = GuardedHttp(allow_loopback=True, answer_limit=1000)
    async with serving(lambda _: reply(b"x" * 1000)) as server:
        assert len((await http.request("GET", server.url())).body) == 1000
    await http.aclose()


async def test_an_answer_that_announces_too_much_is_not_read():
    async def announce(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n")
        await writer.drain()
        await reader.read()

    http = GuardedHttp(allow_loopback=True, answer_limit=1000)
    async with serving(announce) as server:
        with pytest.raises(UnusableAnswerError, match="limit of 1,000 bytes"):
            await http.request("GET", server.url())
    await http.aclose()


async def test_an_endless_answer_is_dropped_at_the_limit():
    written = 0

    async def endless(reader, writer):
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
            written += 0x1000
            await writer.drain()
            await asyncio.sleep(0)

    http = GuardedHttp(allow_loopback=True, answer_limit=100_000)
    async with serving(endless) as server:
        with pytest.raises(UnusableAnswerError, match="100,000"):
            await http.request("GET", server.url())
    await http.aclose()
    assert written < 50_000_000


async def test_a_compressed_answer_is_not_unpacked(client):
    async with serving(lambda _: reply(b"xx", headers="content-encoding: gzip\r\n")) as server:
        with pytest.raises(UnusableAnswerError, match="compressed"):
            await client.request("GET", server.url())


async def test_the_client_works_on_after_a_failure(client):
    answers = [None, reply(b"1")]
    async with serving(lambda _: answers.pop(0)) as server:
        with pytest.raises(NoAnswerError):
            await client.request("GET", server.url())
        assert (await client.request("GET", server.url())).body == b"1"


async def test_a_cancelled_request_leaves_no_connection_behind(client):
    seen = asyncio.Event()
    gone = asyncio.Event()

    async def silent(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        seen.set()
        await reader.read()
        gone.set()

    async with serving(silent) as server:
        request = asyncio.create_task(client.request("GET", server.url()))
        await seen.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await gone.wait()


def test_a_client_that_nobody_closes_is_closed_with_its_loop():
    http = GuardedHttp(allow_loopback=True)

    async def talk():
        async with serving(lambda _: reply()) as server:
            return (await http.request("GET", server.url())).status

    assert [asyncio.run(talk()) for _ in range(2)] == [200, 200]
    gc.collect()  # an open socket would complain here, and complaints are errors


def test_the_http_library_is_loaded_with_the_first_request():
    program = (
        "import sys, comity.http.client as g\n"
        "g.GuardedHttp()\n"
        "assert not {'httpcore', 'anyio', 'h11'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """For a.example, signed by nobody but itself."""
    _, certificate, key = self_signed("a.example")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(key + certificate)
    return file


@pytest.fixture
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(certificate, server_tls):
    trusting = ssl.create_default_context(cafile=str(certificate))
    http = GuardedHttp(allow_loopback=True, resolve=resolving(["127.0.0.1"]), tls=trusting)
    async with serving(lambda _: reply(), tls=server_tls) as server:
        assert (await http.request("GET", server.url(host="a.example", scheme="https"))).status == 200
        # the same address, and an open connection to it: still not the name that was proven
        with pytest.raises(UnreachableError, match="its certificate is not valid for"):
            await http.request("GET", server.url(host="b.example", scheme="https"))
    await http.aclose()


async def test_a_certificate_that_nobody_vouches_for_is_refused(server_tls):
    http = GuardedHttp(allow_loopback=True, resolve=resolving(["127.0.0.1"]))
    async with serving(lambda _: reply(), tls=server_tls) as server:
        with pytest.raises(UnreachableError, match="certificate is not valid"):
            await http.request("GET", server.url(host="a.example", scheme="https"))
    await http.aclose()


async def test_a_server_without_tls_is_told_from_one_that_is_away(client):
    async def plain(reader, writer):
        await reader.read(1)
        writer.write(reply())
        await writer.drain()

    async with serving(plain) as server:
        with pytest.raises(UnreachableError, match="does not speak TLS"):
            await client.request("GET", server.url(scheme="https"))


async def test_a_handshake_that_never_ends_is_given_up_and_leaves_no_connection_behind():
    gone = asyncio.Event()

    async def silent(reader, writer):
        await reader.read()
        gone.set()

    http = GuardedHttp(allow_loopback=True, timeout=0.1)
    async with serving(silent) as server:
        with pytest.raises((UnreachableError, NoAnswerError)):
            await http.request("GET", server.url(scheme="https"))
        await gone.wait()
    await http.aclose()


async def test_a_request_cancelled_in_its_handshake_leaves_no_connection_behind(client):
    greeted, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader, writer):
        await reader.read(1)
        greeted.set()
        await reader.read()
        gone.set()

    async with serving(silent) as server:
        request = asyncio.create_task(client.request("GET", server.url(scheme="https")))
        await greeted.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await gone.wait()


async def test_a_name_that_is_never_resolved_is_given_up():
    async def never(host, port):
        await asyncio.Event().wait()

    with pytest.raises(UnreachableError):
        await GuardedHttp(resolve=never, timeout=0.1).request("GET", "http://a.example/")
