"""The app as an MCP server: its tools, their descriptions and their answers."""

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from web import run

from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

REQUEST = {"prompt": "Sort 31, 4 and 15", "model": "mars-tiny", "tau": 0.9, "max_new_tokens": 64}
CALLS = [
    ("generate", REQUEST),
    ("generate", REQUEST | {"trace": True}),
    ("compare", REQUEST),
    ("generate", REQUEST | {"tau": 2}),
]


async def visit(url: str):
    """Return the tools of the server by name, and the answers to the calls."""
    async with streamablehttp_client(f"{url}gradio_api/mcp/") as (read, write, _):  # noqa: SIM117
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = {tool.name.rpartition("_")[2]: tool for tool in (await session.list_tools()).tools}
            return tools, [await session.call_tool(tools[name].name, call) for name, call in CALLS]


def test_two_tools_answer(url, mars_tiny):
    tools, (text, trace, both, wrong) = run(visit(url))
    assert list(tools) == ["generate", "compare"]
    for tool in tools.values():
        assert tool.description
        parameters = tool.inputSchema["properties"]
        assert tool.inputSchema["required"] == ["prompt"] and parameters.keys() >= REQUEST.keys()
        assert all(parameters[name]["description"].endswith(".") for name in parameters)  # not truncated
    expected = decode(mars_tiny, REQUEST["prompt"], Request("mars", 0.9, max_new_tokens=64)).finish()
    assert not any(answer.isError for answer in (text, trace, both))
    assert text.content[0].text == expected.text
    assert Run.read(trace.content[0].text.splitlines()).token_ids == expected.token_ids
    assert expected.text in both.content[0].text
    # An agent that asks for a sentence reads a sentence.
    assert all(len(answer.model_dump_json()) < 1000 for answer in (text, both))
    assert wrong.isError
    message = wrong.content[0].text
    assert "tau" in message and "2" in message and "Traceback" not in message
