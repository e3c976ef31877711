import pytest

from rag_pipeline.errors import ConfigError, InputError, ProviderError
from rag_pipeline.serving import outgoing
from rag_pipeline.serving.outgoing import allowed_url, check_hosts, post_json
from rag_pipeline_tests.testing.web import web

NOT_ALLOWED = [
    *(
        "http://127.0.0.1/ http://169.254.169.254/latest/meta-data http://[::1]/ "
        "http://allowed.example@127.0.0.1/ http://allowed.example\\@127.0.0.1/ "
        "http://allowed.example:22/ http://allowed.example:port/ http://allowed.example:80:22/ "
        "http://allowed.example:0x16/ http://allowed.example:0/ http://@allowed.example/ "
        "http://:@allowed.example/ http://allowed.example.evil.example/ "
        "http://allowed.example%2eevil.example/ http://allowed.example%00.evil.example/ "
        "http://allowed.example%40evil.example/ //allowed.example/ allowed.example "
        "https:allowed.example data:,allowed.example javascript:allowed.example"
    ).split(),
    *("http://allowed\u3002example@evil.example/", "http://127\u30020\u30020\u30021/"),
    *("http://\uff11\uff12\uff17.0.0.1/", "http://allowed.example\u2025evil.example/"),
    *("http://allowed.example\t:22/", "http://allowed.example\x7f/"),
    *("https://allowed.example/" + "a" * 2000, ""),
]


@pytest.mark.parametrize("url", NOT_ALLOWED)
def test_only_allowed_hosts_are_reached(url):
    with pytest.raises(InputError):
        allowed_url("x-retrieval-endpoint", url, ["allowed.example"])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://allowed.example/v1", "allowed.example"),
        ("https://ALLOWED.example:443/v1", "Allowed.Example"),
        ("http://[::1]:9000/v1", "[::1]:9000"),
        ("http://10.0.0.1:80", "10.0.0.1"),
    ],
)
def test_an_allowed_host_is_reached_on_its_port(url, allowed):
    assert allowed_url("x-rerank-url", url, [allowed]) == url


@pytest.mark.parametrize("entry", ["http://a", "a/b", "u@a", ""])
def test_an_allow_list_holds_hosts(entry):
    with pytest.raises(ConfigError):
        check_hosts([entry])


def replying(status, content):
    """Serve one reply to every request."""
    return web(lambda path, body: (status, {}, content))


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (401, b"your key abc is wrong", "theirs answered 401$"),
        (200, b"<html>", "theirs: the reply is not JSON$"),
        (200, b"[" * 15_000, "theirs: the reply is not JSON$"),
        (200, b"\xff\xfe", "theirs: the reply is not JSON$"),
        (200, b" " * 20_001, "theirs: the reply has more than 20,000 bytes$"),
    ],
)
def test_a_reply_that_is_none_is_one_error_that_quotes_nothing(
    monkeypatch, status, content, message
):
    monkeypatch.setattr(outgoing, "_MOST_BYTES", 20_000)
    with replying(status, content) as server, pytest.raises(ProviderError, match=message):
        post_json("theirs", server.url, {"a": 1})


def test_a_reply_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(outgoing, "_SECONDS", 0.0)
    with replying(200, {"a": 1}) as server:
        with pytest.raises(ProviderError, match="no complete reply within 0 s"):
            post_json("theirs", server.url, {})
        monkeypatch.undo()
        assert post_json("theirs", server.url, {}) == {"a": 1}
