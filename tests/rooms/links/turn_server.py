"""Our own TURN relay on 127.0.0.1, with a login for the WebRTC libraries."""

import contextlib
import time

from comity.runtime.system_clock import SystemClock
from comity.turn.protocol import access
from comity.turn.service import TurnService, TurnSettings

RELAY_SECRET = b"r" * 32


def login(name="ann", seconds=600):
    """Return a user and its password."""
    user = access.user_of_name(name, time.time() + seconds)
    return user, access.password_of_user(access.secret_of_name(RELAY_SECRET, name), user)


@contextlib.asynccontextmanager
async def turn_server(**settings):
    service = TurnService(TurnSettings(host="127.0.0.1", port=0, **settings), RELAY_SECRET, SystemClock())
    await service.start()
    try:
        yield service
    finally:
        await service.stop()
