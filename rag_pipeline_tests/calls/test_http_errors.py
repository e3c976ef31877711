import email.utils
import time

import pytest

from rag_pipeline.calls.http_errors import (
    failure_of_status,
    read_retry_after,
    redacted,
    unreachable,
)
from rag_pipeline.errors import CallsStoppedError, ProviderError, TransientError


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status):
    error = failure_of_status("m", status, "busy", {"retry-after": "7"})
    assert isinstance(error, TransientError)
    assert (error.retry_after, error.limited) == (7.0, status == 429)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_holds_for_every_input_stops_the_calls(status):
    assert isinstance(failure_of_status("m", status, "no", {}), CallsStoppedError)


def test_a_refused_input_is_its_own_failure():
    error = failure_of_status("m at host", 400, "too\nlong", {})
    assert type(error) is ProviderError
    assert str(error) == "m at host: too long (HTTP 400)"
    unknown = failure_of_status("m", 400, "no such model", {}, stops="model_not_found")
    assert isinstance(unknown, CallsStoppedError)


def test_an_empty_purse_is_not_a_rate_limit():
    message = "You exceeded your current quota, please check your plan and billing details."
    error = failure_of_status("m", 429, message, {"retry-after": "1"})
    assert isinstance(error, CallsStoppedError)
    assert "bill" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "40", "retry-after": "1"}, 0.04),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert read_retry_after(headers) == seconds


def test_retry_after_as_a_date():
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    seconds = read_retry_after({"retry-after": date})
    assert seconds is not None
    assert 90 < seconds <= 100


@pytest.mark.parametrize(
    "message",
    [
        "Incorrect API key provided: sk-proj-abc123DEF456ghi.",
        "Incorrect API key provided: sk-proj-********ghi.",
        "bad header Authorization: Bearer sk-proj-abc123DEF456ghi",
        "invalid token my-own-secret",
        "jina_0123456789abcdef is unknown",
        "pa-0123456789abcdef is unknown",
    ],
)
def test_keys_are_taken_out_of_messages(message):
    said = redacted(message, "my-own-secret", None, "")
    assert "[key]" in said
    for part in ("abc123", "ghi", "my-own-secret", "0123456789"):
        assert part not in said


def test_an_attempt_without_a_reply_tells_the_root_of_it():
    try:
        try:
            raise ConnectionRefusedError("[Errno 111] Connection refused")
        except OSError as error:
            raise RuntimeError("Connection error.") from error
    except RuntimeError as error:
        failure = unreachable("m at host", error)
    assert str(failure) == "m at host: [Errno 111] Connection refused"
    assert not failure.reached
