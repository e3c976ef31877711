import pytest

from rag_pipeline.calls.hosts import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_this_machine_itself_is_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_what_others_may_reach_or_answer_is_not(host):
    assert not is_loopback(host)
