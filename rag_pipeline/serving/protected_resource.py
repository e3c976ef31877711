"""Tell MCP clients the addresses of authorization servers (RFC 9728)."""

import re
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_RESOURCE = "/mcp"
METADATA_PATHS = (_WELL_KNOWN, f"{_WELL_KNOWN}{_RESOURCE}")
"""Paths that need no token. MCP clients read the second path first."""
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")


def metadata_routes(issuers: Sequence[str]) -> list[Route]:
    """Return the routes of the metadata, or [] if there are no issuers."""

    async def metadata(request: Request) -> Response:
        base = _address(request.scope, request.headers)
        made = {
            "resource": f"{base}{_RESOURCE}",
            "resource_name": "rag-pipeline",
            "authorization_servers": list(issuers),
            "bearer_methods_supported": ["header"],
        }
        return JSONResponse(made, headers={"Cache-Control": "no-store"})

    return [Route(path, metadata) for path in METADATA_PATHS] if issuers else []


def challenge(
    scope: Scope, headers: Mapping[str, str], issuers: Sequence[str], has_token: bool
) -> str:
    """Return the header `WWW-Authenticate` for a refused request (RFC 6750, RFC 9728)."""
    parts = ['error="invalid_token"'] if has_token else []
    if issuers:
        parts.append(f'resource_metadata="{_address(scope, headers)}{METADATA_PATHS[1]}"')
    return f"Bearer {', '.join(parts)}".strip()


def _address(scope: Scope, headers: Mapping[str, str]) -> str:
    """Return the server's address from the client's header, or "" if the header is unusable."""
    host = headers.get("host", "")
    return f"{scope['scheme']}://{host}" if _HOST.fullmatch(host) else ""
