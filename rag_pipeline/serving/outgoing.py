"""Send requests to allowed hosts, without redirects, and with limits of size and time."""

import atexit
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from rag_pipeline.assistant.expansion.sources import bounded_json
from rag_pipeline.errors import ConfigError, InputError, ProviderError

_LONGEST_HEADER = 2_000
_MOST_BYTES = 5_000_000
_SECONDS = 30.0


def check_hosts(allowed: Sequence[str]) -> None:
    """Raise ConfigError for an entry that is not `host` or `host:port`."""
    for entry in allowed:
        if urlsplit(f"//{entry}").netloc != entry or "@" in entry or not entry.strip():
            raise ConfigError(f"--allow-host {entry!r}: write host or host:port")


def allowed_url(header: str, value: str, allowed: Sequence[str]) -> str:
    """Return the address in a header. Raise InputError if its host is not allowed.

    An allowed host without a port allows only the scheme's default port.
    """
    shown = header.upper()
    if not allowed:
        raise InputError(f"{shown}: this server allows no backends by header")
    try:
        parts = urlsplit(value)
        port = parts.port
        sent = httpx.URL(value)
    except (ValueError, httpx.InvalidURL):
        raise InputError(f"{shown}: not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InputError(f"{shown}: not an http(s) address without user name")
    if parts.query or parts.fragment or len(value) > _LONGEST_HEADER:
        raise InputError(f"{shown}: send an address without query and fragment")
    own = 443 if parts.scheme == "https" else 80
    if (sent.host, sent.port or own) != (parts.hostname, port or own):
        raise InputError(f"{shown}: not an address")  # two parsers read different hosts
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    entry = name if port in (None, own) else f"{name}:{port}"
    if entry.lower() not in {a.lower() for a in allowed}:
        raise InputError(f"{shown}: {entry[:200]} is not among the hosts that this server allows")
    return value


def post_json(
    what: str, url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Any:
    """Post JSON and return the reply's JSON. A ProviderError begins with `what`."""
    try:
        stream = _client().stream("POST", url, json=body, headers=headers)
        return bounded_json(what, stream, _SECONDS, _MOST_BYTES)
    except httpx.HTTPError as error:
        raise ProviderError(f"{what}: {type(error).__name__}") from None


@lru_cache(maxsize=1)
def _client() -> httpx.Client:
    """Return the client of all backends. It ignores redirects and proxies of the environment."""
    client = httpx.Client(follow_redirects=False, trust_env=False, timeout=_SECONDS)
    atexit.register(client.close)
    return client
