"""Define the settings of a server: its address, token and limits."""

import os
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag_pipeline.calls.hosts import is_loopback
from rag_pipeline.datamodels import ANYBODY, Caller
from rag_pipeline.errors import ConfigError

_LEAST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server. Limits hold for each worker, except `requests_per_minute`.

    - `host`, `port`: The address to listen on, by default 127.0.0.1:9003.
    - `token`: The bearer token of requests. Without `token` and `callers`, requests need no token.
    - `allowed_hosts`: Hosts (`host` or `host:port`) of backends that request headers may name.
    - `max_body_bytes`: Maximum bytes of a request's body.
    - `timeout_seconds`: Maximum seconds until a reply begins. Its rest may take twice as long.
    - `body_seconds`: Maximum seconds for a request's headers, for its body, and for a pause in
      which the client reads none of its reply.
    - `max_concurrency`: Maximum requests at work or waiting. One address may have half of them.
    - `threads`: Maximum requests at work. None means 64 if models may be called over the network.
      Otherwise it means two per processor, divided among the workers, but at least 2.
      Clients without a request at work may exceed it by half.
    - `workers`: Number of processes. They share the port and map the releases into memory.
    - `wait_seconds`: Maximum seconds that a request waits for its turn.
    - `requests_per_minute`: Maximum requests of a client address to all workers.
    - `memory_bytes`: Maximum bytes of all open releases. If they need more, the least recently
      searched release is closed. 0 means half of the memory of the machine or container.
    - `stop_seconds`: Seconds in which a stopping server finishes open requests.
    - `drain_seconds`: Seconds before that, in which a stopping server still accepts requests while
      `/ready` returns 503.
    - `log_questions`: The file for questions, or None.
    - `feedback`: The file for judgements of answers, or None.
    - `review`: Whether clients may accept and reject synthetic questions.
    - `callers`: The file of tokens and signers that identify callers, or None.
    - `caller`: The caller of requests that `callers` does not identify, by default without labels.
    - `rates`: The file in which all workers count requests per minute. None counts in memory.
    """

    host: str = "127.0.0.1"
    port: int = 9003
    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 1_000_000
    timeout_seconds: float = 60.0
    body_seconds: float = 10.0
    max_concurrency: int = 128
    threads: int | None = None
    workers: int = 1
    wait_seconds: float = 0.5
    requests_per_minute: int = 60_000
    memory_bytes: int = 0
    stop_seconds: int = 10
    drain_seconds: float = 0.0
    log_questions: Path | None = None
    feedback: Path | None = None
    review: bool = False
    callers: Path | None = None
    caller: Caller = ANYBODY
    rates: Path | None = None

    @property
    def needs_token(self) -> bool:
        """Return whether requests need a token."""
        return self.token is not None or self.callers is not None


def read_token(variable: str, host: str, callers: Path | None = None) -> str | None:
    """Return the bearer token in an environment variable, or None if it is empty or not set.

    Raise ConfigError for a token of fewer than 16 characters. If `host` is not a loopback address,
    also raise ConfigError without a token and a file of callers.
    """
    token = os.environ.get(variable) or None
    if token is not None and len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"{variable}: the token has {len(token)} characters; use at least {_LEAST_TOKEN}, "
            f"for example from: openssl rand -hex 32"
        )
    if token is None and callers is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can reach this address, so a bearer token is needed; "
            f"set the environment variable {variable}, add --callers, or listen on 127.0.0.1"
        )
    return token


def check_address(settings: ServerSettings) -> None:
    """Raise ConfigError if the server cannot listen on its address."""
    for tried in bound(replace(settings, workers=1)):
        tried.close()


def bound(settings: ServerSettings) -> list[socket.socket]:
    """Return sockets that are bound to the address. Each of several workers may bind its own.

    Raise ConfigError if the address is unusable.
    """
    made: list[socket.socket] = []
    try:
        places = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in places:
            made.append(socket.socket(family, kind, protocol))
            made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if settings.workers > 1:  # the kernel spreads connections over the workers
                made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                made[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made[-1].bind(address)
        return made
    except OSError as error:
        for one in made:
            one.close()
        raise ConfigError(
            f"--host {settings.host} --port {settings.port}: cannot listen: {error.strerror}; "
            f"choose another --port, or stop the process that uses this port"
        ) from None
