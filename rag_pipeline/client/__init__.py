"""Use a server's HTTP interface from Python: clients, and the records that they exchange."""

from typing import TYPE_CHECKING, Any

from rag_pipeline.imports import late

if TYPE_CHECKING:
    from rag_pipeline.client.clients import AsyncClient as AsyncClient
    from rag_pipeline.client.clients import Client as Client


def __getattr__(name: str) -> Any:
    """Import the clients on first use, because the records need no httpx."""
    return late(__name__, name, {"clients": "AsyncClient Client"})
