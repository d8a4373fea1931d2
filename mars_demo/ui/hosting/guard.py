"""A middleware that handles failures before and after the page's functions; see `errors` for theirs."""

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mars_demo.core.limits import LIMITS
from mars_demo.ui.hosting.errors import log, sentence

UPLOAD = "/upload"  # Gradio's route that writes any file to the disk; no component here needs it
ESCAPED = 4  # bytes of a request per byte of a record, which is sent as a JSON string


class Guard:
    """A middleware that limits the size of requests and answers if the app raises."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        async def answer(status: int, text: str) -> None:
            await JSONResponse({"error": text, "detail": text}, status)(scope, receive, send)

        if scope["path"].endswith(UPLOAD):
            return await answer(404, "This app does not accept files.")
        try:
            await self.app(scope, _bounded(receive), sending)
        except Exception as error:  # noqa: BLE001  unexpected errors must not reach the log unabridged
            log(error, scope["path"])
            if not has_begun:
                await answer(500, sentence(error))


def _bounded(receive: Receive) -> Receive:
    """Limit the total size of a request's body: reading more raises an exception, which the app answers."""
    most, read = ESCAPED * LIMITS.record << 20, 0

    async def receiving() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            text = f"The request is larger than {most >> 20} MiB, more than this page ever sends."
            raise HTTPException(413, text)
        return message

    return receiving
