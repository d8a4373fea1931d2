"""HTTP: requests with wrong arguments get status 400 and a sentence (`--middleware`)."""

from contextlib import suppress

from starlette.responses import JSONResponse

from mars_demo.vllm.arguments import Server, read_arguments


async def checked_request(request, call_next):
    """Pass on requests whose `vllm_xargs` are right, and those that vLLM itself must reject."""
    extra = None
    with suppress(ValueError, AttributeError, RecursionError):  # not JSON, no object, or too deep
        extra = (await request.json()).get("vllm_xargs")
    try:
        read_arguments(extra if isinstance(extra, dict) else None, Server.of(request.app.state.vllm_config))
    except ValueError as error:
        details = {"message": str(error), "type": "BadRequestError", "param": "vllm_xargs", "code": 400}
        return JSONResponse({"error": details}, 400)
    return await call_next(request)
