"""A plugin as a user would write it, with an action that can be told to misbehave."""

import os
import time

from comity.actions.protocol.action import Action, Contract, Fetch, Outcome
from comity.wire.errors import ActionError


def _outcome(output):
    return Outcome(uncertainty="low", assumptions=("It is a sample.",), output=output)


def _greet(given, mode):
    return _outcome({"greeting": f"Hello, {given['name']}", "mode": mode})


def _tell_where(given, mode):
    return _outcome({"pid": os.getpid()})


def _read_titles(given, mode):
    return Fetch(tuple(given["urls"]), lambda pages: _outcome({"lengths": [len(p.html) for p in pages]}))


def _work(given, mode):
    match given["do"]:
        case "answer":
            print("this must not be in the way")
            return _outcome({"pid": os.getpid(), "text": given.get("text", "")})
        case "refuse":
            raise ActionError("There is nothing to work on.")
        case "raise":
            raise RuntimeError("a secret")
        case "die":
            os._exit(3)
        case "hang":
            while True:
                time.sleep(0.01)
        case "hoard":
            return _outcome({"hoard": len(bytes(4 * 1024**3))})
        case "fetch":
            return Fetch(
                ("https://one.example/",),
                lambda pages: _outcome({"html": pages[0].html, "failure": pages[0].failure}),
            )
        case _:
            return "nonsense"


def _contract(**properties):
    return Contract(
        skill="sampling",
        boundary="A sample; do not rely on it",
        description="Shows how a plugin is made",
        input_schema={
            "type": "object",
            "required": list(properties)[:1],
            "properties": properties,
            "additionalProperties": False,
        },
        output_schema={"type": "object"},
    )


_TEXT = {"type": "string"}

ACTIONS = (
    Action(name="greet", contracts={"enhanced": _contract(name=_TEXT)}, prepare=lambda _files: _greet),
    Action(
        name="tell_where", contracts={"enhanced": _contract(text=_TEXT)}, prepare=lambda _files: _tell_where
    ),
    Action(
        name="read_titles",
        contracts={"enhanced": _contract(urls={"type": "array", "items": _TEXT})},
        prepare=lambda _files: _read_titles,
    ),
    Action(
        name="work_hard",
        contracts={"enhanced": _contract(do=_TEXT, text=_TEXT)},
        prepare=lambda _files: _work,
        slow=True,
    ),
)
ACTION = ACTIONS[0]
