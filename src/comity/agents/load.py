"""From the name of a behaviour to the behaviour."""

from collections.abc import Awaitable, Callable

from comity.agents.echo import echo
from comity.core.envelope.envelope import VacantEnvelope
from comity.core.envelope.message import A2AMessage
from comity.core.errors import ConfigError

Behaviour = Callable[[VacantEnvelope], Awaitable[A2AMessage]]


def load_behaviour(spec: str) -> Behaviour:
    if spec == "echo":
        return echo
    raise ConfigError(f"there is no behaviour {spec!r}; use echo")
