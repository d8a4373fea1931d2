"""The host names for which a server answers."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def trusted_hosts(listening: str) -> list[str]:
    """Return the trusted names of a `Host` header, without a port, or `*` for all.

    On a loopback interface only the machine itself is a client. Another name there is the domain of a web
    site, which has pointed it to this machine so that its pages may read the answers (DNS rebinding).

    listening: the host on which the server listens.
    """
    is_loopback = listening == "localhost" or listening.startswith("127.") or listening.strip("[]") == "::1"
    return [*LOOPBACK, listening] if is_loopback else ["*"]
