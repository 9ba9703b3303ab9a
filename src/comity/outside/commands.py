"""`comity outside`: the door of this node for other machines."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from comity.http.addresses import with_pin
from comity.outside.part import OUTSIDE_PATH, RENEW_PATH, Outside, OutsideSettings
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_node, refuse_off, require_node
from comity.terminal.options import HomeOptions, Json, settings_of
from comity.terminal.output import follow_up, note, print_answer, print_fields, print_json, print_line

if TYPE_CHECKING:
    from comity.identity import certificates
else:
    certificates = late("comity.identity.certificates")

app = HelpfulApp("Open or close the door of this node for other machines, or show it.")


@app.add("""
    comity outside on  let other machines call the agent, meet in rooms, look into the directory
""")
def on(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Open the door for everything that needs no token, until `comity outside off`, also after a restart.

    It has a certificate that the node makes itself. The page and all that needs a token is never there.
    """
    _show(_switch(home, {"open": True}), as_json=as_json)


@app.add("""
    comity outside off  close it; open invites keep what they need
""")
def off(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Close the door. What invites need of it stays open until the last one has ended."""
    state = _switch(home, {"open": False})
    _show(state, as_json=as_json)
    if settings_of(home).settings.of(OutsideSettings).on:
        note("the setting outside.on is true: the door opens again when the node starts")


@app.add("""
    comity outside status  whether it is open, for what, and at which addresses
    comity outside status --json  print JSON
""")
def status(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show whether the door is open, its addresses, and the pin by which others know its key."""
    settings = settings_of(home).settings
    refuse_off(settings, Outside)
    own = own_node(settings)
    closed = {"open": False, "paths": "none", "addresses": [], "port": 0, "pin": "", "reasons": []}
    state = closed if own is None else asyncio.run(own.ask("POST", OUTSIDE_PATH, {}))
    if own is None and not as_json:
        print_line(f"No node runs on {settings.data}. Start one: {follow_up('comity up')}")
        return
    _show(state, as_json=as_json)


@app.add("""
    comity outside renew  when the certificate is near its end
""")
def renew(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Make a new certificate for the same key. Others notice nothing: they know the key, by its pin."""
    settings = settings_of(home).settings
    own = own_node(settings)
    if own is not None:
        pin = str(asyncio.run(own.ask("POST", RENEW_PATH, {}))["pin"])
    else:
        pin = certificates.renew_certificate(settings.data, datetime.now(UTC)).pin
    print_answer({"pin": pin}, f"The certificate is new; the pin is still {pin}.", as_json=as_json)


def _switch(home: HomeOptions, body: dict[str, Any]) -> dict[str, Any]:
    settings = settings_of(home).settings
    refuse_off(settings, Outside)
    return asyncio.run(require_node(settings).ask("POST", OUTSIDE_PATH, body))


def _show(state: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(state)
    elif not state["open"]:
        print_line(f"The outside door is closed. Open it: {follow_up('comity outside on')}")
    else:
        what = {
            "all": "It serves everything that needs no token: signed calls, rooms, VCP, the directory.",
            "meeting": "It serves meetings in rooms, signed calls and the card, for the invites that are open.",
        }
        addresses = state["addresses"] or ["(this machine has no address that others can reach)"]
        print_line(f"The outside door is open. {what[state['paths']]}")
        print_line()
        fields = [("address" if not index else "", each) for index, each in enumerate(addresses)]
        print_fields([*fields, ("pin", state["pin"])], indent="  ")
        for each in state["addresses"][:1]:
            print_line()
            print_line(f"Others call your agent there: comity call {with_pin(each, state['pin'])} hello")
