"""HTTP: requests with wrong arguments get status 400 and a sentence (`--middleware`)."""

import json

from starlette.responses import JSONResponse

from mars_demo.vllm.arguments import Server, read_arguments


async def checked_request(request, call_next):
    """Pass on requests whose `vllm_xargs` are right, and those that vLLM itself must reject."""
    try:
        extra = json.loads(await request.body() or "{}").get("vllm_xargs")
    except (ValueError, AttributeError, RecursionError):  # not JSON, no object, or too deep
        extra = None
    try:
        read_arguments(extra if isinstance(extra, dict) else None, Server.of(request.app.state.vllm_config))
    except ValueError as error:
        details = {"message": str(error), "type": "BadRequestError", "param": "vllm_xargs", "code": 400}
        return JSONResponse({"error": details}, 400)
    return await call_next(request)
