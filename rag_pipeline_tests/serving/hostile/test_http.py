"""Hostile HTTP: no request gets in, none stops the server."""

import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_pipeline.assistant import Assistant
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.hostile_requests import TOKEN, ask, post, raw, request, tool

# --- tokens ---

CREDENTIALS = {
    "none": [],
    "empty": [b"Authorization: "],
    "scheme alone": [b"Authorization: Bearer"],
    "no token": [b"Authorization: Bearer "],
    "no scheme": [b"Authorization: " + TOKEN.encode()],
    "another scheme": [b"Authorization: Basic " + TOKEN.encode()],
    "wrong": [b"Authorization: Bearer the-token-of-this-tess"],
    "prefix": [b"Authorization: Bearer the-token"],
    "longer": [b"Authorization: Bearer the-token-of-this-test1"],
    "upper case": [b"Authorization: Bearer THE-TOKEN-OF-THIS-TEST"],
    "listed": [b"Authorization: Bearer x, Bearer the-token-of-this-test"],
    "bytes": [b"Authorization: Bearer \xff\xfe\xe9"],
    "long": [b"Authorization: Bearer " + b"a" * 30_000],
    "doubled": [b"Authorization: Bearer the-token-of-this-test"] * 2,
    "right and wrong": [b"Authorization: Bearer the-token-of-this-test", b"authorization: Bearer"],
    "cookie": [b"Cookie: token=the-token-of-this-test"],
    "forwarded": [b"X-Forwarded-For: 127.0.0.1", b"X-Original-URL: /health"],
}


@pytest.mark.parametrize("headers", CREDENTIALS.values(), ids=CREDENTIALS)
def test_no_other_credentials_open_the_server(guarded, headers):
    for line in (b"POST /v1/ask HTTP/1.1", b"POST /mcp HTTP/1.1"):
        sent = request(line, *headers, b"Content-Length: 0", token=None)
        assert raw(guarded, sent) in (400, 401)


PATHS = [
    *("//", "//health", "/health/", "/health/../v1/corpora", "/./v1/corpora", "/HEALTH"),
    *("/health%2f..%2fv1/corpora", "/%761/corpora", "/v1/corpora?path=/health"),
    *("/;/health", "/health;/v1/corpora", "/health%00", "/mcp", "/mcp/", "/openapi.json"),
    *("/..%2f..%2fetc/passwd", "/page/index.html", "/v1/corpora#/health", "/\\health"),
]


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_needs_no_token(guarded, path):
    assert raw(guarded, request(b"GET %b HTTP/1.1" % path.encode(), token=None)) in (400, 401)


# --- HTTP that is not ---

MALFORMED = {
    "garbage": b"\x00\xff\x00\xff\r\n\r\n",
    "TLS": bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/9.9": b"GET /v1/corpora HTTP/9.9\r\nHost: a\r\n\r\n",
    "no host": b"GET /v1/corpora HTTP/1.1\r\n\r\n",
    "two hosts": request(b"GET /v1/corpora HTTP/1.1", b"Host: other"),
    "space in a name": request(b"GET / HTTP/1.1", b"A B: c"),
    "space before the colon": request(b"POST /v1/ask HTTP/1.1", b"Content-Length : 5"),
    "NUL in a header": request(b"GET / HTTP/1.1", b"A: b\x00c"),
    "bare CR in a header": request(b"GET / HTTP/1.1", b"A: b\rX: c"),
    "negative length": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: -1"),
    "signed length": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: +5", body=b"12345"),
    "length of letters": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: five"),
    "length of 30 digits": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: " + b"9" * 30),
    "length of 2 GB": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: 2147483648"),
    "two lengths": request(b"POST /a HTTP/1.1", b"Content-Length: 1", b"Content-Length: 2"),
    "unknown coding": request(b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: magic"),
    "two codings": request(b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: gzip, chunked"),
    "chunk without size": request(
        b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"
    ),
    "chunk of 2^70": request(
        b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: chunked", body=b"f" * 30 + b"\r\n{}\r\n"
    ),
    "length and chunks": request(
        b"POST /v1/ask HTTP/1.1",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        body=b"0\r\n\r\nGET /v1/corpora HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    "a proxy's request": request(b"GET http://169.254.169.254/latest HTTP/1.1", token=None),
    "a tunnel": request(b"CONNECT 127.0.0.1:22 HTTP/1.1", token=None),
    "100 kB in the first line": request(b"GET /" + b"a" * 100_000 + b" HTTP/1.1"),
    "100 kB in a header": request(b"GET / HTTP/1.1", b"A: " + b"a" * 100_000),
    "10,000 headers": request(b"GET / HTTP/1.1", *[b"A%d: b" % n for n in range(10_000)]),
    "unfinished": b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-",
    "body that never comes": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: 100"),
    "body cut off": request(b"POST /v1/ask HTTP/1.1", b"Content-Length: 100", body=b"{"),
    "chunks that end nowhere": request(
        b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: chunked", body=b"2\r\n{}\r\n"
    ),
    "expects to be asked for 2 GB": request(
        b"POST /v1/ask HTTP/1.1", b"Expect: 100-continue", b"Content-Length: 2147483648"
    ),
    "a web socket": request(
        b"GET /mcp HTTP/1.1", b"Connection: Upgrade", b"Upgrade: websocket", token=None
    ),
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_http_is_refused(guarded, sent):
    status = raw(guarded, sent)
    assert status == 0 or 400 <= status < 500


def test_an_endless_body_is_cut_off(guarded):
    head = request(b"POST /v1/ask HTTP/1.1", b"Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    assert raw(guarded, head, *[chunk] * 40) in (0, 413)


def test_what_follows_a_short_body_is_another_request_without_token(guarded):
    smuggled = b"GET /v1/corpora HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    sent = request(b"POST /v1/ask HTTP/1.1", b"Content-Length: 2", body=b"{}" + smuggled)
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as connection:
        connection.sendall(sent)
        reply = b""
        while b" 401 " not in reply and (more := connection.recv(65_536)):
            reply += more
    assert b" 422 " in reply
    assert b"release-" not in reply


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_do_nothing(guarded, client, method):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/v1/ask", "/retrieval"):
        reply = client.request(method, f"{guarded.url}{path}", headers=headers)
        assert reply.status_code in (404, 405)
    reply = client.request(method, f"{guarded.url}/mcp", headers=headers)
    assert 400 <= reply.status_code < 500 or (method, reply.status_code) == ("DELETE", 200)


# --- pages of others ---

HOSTS = [
    *("evil.example", "evil.example:9003", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("169.254.169.254", "0.0.0.0", "[::2]", "[::1", "evil.example@127.0.0.1.evil", ""),
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_made_to_point_here_is_not_answered(open_server, host):
    for line in (b"GET / HTTP/1.1", b"GET /v1/corpora HTTP/1.1", b"POST /mcp HTTP/1.1"):
        sent = b"\r\n".join([line, b"Host: " + host.encode(), b"Content-Length: 0", b"", b""])
        assert raw(open_server, sent) in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:9003", "LOCALHOST:1"])
def test_loopback_names_are_answered(open_server, host):
    sent = f"GET /v1/corpora HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert raw(open_server, sent) == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example"]
)
def test_another_sites_page_may_not_ask(open_server, client, origin):
    for path in ("/v1/ask", "/mcp"):
        reply = post(open_server, path, b'{"query": "a"}', client, {"Origin": origin})
        assert reply.status_code == 403
        assert "access-control-allow-origin" not in reply.headers


# --- slow and many ---


def test_slow_clients_keep_nobody_out(own):
    with serving(own, token=TOKEN, max_concurrency=12, body_seconds=1.0) as server:
        half = request(b"POST /v1/ask HTTP/1.1", b"Content-Length: 100", body=b"{")
        begun = [b"", b"GET / HTTP/1.1\r\nHost: 127", half]
        # Fewer than an address may hold, so that none of them makes room for another.
        waiting = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(18)]
        for number, connection in enumerate(waiting):
            connection.sendall(begun[number % 3])
        assert ask(server, "How much does a parcel weigh?").status_code == 200
        replies = []
        for number, connection in enumerate(waiting):
            reply = b""
            while more := connection.recv(65_536):  # until the server hangs up
                reply += more
                if b" 408 " in reply:
                    break
            connection.close()
            replies.append((number % 3, reply[:12]))
        assert set(replies) == {(0, b""), (1, b""), (2, b"HTTP/1.1 408")}


def unread(server, pages):
    """Ask for pages, and return a connection that never reads: its window is small."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(request(b"GET / HTTP/1.1") * pages)
    return connection


def until(held):
    while not held():
        Event().wait(0.01)


def test_clients_that_read_no_reply_keep_nobody_out(own):
    with serving(own, token=TOKEN, requests_per_minute=10**9) as server:
        begun = [unread(server, 20) for _ in range(70)]
        opened = server.server_state.connections
        until(
            lambda: sum(isinstance(c, H11Protocol) and c.flow.write_paused for c in {*opened}) > 63
        )
        for _ in range(3):
            assert ask(server, "How much does a parcel weigh?").status_code == 200
        # One address may have so many unread replies: the server does not keep all in memory.
        until(lambda: len(opened) <= 65)
        for connection in begun:
            connection.close()


def test_a_client_that_reads_nothing_is_cut_off(own):
    with serving(own, token=TOKEN, body_seconds=0.5, requests_per_minute=10**9) as server:
        begun = [unread(server, 20) for _ in range(4)]
        until(lambda: server.server_state.tasks)
        until(lambda: not server.server_state.tasks and not server.server_state.connections)
        assert ask(server, "How much does a parcel weigh?").status_code == 200
        for connection in begun:
            connection.close()


def test_a_client_that_reads_slowly_gets_its_whole_reply(own):
    with serving(own, token=TOKEN, body_seconds=2.0, requests_per_minute=10**9) as server:
        one = len(httpx.get(server.url, headers={"Authorization": f"Bearer {TOKEN}"}).content)
        with unread(server, 20) as slow:
            got = 0
            while got < 20 * one:
                part = slow.recv(4096)
                assert part, "it is not cut off"
                got += len(part)
                if got < 5 * one:  # in all for longer than the limit of a client that reads nothing
                    Event().wait(0.05)


def test_half_sent_headers_keep_nobody_out(own):
    with serving(own, token=TOKEN, max_concurrency=16) as server:
        half = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(160)]
        for connection in half:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        for _ in range(3):
            assert ask(server, "How much does a parcel weigh?").status_code == 200
        assert len(server.server_state.connections) <= 33
        for connection in half:
            connection.close()


def test_one_address_has_half_of_the_places_at_once(own, monkeypatch):
    go_on, asked = Event(), Assistant.ask

    def held(*arguments, **more):
        assert go_on.wait(300)
        return asked(*arguments, **more)

    monkeypatch.setattr(Assistant, "ask", held)
    with serving(own, token=TOKEN, max_concurrency=4) as server, ThreadPoolExecutor(12) as pool:

        def ask_from(address):  # a proxy on loopback is believed
            headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": address}
            body = b'{"query": "How much does a parcel weigh?"}'
            return httpx.post(f"{server.url}/v1/ask", content=body, headers=headers, timeout=60)

        def begin(address, count, refused):
            begun = [pool.submit(ask_from, address) for _ in range(count)]
            until(lambda: sum(f.done() for f in begun) >= count - 2)
            early = [f.result() for f in begun if f.done()]
            assert [r.status_code for r in early] == [refused] * (count - 2)
            assert all(r.headers["Retry-After"] == "1" for r in early)
            return [f for f in begun if not f.done()]

        running = begin("203.0.113.1", 6, 429) + begin("203.0.113.2", 4, 429)
        assert ask_from("203.0.113.3").status_code == 429
        go_on.set()
        assert [f.result().status_code for f in running] == [200] * 4


def test_a_tool_that_takes_too_long_says_so_in_a_whole_reply(own, monkeypatch):
    go_on = Event()
    monkeypatch.setattr(Assistant, "ask", lambda *arguments: go_on.wait(300))
    with serving(own, token=TOKEN, timeout_seconds=0.3) as server:
        made = tool(server, "assistant", {"query": "How much does a parcel weigh?"})["result"]
        go_on.set()
    assert (made["isError"], made["content"][0]["text"]) == (True, "no answer within 0.3 s")


def test_more_than_a_client_may_ask_are_refused(own, client):
    with serving(own, token=TOKEN, requests_per_minute=60) as server:
        replies = [client.get(f"{server.url}/nothing") for _ in range(12)]
        assert [r.status_code for r in replies][:6] == [401] * 6  # guesses of a token count too
        assert 429 in {r.status_code for r in replies[6:]}
        assert all(int(r.headers["Retry-After"]) >= 1 for r in replies if r.status_code == 429)
