"""`comity token`: tokens for programs, each with few rights and a name by which it can be revoked.

The commands work on the file `tokens.json` of the data folder. A running node reads it again when it has changed.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.rights import GRANTS
from comity.identity.secrets import MAX_DAYS, NamedToken, list_tokens, make_token, revoke_token
from comity.requests.record import own_act
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, writing
from comity.terminal.options import HomeOptions, Json, KeyOptions, one_of, option, settings_of
from comity.terminal.output import note, print_answer, print_json, print_line, print_table
from comity.wire.errors import ConfigError

app = HelpfulApp("Make, list and revoke tokens, so that a program gets only the rights it needs.")

TOKEN_MADE = "TOKEN_MADE"  # noqa: S105 - the kind of an entry
TOKEN_REVOKED = "TOKEN_REVOKED"  # noqa: S105 - same


@app.add("""
    comity token new prometheus --can metrics  for a program that reads the figures at /metrics
    comity token new dashboard --can read --days 90  views, events and metrics; expires after 90 days
    comity token new ci --can act --json  actions, audit verification and MCP; print JSON
""")
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name for the token: a-z, 0-9, - and _, at most 32.")
    ],
    can: Annotated[
        str | None,
        option(
            "--can",
            "RIGHTS",
            "metrics: read /metrics. read: also views and events. act: views, events, actions, verification and MCP. "
            "admin: everything that needs no file of this machine.",
        ),
    ] = None,
    days: Annotated[
        str | None, option("--days", "DAYS", "After how many days it expires. Default: when it is revoked.")
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Make a token, and print it. It is shown only this once; the node keeps a hash of it.

    Programs send it in the header Authorization: Bearer TOKEN.
    """
    if can is None:
        raise ConfigError(f"--can is missing; it is one of {', '.join(GRANTS)}")
    grant = next(each for each in GRANTS if each == one_of("--can", can, GRANTS))
    settings = settings_of(home).settings
    key = own_key(settings, home.passphrase_file)
    entry, token = make_token(
        settings.data, name, grant, now=SystemClock().now(), days=None if days is None else _days(days)
    )
    _record(settings, key, TOKEN_MADE, entry)
    if as_json:
        print_json({**_shown(entry), "token": token})
        return
    print_line(token)
    until = "until it is revoked" if entry.expires is None else f"until {_moment(entry.expires)}"
    note(f"this is shown only once; it holds {until}: `comity token revoke {name}`")


@app.add("""
    comity token list  which tokens there are, and what each may do
    comity token list --json  print JSON
""")
def list_(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """List the tokens that were made, without the tokens themselves."""
    tokens = list_tokens(settings_of(home).settings.data)
    if as_json:
        print_json({"tokens": [_shown(each) for each in tokens]})
        return
    if not tokens:
        print_line("No tokens were made. Make one: `comity token new NAME --can read`")
        return
    now = SystemClock().now()
    print_table(
        ("name", "may", "made", "expires"),
        [(each.name, each.can, _moment(each.created), _expiry(each, now)) for each in tokens],
    )


@app.add("""
    comity token revoke prometheus  the node refuses the token from the next request on
""")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Revoke a token. A running node refuses it from the next request on."""
    settings = settings_of(home).settings
    key = own_key(settings, home.passphrase_file)
    entry = revoke_token(settings.data, name)
    _record(settings, key, TOKEN_REVOKED, entry)
    print_answer({"revoked": _shown(entry)}, f"The token {name} is revoked.", as_json=as_json)


def _record(settings: Settings, key: SigningKey, result: str, entry: NamedToken) -> None:
    """Write the audit entry. A volatile store has no record that would last."""
    if settings.store.is_volatile:
        return

    async def commit() -> None:
        async with writing(settings, key) as (_store, record, _chain):
            await record.commit((), own_act(result, f"{entry.name}:{entry.can}"))

    asyncio.run(commit())


def _days(typed: str) -> float:
    try:
        return float(typed)
    except ValueError:
        raise ConfigError(f"--days must be a number, at most {MAX_DAYS:,}") from None


def _shown(entry: NamedToken) -> dict[str, Any]:
    return {"name": entry.name, "can": entry.can, "created": entry.created, "expires": entry.expires}


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _expiry(entry: NamedToken, now: float) -> str:
    if entry.expires is None:
        return "never"
    return _moment(entry.expires) + (" (expired)" if entry.has_expired(now) else "")
