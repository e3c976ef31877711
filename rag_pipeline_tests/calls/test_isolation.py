"""A text on which a model always fails is found by halving: few requests, few texts billed.

The server of these tests bills every text of a request that it works on, whatever it replies.
"""

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil, log2
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from rag_pipeline.calls import PROBE, CallCache, call_key
from rag_pipeline.config import Embedding
from rag_pipeline.errors import CallsStoppedError, TextsFailedError
from rag_pipeline.models.embedding import embed
from rag_pipeline.models.providers import open_embedder

KEY = {"401", "quota"}
"""Faults that are followed by a probe at once, because a wrong key fails alike."""
FREE = {"400", "402", "403", "404", "429", "500", "refusal", *KEY}
"""Faults that are not billed."""
SPOILT = {"dimension", "nan"}
"""Faults of the bad texts' vectors. With an `s`, each vector of their request is spoilt."""
FAULTS = ["count", "cut", "dimension", "dimensions", "garbage", "nan", "nans"]
FAULTS += sorted(FREE - {"429"})
TRIES = 3
"""Number of times that a text is sent alone at most, before it is given up."""


FaultOf = Callable[[list[str]], tuple[str, set[str]] | None]


@dataclass
class Billing:
    """The requests that a server got, and the texts that its provider bills."""

    url: str = ""
    requests: list[list[str]] = field(default_factory=list)
    billed: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)


def numbers(text: str) -> list[float]:
    return [1.0 + len(text), float(sum(map(ord, text))), 3.0, 4.0]


@contextmanager
def billing(fault_of: FaultOf) -> Iterator[Billing]:
    """Serve; `fault_of` names the fault of a request with these texts, and its bad texts."""
    told, stopped, lock = Billing(), threading.Event(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            with lock:
                fault, bad = fault_of(texts) or ("", set())
                told.requests.append(texts)
                if fault not in FREE:
                    told.billed.update(texts)
                good = [t for t in texts if fault in SPOILT and t not in bad]
                told.answered.update(good if fault else texts)
            if fault == "hang":
                stopped.wait()
            if fault in ("hang", "cut"):
                self.close_connection = True
                return
            if fault in FREE:
                status = int(fault) if fault.isdigit() else 429 if fault == "quota" else 422
                code = "insufficient_quota" if fault == "quota" else None
                self._send(status, {"error": {"message": "this text is not allowed", "code": code}})
                return
            rows = [{"index": n, "embedding": numbers(t)} for n, t in enumerate(texts)]
            if fault == "count":
                rows.pop()
            for row, text in zip(rows, texts, strict=False):
                if fault == "dimensions" or (text in bad and fault == "dimension"):
                    row["embedding"] = [1.0]
                if fault == "nans" or (text in bad and fault == "nan"):
                    row["embedding"] = [float("nan")] * 4
            self._send(200, "garbage" if fault == "garbage" else {"object": "list", "data": rows})

        def _send(self, status: int, reply: Any) -> None:
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield told
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()


def of(fault: str, *bad: str) -> FaultOf:
    return lambda texts: (fault, hit) if (hit := set(bad).intersection(texts)) else None


def model(url: str, **changes: Any) -> Any:
    # Without `max_texts`, an unknown model has 256 texts a request.
    settings = {"provider": "openai", "model": "m", "base_url": url, "dimensions": 4}
    return open_embedder(TypeAdapter(Embedding).validate_python(settings | changes))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 1e-4)


def check_vectors(texts: list[str], own: Any, cache: CallCache) -> None:
    expected = np.array([numbers(text) for text in texts])
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embed(texts, own, cache), expected / lengths, atol=1e-6)


@pytest.mark.parametrize(
    ("fault", "count", "place"),
    [
        *((fault, 71, 34) for fault in FAULTS),
        *((fault, *at) for fault in ("nan", "500") for at in ((16, 0), (256, 0), (256, 200))),
        ("hang", 16, 15),
        ("429", 16, 7),
    ],
)
def test_one_bad_text_is_found_by_halving(
    fault: str, count: int, place: int, cache: CallCache
) -> None:
    texts = [f"text {n}" for n in range(count)]
    bad = texts[place]
    with billing(of(fault, bad)) as server:
        patience = 0.2 if fault == "429" else 60
        seconds = {"timeout_seconds": 0.5 if fault == "hang" else 60, "patience_seconds": patience}
        own = model(server.url, **seconds)
        with pytest.raises(TextsFailedError) as failure:
            embed(texts, own, cache)
        assert set(failure.value.failed) == {bad}
        again = len([r for r in server.requests if r == [bad]]) - 1
        assert again < TRIES
        if fault in {*KEY, "429", "dimensions"}:
            again += server.answered[PROBE]
        if fault == "429":  # as a rate limit, the whole request is repeated for its patience
            again += len([r for r in server.requests if r == texts]) - 1
        # The request that fails comes before the search.
        assert len(server.requests) - again <= 1 + ceil(log2(count)) + 2
        assert server.billed.total() <= 3 * count
        assert server.answered[PROBE] <= 1
        assert max(server.answered.values()) == 1, "no good reply is paid for twice"
        before = len(server.requests)
        check_vectors([text for text in texts if text != bad], own, cache)
        assert len(server.requests) == before, "all others are kept"
        with pytest.raises(TextsFailedError):
            embed(texts, own, cache)
        tries = [r for r in server.requests[before:] if r != [PROBE]]
        assert tries == [[bad]] * len(tries)
        assert len(tries) <= TRIES or fault == "429", "a rate limit has its patience"
        # That a probe of the key was answered is remembered.
        assert len(server.requests) - before - len(tries) == (fault == "429")


@pytest.mark.parametrize(
    ("fault", "count", "places"),
    [
        *((f, *at) for f in ("count", "nan", "403") for at in ((16, (0, -1)), (256, (7, 9)))),
        *(("500", n, at) for n in (16, 256) for at in ((0, 1), (0, -1), (7, 9), (-2, -1))),
    ],
)
def test_two_bad_texts_are_found_and_no_other_is_given_up(
    fault: str, count: int, places: tuple[int, int], cache: CallCache
) -> None:
    texts = [f"text {n}" for n in range(count)]
    bad = [texts[place] for place in places]
    with billing(of(fault, *bad)) as server:
        own = model(server.url, patience_seconds=1)
        with pytest.raises(TextsFailedError) as failure:
            embed(texts, own, cache)
        assert set(failure.value.failed) == set(bad)
        assert max(server.answered.values()) == 1
        assert server.billed.total() <= 5 * count, "the second search is as long as the first"
        assert len([r for r in server.requests if len(r) > 1]) <= 2 * (ceil(log2(count)) + 1) + 1
        check_vectors([text for text in texts if text not in bad], own, cache)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_fails_on_every_text_stops_the_run(fault: str, cache: CallCache) -> None:
    texts = [f"text {n}" for n in range(71)]
    with billing(lambda sent: (fault, set(sent))) as server:
        told = (
            "dimensions"
            if fault in ("dimension", "dimensions")
            else "given up|texts in a row failed|not allowed|stopped after"
        )
        own = model(server.url, patience_seconds=0.5)
        with pytest.raises(CallsStoppedError, match=told):
            embed(texts, own, cache)
        assert server.billed.total() <= 3 * 71
        if fault in {*KEY, "dimension", "dimensions"}:
            assert server.requests == [texts, [PROBE]]
    assert len(cache) == 0


@pytest.mark.parametrize("fault", ["402", "404", "500", "cut"])
def test_an_outage_at_the_end_of_a_run_is_not_noted_against_its_texts(
    fault: str, cache: CallCache
) -> None:
    texts = [f"text {n}" for n in range(6)]
    late = set(texts[3:])
    with billing(lambda sent: (fault, set(sent)) if {PROBE, *late} & set(sent) else None) as server:
        own = model(server.url, max_texts=1, max_concurrency=1, patience_seconds=0.5)
        with pytest.raises(CallsStoppedError):
            embed(texts, own, cache)
        assert set(server.answered) == set(texts) - late
    keys = [call_key("embed:document", own.identity, text) for text in late]
    assert cache.failures(keys) == {}


def check_schedule(seed: int, cache: CallCache) -> None:
    """Hold a run with faults of one text, and faults by chance at 30 %, against its bill."""
    drawn = random.Random(seed)
    texts = [f"text {n}" for n in range(drawn.choice([5, 16, 40]))]
    bad = set(drawn.sample(texts, drawn.choice([0, 0, 1, 2])))
    kinds = ["count", "cut", "garbage", "500", "429"]
    kind = drawn.choice(FAULTS)
    alone: Counter[str] = Counter()

    def fault_of(sent: list[str]) -> tuple[str, set[str]] | None:
        if hit := bad.intersection(sent):
            return kind, hit
        if drawn.random() > 0.3:
            return None
        if len(sent) == 1:
            alone[sent[0]] += 1
            if alone[sent[0]] >= TRIES:  # more would be a bad text
                return None
        return drawn.choice(kinds), set()

    with billing(fault_of) as server:
        own = model(server.url, max_texts=drawn.choice([3, 8, 256]), patience_seconds=5)
        failed: set[str] = set()
        try:
            embed(texts, own, cache)
        except TextsFailedError as error:
            failed = set(error.failed)
        assert failed == bad
        del server.answered[PROBE]
        assert set(server.answered) == set(texts) - bad
        assert set(server.answered.values()) <= {1}
        check_vectors([text for text in texts if text not in bad], own, cache)


@pytest.mark.parametrize("seed", range(int(os.environ.get("RAG_FAULT_SCHEDULES", "5"))))
def test_with_faults_by_chance_no_good_reply_is_lost_or_paid_twice(
    seed: int, cache: CallCache
) -> None:
    check_schedule(seed, cache)
