"""What the shell may complete besides the names of commands and options: clients, states, actions, settings."""


def clients(incomplete: str) -> list[str]:
    from comity.hosts.clients import table

    return [name for name in table().clients if name.startswith(incomplete)]


def states(incomplete: str) -> list[str]:
    from comity.envelopes.protocol.card import RuntimeState

    return [state.lower() for state in RuntimeState if state.lower().startswith(incomplete.lower())]


def actions(incomplete: str) -> list[str]:
    from comity.actions.protocol.calls import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def setting_names(incomplete: str) -> list[str]:
    from comity.terminal.options import HomeOptions, settings_of
    from comity.wire.errors import ComityError

    try:
        names = settings_of(HomeOptions()).sources
    except ComityError:  # broken settings are what one may be about to repair
        return []
    return [name for name in names if name.startswith(incomplete)]
