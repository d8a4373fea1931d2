"""The app as an MCP server: another model finds `generate` with what it does, and gets an answer."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run

ASKED = {"prompt": "Sort 31, 4 and 15", "model": "mars-tiny", "tau": 0.9, "max_new_tokens": 64}


async def visit(url: str):
    """The tools of the server, and what the first one answers to a right and to a wrong call."""
    async with streamablehttp_client(f"{url}gradio_api/mcp/") as (read, write, _):  # noqa: SIM117
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            calls = [ASKED, ASKED | {"tau": 2}]
            return tools, [await session.call_tool(tools[0].name, call) for call in calls]


def test_generate_is_a_tool_that_answers(url, mars_tiny):
    with ThreadPoolExecutor() as elsewhere:  # a browser's loop may run in this thread
        [tool], (right, wrong) = elsewhere.submit(asyncio.run, visit(url)).result()
    assert tool.name.endswith("generate")
    assert tool.description.startswith("Answer a prompt and stream the record of the run")
    asked = tool.inputSchema["properties"]
    assert tool.inputSchema["required"] == ["prompt"]
    assert all(asked[name]["description"].endswith(".") for name in asked)  # none is cut in the middle
    assert not right.isError
    record = right.content[0].text
    own = decode(mars_tiny, ASKED["prompt"], Request("mars", 0.9, max_new_tokens=64)).finish()
    assert Run.read(record.splitlines()).token_ids == own.token_ids
    assert wrong.isError
    assert "tau must be a number from 0 to 1, not 2." in json.dumps(wrong.content[0].text)
