"""A server of another program, made with `McpServer` in a file of its own."""

import sys
import textwrap

import pytest

from comity import McpServer
from comity.wire.errors import ConfigError
from tests.mcp.conversing import call, initialize, modern, request
from tests.mcp.processes import started

PROGRAM = """
    from comity import McpServer
    from comity.mcp.protocol.results import failed

    server = McpServer("shop", version="7", instructions="Ask nicely.")

    @server.tool({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    def echo(context, arguments):
        '''Say it again.'''
        return arguments["text"]

    @server.tool(name="count", description="Count.", output_schema={"type": "object", "required": ["n"]})
    async def count_letters(context, arguments):
        context.progress(1, 1)
        return {"n": len(arguments)}

    @server.tool()
    def fail(context, arguments):
        '''Fail.'''
        return failed("no such luck")

    server.run()
"""


async def test_a_few_lines_make_a_server_of_both_eras(tmp_path):
    program = tmp_path / "shop.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    async with started(sys.executable, str(program)) as server:
        welcome = (await server.ask(initialize()))["result"]
        assert welcome["serverInfo"] == {"name": "shop", "version": "7"}
        assert welcome["instructions"] == "Ask nicely."
        listed = (await server.ask(modern(1, "tools/list")))["result"]["tools"]
        assert [(tool["name"], tool["description"]) for tool in listed] == [
            ("echo", "Say it again."),
            ("count", "Count."),
            ("fail", "Fail."),
        ]
        said = (await server.ask(call(2, "echo", text="hi")))["result"]
        assert said == {"content": [{"type": "text", "text": "hi"}], "isError": False}
        assert (await server.ask(call(3, "echo")))["result"]["isError"] is True
        assert (await server.ask(call(4, "count", a=1)))["result"]["structuredContent"] == {"n": 1}
        assert (await server.ask(call(5, "fail")))["result"]["content"][0]["text"] == "no such luck"
        assert (await server.ask(request(6, "completion/complete", {})))["error"]["code"] == -32601
        hello = {"space.creed/vcp-hello": {"type": "vcp-hello", "version": "3.1"}}
        greeted = (await server.ask(modern(7, "tools/list", **hello)))["result"]
        assert greeted["_meta"]["space.creed/vcp-ack"]["type"] == "vcp-error"
        server.end()
        assert (await server.over())[0] == 0


def test_a_tool_that_says_nothing_of_itself_is_refused():
    with pytest.raises(ConfigError, match="silent needs a description"):

        @McpServer("shop").tool()
        def silent(context, arguments):
            return ""
