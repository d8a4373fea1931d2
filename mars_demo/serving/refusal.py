"""Errors of the endpoint, in OpenAI's format."""

from starlette.responses import JSONResponse

TYPES = {404: "not_found_error", 429: "rate_limit_error"}


class Refusal(Exception):
    """An HTTP error with a message.

    param: the request field at fault, if any. code: the machine-readable reason. retry: seconds to wait
    before trying again.
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        param: str | None = None,
        code: str | None = None,
        retry: int | None = None,
    ):
        super().__init__(sentence)
        self.status, self.param, self.code = status, param, code
        self.headers = {} if retry is None else {"Retry-After": str(retry)}

    @property
    def body(self) -> dict:
        kind = "server_error" if self.status >= 500 else TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)
