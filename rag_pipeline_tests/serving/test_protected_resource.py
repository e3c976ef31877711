"""The official MCP SDK's client gets a token from the authorization server that 401 leads to."""

import asyncio
import json
import time

import httpx
import httpx2
import pytest
import yaml
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from rag_pipeline_tests.testing.web import web

KEY = ECKey.generate_key("P-256", parameters={"kid": "one"})
QUESTION = "How expensive may a hotel be?"


class Storage:
    """Keeps nothing beyond one client."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


@pytest.fixture
def issuer():
    """Serve an authorization server that gives tokens with the label `hr`."""

    def reply(path, body):
        if path.startswith("/.well-known/"):
            made = {
                "issuer": site.url,
                "authorization_endpoint": f"{site.url}/authorize",
                "token_endpoint": f"{site.url}/token",
                "grant_types_supported": ["client_credentials"],
                "response_types_supported": ["code"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
            return 200, {}, made
        if path == "/token":
            expiry = int(time.time()) + 60
            claims = {"aud": "rag", "iss": site.url, "groups": ["hr"], "exp": expiry}
            token = jwt.encode({"alg": "ES256", "kid": "one"}, claims, KEY, algorithms=["ES256"])
            return 200, {}, {"access_token": token, "token_type": "Bearer", "expires_in": 60}
        return 404, {}, {}

    with web(reply) as site:
        yield site


@pytest.fixture
def server(serving, issuer, tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    signer = {"keys": "keys.json", "audience": "rag", "issuer": issuer.url, "labels": "groups"}
    (tmp_path / "callers.yaml").write_text(yaml.safe_dump({"signers": [signer]}))
    return serving(callers=tmp_path / "callers.yaml")


def test_a_client_finds_the_issuer_and_asks(server, issuer):
    url = f"{server.url}/mcp"

    async def work():
        provider = ClientCredentialsOAuthProvider(
            url, Storage(), client_id="me", client_secret="a secret", issuer=issuer.url
        )
        async with (
            httpx2.AsyncClient(auth=provider, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            tools = (await client.list_tools()).tools
            asked = {"query": "And a hotel?", "turns": [QUESTION]}
            return tools, await client.call_tool("assistant", asked)

    tools, made = asyncio.run(work())
    assert {"assistant", "search_chunks"} <= {tool.name for tool in tools}
    answer = made.structured_content
    assert answer["releases"][0]["release"] == "release-000001"
    assert all(source["chunk_id"] and source["content_hash"] for source in answer["sources"])
    paths = [path for path, _ in issuer.asked]
    assert paths[-1] == "/token"
    assert any(path.startswith("/.well-known/") for path in paths)


def test_401_leads_to_the_metadata(server, issuer):
    reply = httpx.post(f"{server.url}/mcp", json={})
    assert reply.status_code == 401
    address = f"{server.url}/.well-known/oauth-protected-resource/mcp"
    assert reply.headers["www-authenticate"] == f'Bearer resource_metadata="{address}"'
    wrong = httpx.post(f"{server.url}/v1/ask", json={}, headers={"Authorization": "Bearer x"})
    told = wrong.headers["www-authenticate"]
    assert told == f'Bearer error="invalid_token", resource_metadata="{address}"'
    for path in (address, address.removesuffix("/mcp")):
        made = httpx.get(path).json()
        assert made["resource"] == f"{server.url}/mcp"
        assert made["authorization_servers"] == [issuer.url]


def test_a_host_cannot_write_into_the_header(server):
    headers = {"Host": 'evil", realm="x'}
    reply = httpx.post(f"{server.url}/mcp", json={}, headers=headers)
    assert "evil" not in reply.headers.get("www-authenticate", "")


def test_without_an_issuer_there_is_no_metadata(serving):
    server = serving(token="a-token-of-some-length")
    reply = httpx.get(f"{server.url}/.well-known/oauth-protected-resource/mcp")
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
