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
    """The settings of a server. Limits hold for each worker, except `requests_per_minute`.

    - `host`, `port`: the address to listen on, 127.0.0.1:9003 by default
    - `token`: a bearer token that admits requests; None (default) needs no token without `callers`
    - `allowed_hosts`: `host` or `host:port` of backends that requests may name by header; none by
      default
    - `max_body_bytes`: maximum bytes of a request's body, 1,000,000 by default
    - `timeout_seconds`: seconds of work until a reply must begin, 60 by default; a begun reply may
      take twice as long
    - `body_seconds`: maximum seconds until a request's headers, and then its body, have arrived.
      A client may also read none of its reply for at most this time. 10 by default
    - `max_concurrency`: maximum requests that work or wait, 128 by default; one address may have
      half of them
    - `threads`: maximum requests at work. None (default) means 64 if models may be asked over the
      network. Else it means two per processor, divided among the workers, but at least 2
    - `workers`: number of processes, which share the port and map the releases into memory; 1 by
      default
    - `wait_seconds`: maximum seconds that a request waits for its turn, 0.5 by default
    - `requests_per_minute`: maximum requests of a client address to all workers, 60,000 by default
    - `memory_bytes`: maximum bytes of all open releases; the least recently searched is closed
      first; 0 (default) means half of the memory of the machine or container
    - `stop_seconds`: seconds in which a stopping server finishes open requests, 10 by default
    - `drain_seconds`: seconds before that, in which it still takes new requests while `/ready`
      answers 503; 0 by default
    - `log_questions`: file to which questions are added; None (default) adds none
    - `feedback`: file to which judgements of answers are added; None (default) takes none
    - `review`: whether clients may decide on synthetic questions, false by default
    - `callers`: file of tokens and signers that identify callers, or None (default)
    - `caller`: who sends the requests that `callers` does not identify; by default a caller without
      labels
    - `rates`: file in which all workers count requests a minute; None (default) counts in memory
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

    Raise ConfigError for a token of fewer than 16 characters. Also raise it if `host` is not a
    loopback address and there is neither a token nor a file of callers.
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
