"""The app as an MCP server: the `generate` tool, its description and its answers."""

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from web import run

from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

REQUEST = {"prompt": "Sort 31, 4 and 15", "model": "mars-tiny", "tau": 0.9, "max_new_tokens": 64}


async def visit(url: str):
    """Return the tools of the server, and the answers of the first one to a valid and an invalid call."""
    async with streamablehttp_client(f"{url}gradio_api/mcp/") as (read, write, _):  # noqa: SIM117
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            calls = [REQUEST, REQUEST | {"tau": 2}]
            return tools, [await session.call_tool(tools[0].name, call) for call in calls]


def test_generate_is_a_tool_that_answers(url, mars_tiny):
    [tool], (right, wrong) = run(visit(url))
    assert tool.name.endswith("generate")
    assert tool.description
    parameters = tool.inputSchema["properties"]
    assert tool.inputSchema["required"] == ["prompt"] and parameters.keys() > REQUEST.keys()
    assert all(parameters[name]["description"].endswith(".") for name in parameters)  # not truncated
    assert not right.isError
    record = right.content[0].text
    expected = decode(mars_tiny, REQUEST["prompt"], Request("mars", 0.9, max_new_tokens=64)).finish()
    assert Run.read(record.splitlines()).token_ids == expected.token_ids
    assert wrong.isError
    message = wrong.content[0].text
    assert "tau" in message and "2" in message and "Traceback" not in message
