"""URLs of targets have one spelling and one meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.addresses import HttpUrl, read_url
from comity.wire.errors import TargetRefusedError

READ = [
    ("http://a.example", HttpUrl("http", "a.example", 80, "/")),
    ("https://a.example/a2a/message/send", HttpUrl("https", "a.example", 443, "/a2a/message/send")),
    ("HTTPS://A.Example:8443/X?y=%20z", HttpUrl("https", "a.example", 8443, "/X?y=%20z")),
    ("http://a.example?q=1", HttpUrl("http", "a.example", 80, "/?q=1")),
    ("http://a.example/x#part", HttpUrl("http", "a.example", 80, "/x")),
    ("http://a.example:/x", HttpUrl("http", "a.example", 80, "/x")),
    ("http://a.example./x", HttpUrl("http", "a.example.", 80, "/x")),
    ("http://localhost:65535/", HttpUrl("http", "localhost", 65535, "/")),
    ("http://127.0.0.1:8420/a2a", HttpUrl("http", "127.0.0.1", 8420, "/a2a")),
    ("http://[::1]:8420/a2a", HttpUrl("http", "::1", 8420, "/a2a")),
    ("http://[2606:4700:0:0::1111]/", HttpUrl("http", "2606:4700::1111", 80, "/")),
    ("http://a.example/@x", HttpUrl("http", "a.example", 80, "/@x")),
]

REFUSED = [
    ("", "visible ASCII"),
    ("a.example", "only http"),
    ("//a.example/", "only http"),
    ("ftp://a.example/", "only http"),
    ("file:///etc/passwd", "only http"),
    ("gopher://a.example/", "only http"),
    ("http:a.example", "only http"),
    ("http:/a.example", "only http"),
    ("http://", "names no host"),
    ("http:///x", "names no host"),
    ("http://:80/", "names no host"),
    ("http://user@a.example/", "user or a password"),
    ("http://user:word@a.example/", "user or a password"),
    ("http://a.example@127.0.0.1/", "user or a password"),
    ("http://@a.example/", "user or a password"),
    ("http://a.example\\@127.0.0.1/", "visible ASCII"),
    ("http://a example/", "visible ASCII"),
    ("http://a.example/\r\nX: y", "visible ASCII"),
    ("http://a.example/\tx", "visible ASCII"),
    ("http://bücher.example/", "visible ASCII"),
    ("http://ⓔxample.com/", "visible ASCII"),
    ("http://127.0.0.1\x00.example/", "visible ASCII"),
    ("http://a%2eexample/", "names no host"),
    ("http://a..example/", "cannot exist"),
    ("http://-a.example/", "cannot exist"),
    ("http://" + "a" * 64 + ".example/", "cannot exist"),
    ("http://a.example:0/", "1 to 65535"),
    ("http://a.example:65536/", "1 to 65535"),
    ("http://a.example:999999999999/", "1 to 65535"),
    ("http://a.example:-1/", "names no host"),
    ("http://a.example:8o/", "names no host"),
    ("http://a.example:22/", "is not allowed"),
    ("http://a.example:25/", "is not allowed"),
    ("http://2130706433/", "four decimal numbers"),
    ("http://0x7f000001/", "four decimal numbers"),
    ("http://0x7f.0.0.1/", "four decimal numbers"),
    ("http://0177.0.0.1/", "four decimal numbers"),
    ("http://127.0.0.01/", "four decimal numbers"),
    ("http://127.1/", "four decimal numbers"),
    ("http://127.0.1/", "four decimal numbers"),
    ("http://127.0.0.1./", "four decimal numbers"),
    ("http://256.0.0.1/", "four decimal numbers"),
    ("http://1.2.3.4.5/", "four decimal numbers"),
    ("http://127.0.0.0x1/", "four decimal numbers"),
    ("http://0/", "four decimal numbers"),
    ("http://0x/", "four decimal numbers"),
    ("http://[::1/", "names no host"),
    ("http://[]/", "names no host"),
    ("http://[127.0.0.1]/", "no IPv6 address"),
    ("http://[::g]/", "names no host"),
    ("http://[fe80::1%25eth0]/", "names no host"),
    ("http://[fe80::1%eth0]/", "names no host"),
    ("http://::1/", "names no host"),
    ("http://a.example/" + "x" * 2048, "2,048 characters"),
]


@pytest.mark.parametrize(("url", "parts"), READ)
def test_a_url_is_read(url, parts):
    assert read_url(url) == parts


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_a_url_is_refused(url, reason):
    with pytest.raises(TargetRefusedError, match=reason):
        read_url(url)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://a.example/", "a.example"),
        ("http://a.example:443/", "a.example:443"),
        ("https://a.example:443/", "a.example"),
        ("https://[::1]:8443/", "[::1]:8443"),
        ("http://[::1]/", "[::1]"),
    ],
)
def test_the_host_header_leaves_the_usual_port_out(url, authority):
    assert read_url(url).authority == authority


@given(st.text() | st.text("htps:/@[]0x1.%#?\\a").map("http://".__add__))
def test_any_text_is_read_or_refused(text):
    try:
        parts = read_url(text)
    except TargetRefusedError:
        return
    assert read_url(f"{parts.scheme}://{parts.authority}{parts.target}") == parts
