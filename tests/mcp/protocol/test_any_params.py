"""Any JSON in any place of the params of any method: an answer or work, never a crash."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from comity.mcp.protocol.context import HandshakeResult
from comity.mcp.protocol.conversation import Greet
from comity.mcp.protocol.methods import RunningRequest
from comity.mcp.protocol.results import META_CAPABILITIES, META_LOG_LEVEL, TASKS
from comity.vcp.protocol.mcp_places import EXTENSION
from comity.wire import strict_json
from tests.mcp.protocol.talk import PERSONAL, TEXT, Catalog, Talk, a_server, meta, tool

PLACES = {
    "initialize": ("protocolVersion", "capabilities", "clientInfo", "initializationOptions", "vcp"),
    "ping": (),
    "tools/list": ("cursor",),
    "tools/call": ("name", "arguments", "inputResponses", "requestState", "task"),
    "resources/list": ("cursor",),
    "resources/read": ("uri", "inputResponses", "requestState"),
    "resources/templates/list": ("cursor",),
    "resources/subscribe": ("uri",),
    "resources/unsubscribe": ("uri",),
    "prompts/list": ("cursor",),
    "prompts/get": ("name", "arguments"),
    "completion/complete": ("ref", "argument", "context"),
    "logging/setLevel": ("level",),
    "server/discover": (),
    "subscriptions/listen": ("notifications",),
    "tasks/get": ("taskId",),
    "tasks/update": ("taskId", "inputResponses"),
    "tasks/cancel": ("taskId",),
    "shutdown": (),
}
WORDS = [
    "type",
    "name",
    "value",
    "uri",
    "vcp",
    "hello",
    "extensions",
    EXTENSION,
    "taskIds",
    "resourceSubscriptions",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["echo", "feel", "x://a", "p", "ref/prompt", "info"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
METAS = st.one_of(
    st.none(),
    JSON,
    st.just(meta()),
    JSON.map(lambda declared: {**meta(), META_CAPABILITIES: declared}),
    JSON.map(lambda version: meta(version=version)),
    JSON.map(lambda hello: meta({"extensions": {EXTENSION: {"hello": hello}}})),
    JSON.map(lambda odd: meta({"extensions": {EXTENSION: odd, TASKS: {}}})),
    JSON.map(lambda level: {**meta(), META_LOG_LEVEL: level, "progressToken": level}),
)


def a_talk():
    catalog = Catalog()
    catalog.add_tools(
        [
            tool("echo", input_schema=TEXT),
            tool("feel", extension=PERSONAL),
            tool("own", validator=lambda _: None),
        ]
    )
    return Talk(a_server(catalog, tasks=True))


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"text": value}
    return value


@st.composite
def requests(draw):
    """A method, and any JSON in some of its own places."""
    method = draw(st.sampled_from(list(PLACES)))
    params = {place: draw(JSON) for place in PLACES[method] if draw(st.integers(0, 3))}
    carried = draw(METAS)
    return method, params if carried is None else {**params, "_meta": carried}


@settings(max_examples=500)
@given(requests())
@example(("tools/call", {"name": "echo", "arguments": {"text": 10**200}}))
@example(("tools/call", [1]))
@example(("subscriptions/listen", {"notifications": [], "_meta": meta()}))
@example(("tools/list", {"_meta": meta({"extensions": {EXTENSION: 7}})}))
def test_any_json_in_any_place_is_answered(said):
    method, params = said
    talk = a_talk()
    effects = talk.request(method, params, id_=1)
    for effect in effects:
        if isinstance(effect, Greet):
            reply = HandshakeResult(reply={"type": "vcp-error"})
            effects = talk.conversation.greeted(effect, reply)
    (last,) = effects[-1:]
    if isinstance(last, RunningRequest):
        assert talk.conversation.is_running(last)
        assert (last.progress_token is None) or isinstance(last.progress_token, str | int)
        assert isinstance(last.inputs, dict)
    else:
        answer = strict_json.loads(last)
        assert answer["id"] == 1
        assert ("result" in answer) != ("error" in answer)


def test_arguments_as_deep_as_a_message_may_be_are_answered():
    for depth in (250, 300, 505):
        answer = strict_json.loads(
            a_talk().request("tools/call", {"name": "echo", "arguments": nested(depth)})[0]
        )
        assert answer["result"]["isError"] is True
