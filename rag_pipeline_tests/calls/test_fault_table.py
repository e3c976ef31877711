"""Every fault at 30 %, for every kind of call: complete, in order, each billed at most once.

What is billed beyond that are replies that were cut, spoilt or too late: as many as were injected.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.models.embedding import embed
from rag_pipeline.search.reranking.passages import RerankInput, score_passages
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder, scorer
from rag_pipeline_tests.testing.model_faults import (
    CUT,
    CUT_REPLY,
    EXPIRED,
    SHUFFLED,
    Chance,
    Failure,
    Fault,
    Late,
    finished,
    garbled,
    short,
    too_many,
)
from rag_pipeline_tests.testing.model_replies import Body, items_of, score_of, vector_of
from rag_pipeline_tests.testing.model_server import ModelServer, serving

COUNT = 44
REFUSED: list[Failure] = [Fault(429, headers={"Retry-After": "0"}), Fault(500), Fault(503), CUT]
"""Not billed."""
SPOILT: list[Failure] = [
    CUT_REPLY, garbled, Fault(200, b"<html>busy</html>"), lambda reply: {"answer": 42},
]  # fmt: skip
LATE = Late(6.0)


def no_number(reply: Body) -> Any:
    for row in reply["data"][:1]:
        row["embedding"] = [float("nan")] * 256
    return reply


def stranger(reply: Body) -> Any:
    reply["data"][0]["index"] = 99
    return reply


def _chat(url: str, cache: CallCache, **changes: Any) -> None:
    settings = chat(url, timeout_seconds=2 if changes else 5, **changes)
    found = asked([f"p{n} word" for n in range(COUNT)], settings, cache)
    assert found == [f"P{n} WORD" for n in range(COUNT)]


def chats(url: str, cache: CallCache) -> None:
    _chat(url, cache)


def batches(url: str, cache: CallCache) -> None:
    _chat(url, cache, batch=True)


def fewer_lines(reply: Any) -> Any:
    """Send a file without its last lines, the last of those sent cut in half; others as HTML."""
    return reply[: len(reply) * 2 // 3] if isinstance(reply, bytes) else b"<html>busy</html>"


def twice_and_turned(reply: Any) -> Any:
    """Send the lines of a file in another order, and twice; anything else garbled."""
    lines = reply.splitlines() if isinstance(reply, bytes) else []
    return b"\n".join([*reversed(lines), *lines]) if lines else garbled(reply)


ENDPOINTS: list[Failure] = [
    Fault(429, headers={"Retry-After": "0"}), Fault(500), Fault(503), CUT, CUT_REPLY, Late(2.5),
    fewer_lines, twice_and_turned, Fault(200, b"<html>busy</html>"),
]  # fmt: skip
"""What goes wrong with uploads, submissions, looks and downloads: none of it is billed."""


def embeddings(url: str, cache: CallCache, **model: Any) -> None:
    own = {"dimensions": 256, "max_texts": 2, "timeout_seconds": 5, **model}
    texts = [f"t{n}" for n in range(COUNT)]
    vectors = embed(texts, embedder(url, **own), cache)
    np.testing.assert_allclose(vectors, [vector_of(t, 256) for t in texts], atol=1e-6)


def rerankings(url: str, cache: CallCache, method: str) -> None:
    queries = [RerankInput(f"q{n} days", ("some days", "none", f"q{n}")) for n in range(COUNT)]
    found = score_passages(queries, scorer(url, method=method, timeout_seconds=5), cache)
    assert found == [[score_of(query, p) for p in passages] for query, passages, _ in queries]


Kind = tuple[Callable[[str, CallCache], None], list[Failure]]
LISTS: list[Failure] = [*REFUSED, *SPOILT, LATE, short, too_many, SHUFFLED]
KINDS: dict[str, Kind] = {
    "chats": (chats, [*REFUSED, *SPOILT, LATE, finished("length"), finished("content_filter")]),
    "embeddings of voyage": (
        partial(embeddings, provider="voyage", model="voyage-3.5"), [*LISTS, no_number],
    ),
    "embeddings of openai": (partial(embeddings, shorten=True), [*LISTS, no_number]),
    **{
        f"rerankings of {method}": (partial(rerankings, method=method), [*LISTS, stranger])
        for method in ("voyage", "cohere", "jina")
    },
    "batches": (batches, [Fault(500), EXPIRED, finished("length"), lambda reply: b"{broken"]),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_files_and_batches_with_every_fault_at_30_percent_submit_each_line_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.models.providers.openai_batch._FIRST_BACKOFF", 0.01)
    chance = Chance(seed)
    hit: list[str] = []

    def faults(path: str, body: Body) -> Failure:
        if not path.startswith(("files", "batches")) or chance.of(path, body).random() >= 0.3:
            return None
        hit.append(path)
        return ENDPOINTS[(3 * seed + len(hit)) % len(ENDPOINTS)]

    with serving(faults=faults, batches=Batches(looks=12)) as server:
        batches(server.url, CallCache(Database(tmp_path / "calls.sqlite")))
        assert len(server.batches.made) == 1, "a lost answer does not mean a lost batch"
        assert len(server.batches.submitted) == COUNT
        assert set(server.billed.values()) == {1}
    assert len(hit) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_with_every_fault_at_30_percent_all_is_answered_in_order_and_billed_once(
    kind: str, cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_every_fault(kind, cache, monkeypatch)


def test_with_every_fault_answers_in_postgres_are_billed_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_every_fault("chats", CallCache(opened(postgres_url)), monkeypatch)


def check_with_every_fault(kind: str, cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("rag_pipeline.models.providers.openai_batch._FIRST_BACKOFF", 0.01)
    call, ways = KINDS[kind]
    chance = Chance(11)
    failing = [n for n in range(COUNT) if n % 10 in (0, 3, 6)]
    hit: set[int] = set()
    spoils: Counter[str] = Counter()

    def faults(path: str, body: Body) -> Failure:
        if path.startswith(("files", "batches")):
            drawn = chance.of(path, body)
            return drawn.choice(ENDPOINTS) if drawn.random() < 0.3 else None
        items = items_of(path, body)
        # One that is hit again and again is poison, which is missing: that is tested elsewhere.
        first = [n for item in items if (n := _number(item)) in failing and n not in hit][:1]
        if not first:
            return None
        hit.update(map(_number, items))
        failure = ways[failing.index(first[0]) % len(ways)]
        free = isinstance(failure, Fault) and failure.status != 200
        if not free and failure is not SHUFFLED:
            spoils.update(items[:1] if failure is no_number else items)
        return failure

    with serving(faults=faults) as server:
        call(server.url, cache)
        _check(server, spoils)
        assert server.most_at_once <= 16, "as many as the settings allow by default"
        assert kind == "batches" or server.most_at_once > 1
        before = server.billed.total()
        call(server.url, cache)
        assert server.billed.total() == before
    assert hit.issuperset(failing)
    assert len(failing) >= len(ways), "every kind of fault has occurred"


def _number(item: str) -> int:
    """Return a prompt's, a text's or a query's place."""
    return int(re.sub(r"\D", "", item))


def _check(server: ModelServer, spoils: Counter[str]) -> None:
    """Hold what was billed against one right reply each, and the replies that were spoilt."""
    assert len(server.billed) == COUNT
    assert server.billed.total() - COUNT == spoils.total()
    assert all(server.billed[item] == 1 + spoils[item] for item in server.billed)
