"""Settings of a server: its address, token and limits."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from rag_pipeline.calls.hosts import is_loopback
from rag_pipeline.datamodels import ANYBODY, Caller
from rag_pipeline.errors import ConfigError

_LEAST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits are per worker. `requests_per_minute` holds for a client address over all workers.

    `workers` processes share the port and, by memory map, the releases.

    One address may have half of `max_concurrency` requests in work. `threads` requests work at a
    time, by default two for each processor, divided among the workers, or 64 if models are asked
    over the network. The others wait for at most `wait_seconds`. A request's headers, and then its
    body, may take `body_seconds` to arrive; a client must read some of its reply every
    `body_seconds`. Open releases of a worker may take `memory_bytes`, 0 for half of the machine's
    memory; the longest unused one is closed first. A reply must begin within `timeout_seconds`. A
    stopped server takes new requests for `drain_seconds`, while `/ready` answers 503, and then
    finishes open requests within `stop_seconds`. Requests may name backends of `allowed_hosts`
    (`host` or `host:port`) by header. Questions are added to the file `log_questions`, and
    judgements of answers to the file `feedback`. With `review`, clients may decide on synthetic
    questions. The file `callers` maps tokens to labels. All other requests come from `caller`, by
    default a caller without labels.
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
    requests_per_minute: int = 6_000
    memory_bytes: int = 0
    stop_seconds: int = 10
    drain_seconds: float = 0.0
    log_questions: Path | None = None
    feedback: Path | None = None
    review: bool = False
    callers: Path | None = None
    caller: Caller = ANYBODY
    rates: Path | None = None
    """The file in which the workers count requests a minute together."""

    @property
    def needs_token(self) -> bool:
        """Return whether requests need a token."""
        return self.token is not None or self.callers is not None


def read_token(variable: str, host: str, callers: Path | None = None) -> str | None:
    """Return the bearer token of an environment variable.

    Raises ConfigError for a short token. Raises ConfigError for an address beyond loopback without
    a token and without a file of callers.
    """
    token = os.environ.get(variable) or None
    if token is not None and len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"{variable}: the token has {len(token)} characters; use at least {_LEAST_TOKEN}, "
            f"such as from: openssl rand -hex 32"
        )
    if token is None and callers is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: beyond loopback a bearer token is needed; set the environment "
            f"variable {variable}, name --callers, or listen on 127.0.0.1"
        )
    return token
