"""Actions to try the machines on, and a driver that runs their work on the spot."""

import functools
import json

from comity.actions.library import Library, registry_of
from comity.actions.protocol.action import Action, Contract, Fetch, FetchedPage, Outcome
from comity.actions.protocol.calls import ActionCalls, Work
from comity.actions.protocol.machine import NdjsonMachine
from comity.wire.errors import ActionError, ComityError

BOUNDARY = "For tests only"


def contract(properties=None, *, required=(), output=None, **changed):
    schema = {"type": "object", "required": list(required), "properties": properties or {}}
    given = {
        "skill": "testing",
        "boundary": BOUNDARY,
        "description": "Does as it is told",
        "input_schema": schema,
        "output_schema": output or {"type": "object"},
    }
    return Contract(**{**given, **changed})


def action(name, handler, *, slow=False, data=(), **contract_of):
    return Action(
        name=name,
        contracts={"enhanced": contract(**contract_of)},
        prepare=lambda _files: handler,
        slow=slow,
        data=data,
    )


def says(output):
    return Outcome(uncertainty="low", assumptions=("none",), output=output)


def _echo(given, mode):
    return says({"said": given.get("text"), "mode": mode})


def _refuse(given, mode):
    raise ActionError("This cannot be worked with.")


def _break(given, mode):
    raise RuntimeError("secret details")


def _title(given, mode):
    return Fetch(
        ("https://a.example/", "https://b.example/"), lambda pages: says({"got": [p.url for p in pages]})
    )


ACTIONS = (
    action("echo_text", _echo, properties={"text": {}}),
    action("refuse_all", _refuse),
    action("break_down", _break),
    action("need_pages", _title),
    action("take_long", _echo, slow=True, properties={"text": {}}),
    action("say_nonsense", lambda given, mode: "no outcome"),
    action("say_unspeakable", lambda given, mode: says({"what": object()})),
    action(
        "break_schema",
        lambda given, mode: says({"n": "one"}),
        output={"type": "object", "properties": {"n": {"type": "integer"}}},
    ),
)


class Faults(list):
    def __call__(self, name, failure):
        self.append((name, failure))


def calls(mode="enhanced", actions=ACTIONS, faults=None):
    handlers = {}

    def handler_of(action):
        return handlers.setdefault(action.name, action.prepare({}))

    return ActionCalls(registry_of(mode, actions), handler_of, Faults() if faults is None else faults)


def machine(mode="enhanced", **given):
    return NdjsonMachine(calls(mode, **given))


def drive(steps, run=None):
    """Return all that the steps write, in one piece. `run` turns work into its result."""
    written = []
    result = None
    try:
        while True:
            step = steps.send(result)
            result = None
            if isinstance(step, Work):
                result = (run or run_here)(step)
            else:
                written += step
    except StopIteration:
        return b"".join(written)


def run_here(work, handler_of=None):
    try:
        result = work.fetch
        if result is None:
            handler = handler_of(work.entry.action) if handler_of else work.entry.action.prepare({})
            result = handler(work.input, "enhanced")
        while isinstance(result, Fetch):
            result = result.resume(
                [FetchedPage(url=url, failure="not fetched in tests") for url in result.urls]
            )
    except ComityError as refused:
        return refused
    return result


def ask(machine, *lines):
    """The replies to lines, one for each."""
    data = b"".join(line + b"\n" for line in lines)
    return drive(machine.receive(data)).splitlines()


class Served:
    """The real skills in one mode; slow ones in this process."""

    def __init__(self, mode):
        self.library = Library(mode)
        self.machine = NdjsonMachine(self.library.calls)

    def send(self, data):
        return drive(self.machine.receive(data), self._run) + drive(self.machine.end(), self._run)

    def _run(self, work):
        def handler_of(action):
            handler = self.library.handler(action)
            return lambda given, _mode: handler(given, self.library.mode)

        return run_here(work, handler_of)


class Parity:
    """What a reference answers: `answers` has the boundary, the uncertainty, the number of assumptions and the keys of the
    output of each action. `more_keys` are further keys for an input.
    """

    def __init__(self, mode, answers, more_keys=lambda _given: ()):
        self._served = functools.cache(lambda: Served(mode))
        self._answers = answers
        self._more_keys = more_keys

    def reply_to(self, action, given):
        request = {"type": "invoke", "payload": {"action": action, "input": given}}
        (line,) = self._served().send(json.dumps(request).encode()).splitlines()
        return json.loads(line)

    def data_of(self, action, given):
        reply = self.reply_to(action, given)
        assert reply["ok"], (action, given, reply)
        data = reply["data"]
        boundary, uncertainty, assumptions, keys = self._answers[action]
        assert list(data) == ["action", "boundaryNotice", "uncertainty", "assumptions", "output"]
        found = (data["action"], data["boundaryNotice"], data["uncertainty"], len(data["assumptions"]))
        assert found == (action, boundary, uncertainty, assumptions), given
        assert list(data["output"]) == [*keys, *self._more_keys(given)], given
        return data

    def counts(self, action, given):
        """Return the lengths of the lists, and whole numbers and booleans as they are."""
        output = self.data_of(action, given)["output"].values()
        return tuple(
            len(value) if isinstance(value, list) else value for value in output if type(value) is not str
        )

    def wrong(self, action, table):
        return {
            json.dumps(given): {"came": found, "due": due}
            for given, due in table
            if (found := self.counts(action, given)) != due
        }
