"""A part in one file: with a line in `PARTS`, a node has all of it."""

from typing import Annotated

from msgspec import Struct

from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.results import said
from comity.requests.handler import HandlerDefaults, Identified, Request
from comity.runtime.part import CheckResult, Chore, Fact, Panel, Part, View, ViewPage
from comity.runtime.settings import text
from comity.wire.errors import UnauthenticatedError


class ToySettings(Struct, frozen=True, kw_only=True):
    greeting: Annotated[str, text("a text of 1 to 40 letters", "[A-Za-z]{1,40}")] = "hello"
    enabled: bool = True


class ToyRoom(HandlerDefaults):
    name = "toy"
    deadline = 5.0

    def __init__(self, toy):
        self._toy = toy

    def identify(self, request):
        if not request.caller.is_local:
            raise UnauthenticatedError("only the owner plays with the toy; send the node's token")
        return Identified(request.caller)

    async def handle(self, call):
        self._toy.greeted += 1
        return {"greeting": f"{self._toy.greeting} {call.request.body.get('whom', 'you')}"}


class Toy(Part):
    name = "toy"
    settings = ToySettings
    tool_group = "toy"

    @classmethod
    def is_wanted(cls, settings):
        return settings.of(ToySettings).enabled

    @classmethod
    def tools(cls, runtime):
        async def greet(context, arguments):
            opened = await runtime()
            toy = opened.find(cls)
            request = Request(door="mcp", caller=context.client.caller, body=arguments)
            return said((await opened.pipeline.run(toy.toys, request))["greeting"])

        return [
            Tool(name="toy_greet", description="Greet.", handler=greet, group=cls.tool_group, audit="own")
        ]

    @classmethod
    def checks(cls, settings):
        greeting = settings.of(ToySettings).greeting
        if greeting.islower():
            return [CheckResult("toy", "ok", f"greets with {greeting}")]
        return [CheckResult("toy", "warn", f"{greeting} is loud", "set toy.greeting to lower case")]

    async def open(self, runtime):
        self.greeting = runtime.settings.of(ToySettings).greeting
        self.greeted = self.wound_up = 0
        self.closed = False
        self.toys = ToyRoom(self)
        self.chores = [Chore(30, self._wind_up)]
        self.views = [View("toy", "Toys", self._view)]
        runtime.stack.callback(setattr, self, "closed", True)

    async def serve(self, runtime):
        from starlette.responses import PlainTextResponse
        from starlette.routing import Route

        from comity.http.app import HandlerRoute

        async def show(_request):
            return PlainTextResponse(self.greeting)

        self.hot = {"/v1/toy": HandlerRoute(self.toys, runtime.pipeline, 1000)}
        self.routes = [Route("/toy/show", show), Route("/toy/{name}/colour", show)]
        self.public, self.public_prefixes = {"/toy/show"}, ("/toy/red/",)

    def metrics(self):
        from comity.requests.metrics import Metric

        return [Metric("comity_toy_greetings", "Greetings so far.", self.greeted, kind="counter")]

    async def _view(self, _query):
        return ViewPage(facts=[Fact("greetings", str(self.greeted))])

    async def panel(self):
        return Panel("Toys", [("greetings", str(self.greeted)), ("wound up", str(self.wound_up))])

    async def _wind_up(self):
        self.wound_up += 1
