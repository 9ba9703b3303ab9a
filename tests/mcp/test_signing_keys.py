import json
from types import SimpleNamespace

import pytest

from comity.identity.protocol.access_token import UnknownKeyError
from comity.mcp.oauth import HOUR, PAUSE, AuthorizationServer
from comity.testing.loop import VirtualClock
from comity.wire.errors import ConfigError, PeerError, UnauthenticatedError
from tests.identity.protocol.authorization_server import ISSUER, NOW, RESOURCE, Signer


class Published:
    """Answers with a key set, or not at all."""

    def __init__(self, jwks):
        self.jwks = jwks
        self.asked = 0

    async def request(self, method, url):
        self.asked += 1
        assert (method, url) == ("GET", "https://login.example/keys")
        if self.jwks is None:
            raise PeerError("nobody answers")
        return SimpleNamespace(status=200, body=json.dumps(self.jwks).encode())


async def server_at(http, clock):
    server = AuthorizationServer(
        http, clock, issuer=ISSUER, keys="https://login.example/keys", resource=RESOURCE
    )
    await server.start()
    return server


async def settled(server):
    while server._asking is not None:
        await server._asking


async def test_a_new_key_is_fetched_when_a_token_names_it_but_not_too_often():
    old, new = Signer("EdDSA", "old"), Signer("EdDSA", "new")
    http, clock = Published(old.jwks), VirtualClock(NOW)
    server = await server_at(http, clock)
    assert server.verify(old.token()).subject == "ada"
    http.jwks = new.jwks
    with pytest.raises(UnknownKeyError):
        server.verify(new.token())
    await settled(server)
    assert http.asked == 1  # only just asked
    await clock.advance(PAUSE + 1)
    with pytest.raises(UnknownKeyError):
        server.verify(new.token())
    await settled(server)
    assert server.verify(new.token(exp=NOW + HOUR)).subject == "ada"
    assert http.asked == 2
    await server.aclose()


async def test_keys_are_asked_for_again_every_hour_and_the_last_ones_count_meanwhile():
    signer = Signer("EdDSA")
    http, clock = Published(signer.jwks), VirtualClock(NOW)
    server = await server_at(http, clock)
    http.jwks = None
    await clock.advance(HOUR + 1)
    lasting = signer.token(exp=NOW + 3 * HOUR)
    assert server.verify(lasting).subject == "ada"
    await settled(server)
    assert http.asked == 2
    assert server.verify(lasting).subject == "ada"
    await server.aclose()


async def test_a_server_that_cannot_be_reached_lets_nobody_in_and_stops_nothing():
    server = await server_at(Published(None), VirtualClock(NOW))
    with pytest.raises(UnauthenticatedError):
        server.verify(Signer("EdDSA").token())
    await server.aclose()


async def test_a_file_without_a_usable_key_is_refused(tmp_path):
    file = tmp_path / "keys.json"
    for content in ("{", "[]", '{"keys": []}'):
        file.write_text(content, encoding="utf-8")
        server = AuthorizationServer(
            Published(None), VirtualClock(NOW), issuer=ISSUER, keys=str(file), resource=RESOURCE
        )
        with pytest.raises(ConfigError, match="oauth_keys"):
            await server.start()
