"""A server's HTTP interface from Python: clients, and the records that they exchange."""

from rag_pipeline.client.clients import AsyncClient as AsyncClient
from rag_pipeline.client.clients import Client as Client
