"""Middleware of vLLM's server: on a loopback interface it answers to its own names only."""

from starlette.middleware.trustedhost import TrustedHostMiddleware

from mars_demo.core.hosts import trusted_hosts


class OwnHosts:
    """The check of a request's `Host`, for the host that vLLM's server was started with."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        hosts = trusted_hosts(scope["app"].state.args.host or "")
        await TrustedHostMiddleware(self.app, hosts)(scope, receive, send)
