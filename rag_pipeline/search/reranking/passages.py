"""Queries with candidate passages -> how well a model finds that each answers, asked once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from rag_pipeline.calls import (
    CallCache,
    CallCounts,
    Claims,
    asked_again,
    call_key,
    run_bounded,
    run_calls,
)
from rag_pipeline.calls.costs import ChargedTokens, estimate_tokens
from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config.rerankers import LocalScorer, RemoteScorer, Scorer
from rag_pipeline.config.rerankers import Relevance as Relevance
from rag_pipeline.config.rerankers import RerankInput as RerankInput
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, ProviderError, UnknownReplyError
from rag_pipeline.models.providers.limits import TokenCounter

_PER_SEARCH = 100
"""Number of passages that a reranker charges as one search (Cohere)."""


def score_passages(
    asked: Sequence[RerankInput],
    scorer: Scorer,
    cache: CallCache,
    counts: CallCounts | None = None,
) -> list[Relevance]:
    """Return the scores of each query's passages, in order.

    A repeated query with the same passages is sent once, also across runs. Each reply is stored
    when it arrives; a failure is not stored. Passages are split into several requests only above
    the model's limits. Raises CallsStoppedError when no call can work.
    """
    counter = TokenCounter()
    found: dict[bytes, list[float]] = {}
    failed: dict[bytes, ProviderError] = {}
    requests: dict[bytes, RerankInput] = {}
    keys: list[list[bytes]] = []
    for query, passages in asked:
        try:
            parts = _requests(query, passages, scorer, counter)
        except ProviderError as error:
            parts = [RerankInput(query, passages)]
            failed[_key(scorer, parts[0])] = error
        keys.append([_key(scorer, part) for part in parts])
        requests.update(zip(keys[-1], parts, strict=True))
    if not isinstance(cache, RecordingCache) and not isinstance(scorer, RemoteScorer):
        cache = cache.of_local_models()
    for key, value in cache.get(list(requests)).items():
        found[key] = np.frombuffer(value, np.float64).tolist()
    missing = {k: r for k, r in requests.items() if k not in found and k not in failed}
    advance("calls", len(requests) - len(missing))

    def keep(key: bytes, scores: list[float]) -> None:
        cache.put({key: np.array(scores, np.float64).tobytes()})
        found[key] = scores

    sent = len(missing)
    if isinstance(cache, RecordingCache):
        asking = [key for key in requests if key not in failed]
        unknown = cache.note("rerank", asking, lambda key: _expected_tokens(requests[key]))
        failed |= dict.fromkeys(unknown, UnknownReplyError(f"{scorer.identity}: not asked yet"))
    elif isinstance(scorer, RemoteScorer):
        if missing:
            with Claims(cache) as claims:
                sent = _score_missing(missing, scorer, claims, found, failed)
    else:
        _score_here(missing, scorer, keep, failed)
    if counts is not None:
        known = sum(len(parts) for parts in keys) - sent
        counts.add(CallCounts(made=sent, saved=known))
    return [_joined(parts, found, failed) for parts in keys]


def _requests(
    query: str, passages: tuple[str, ...], scorer: Scorer, counter: TokenCounter
) -> list[RerankInput]:
    limits = scorer.limits
    if not passages:
        return []
    (question,) = counter.count([query])
    if limits.pair_tokens is not None:
        most = max(limits.pair_tokens - question, 1)
        passages = tuple(counter.fit(passages, scorer.identity, most, scorer.truncate))
    sizes = [question + tokens for tokens in counter.count(passages)]
    parts = groups(sizes, limits.passages, limits.request_tokens)
    return [RerankInput(query, tuple(passages[i] for i in group)) for group in parts]


def _score_missing(
    requests: Mapping[bytes, RerankInput],
    scorer: RemoteScorer,
    claims: Claims,
    found: dict[bytes, list[float]],
    failed: dict[bytes, ProviderError],
) -> int:
    """Score the requests that no other process is scoring, then take the others' scores.

    Returns the number of requests that were sent.
    """
    sent: list[bytes] = []

    def keep(key: bytes, scores: list[float], used: Usage) -> None:
        claims.cache.put({key: np.array(scores, np.float64).tobytes()}, {key: used})
        found[key] = scores

    missing = list(requests)
    while missing:
        others: list[bytes] = []
        mine = chain.from_iterable(claims.draw(([key] for key in missing), others))
        failures = claims.cache.failures(missing)
        refused = run_calls(_score_all(mine, requests, scorer, keep, failures, sent))
        claims.cache.fail(list(refused))
        claims.give_up(list(refused))
        failed |= refused
        theirs: dict[bytes, bytes] = {}
        missing = claims.wait(others, theirs)
        found.update({k: np.frombuffer(v, np.float64).tolist() for k, v in theirs.items()})
        advance("calls", len(theirs))
    return len(sent)


async def _score_all(
    keys: Iterator[bytes],
    requests: Mapping[bytes, RerankInput],
    scorer: RemoteScorer,
    keep: Callable[[bytes, list[float], Usage], None],
    failures: Mapping[bytes, int],
    sent: list[bytes],
) -> dict[bytes, ProviderError]:
    failed: dict[bytes, ProviderError] = {}
    async with scorer.connect() as send:

        async def one(key: bytes) -> None:
            query, passages = requests[key]
            sent.append(key)
            try:
                with asked_again(failures.get(key, 0)):
                    scores, used = await send(query, list(passages))
            except CallsStoppedError:
                raise
            except ProviderError as error:
                failed[key] = error
            else:
                keep(key, scores, used)
            advance("calls", 1)

        await run_bounded(keys, one, scorer.max_concurrency)
    return failed


def _score_here(
    requests: Mapping[bytes, RerankInput],
    scorer: Scorer,
    keep: Callable[[bytes, list[float]], None],
    failed: dict[bytes, ProviderError],
) -> None:
    if not isinstance(scorer, LocalScorer):
        raise TypeError(f"{scorer.identity} is no LocalScorer or RemoteScorer")
    for key, (query, passages) in requests.items():
        try:
            keep(key, scorer.score(query, passages))
        except CallsStoppedError:
            raise
        except ProviderError as error:
            failed[key] = error
        advance("calls", 1)


def _joined(
    parts: Sequence[bytes],
    found: Mapping[bytes, list[float]],
    failed: Mapping[bytes, ProviderError],
) -> Relevance:
    errors = [failed[key] for key in parts if key in failed]
    return errors[0] if errors else [score for key in parts for score in found[key]]


def _expected_tokens(asked: RerankInput) -> ChargedTokens:
    question = estimate_tokens(asked.query)
    tokens = sum(question + estimate_tokens(passage) for passage in asked.passages)
    return ChargedTokens(tokens, searches=-(-len(asked.passages) // _PER_SEARCH))


def _key(scorer: Scorer, asked: RerankInput) -> bytes:
    return call_key("rerank", scorer.identity, json.dumps(asked))
