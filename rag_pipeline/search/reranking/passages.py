"""Score candidate passages for queries with a reranker model, through the call cache."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from rag_pipeline.calls import (
    Asking,
    CallCache,
    CallCounts,
    asked_again,
    call_key,
    run_bounded,
    run_calls,
)
from rag_pipeline.calls.costs import ChargedTokens, charging, estimate_tokens, sent
from rag_pipeline.calls.grouping import groups
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import ChatSettings
from rag_pipeline.config.rerankers import (
    FunctionReranker,
    LocalScorer,
    ModelReranker,
    RemoteScorer,
    RerankerSettings,
    RerankRequest,
    Scorer,
)
from rag_pipeline.config.rerankers import Relevance as Relevance
from rag_pipeline.config.rerankers import RerankInput as RerankInput
from rag_pipeline.errors import CallsStoppedError, ProviderError, UnknownReplyError
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.models.providers.limits import TokenCounter
from rag_pipeline.workspace import Workspace

_PER_SEARCH = 100
"""Maximum number of passages that a provider charges as one search (Cohere)."""


def passage_scorer(
    workspace: Workspace,
    settings: RerankerSettings,
    counts: CallCounts | None = None,
    chats: Mapping[str, ChatSettings] | None = None,
) -> Callable[[Sequence[RerankInput]], list[Relevance]] | None:
    """Return a function that scores the passages of queries through the call cache.

    Return None if the reranker reads no passages. `chats` overrides the chat models of the same
    names.
    """
    if isinstance(settings, FunctionReranker):
        models = workspace.models(counts, chats)
        return lambda asked: settings.relevance(asked, models)
    if not isinstance(settings, ModelReranker):
        return None

    def charged(asked: Sequence[RerankInput]) -> list[Relevance]:
        with charging(workspace.ledger):
            scorer = open_scorer(workspace.config.located(settings))
            return score_passages(asked, scorer, workspace.cache, counts)

    return charged


def score_passages(
    asked: Sequence[RerankInput], scorer: Scorer, cache: CallCache, counts: CallCounts | None = None
) -> list[Relevance]:
    """Return the scores of each query's passages in order, or a ProviderError per failed query.

    The call cache stores each reply at once, so no run sends an answered request again. Passages
    above the model's limits are split into several requests. Raise CallsStoppedError if all
    further calls would fail.
    """
    counter = TokenCounter()
    parts_of: list[list[bytes] | ProviderError] = []
    requests: dict[bytes, RerankInput] = {}
    for query, passages, _ in asked:
        try:
            parts = _requests(query, passages, scorer, counter)
        except ProviderError as error:
            parts_of.append(error)
            continue
        keys = [_key(scorer, part) for part in parts]
        requests.update(zip(keys, parts, strict=True))
        parts_of.append(keys)
    if not isinstance(cache, RecordingCache) and not isinstance(scorer, RemoteScorer):
        cache = cache.of_local_models()
    asking = Asking(requests, cache, lambda done: advance("calls", len(done)))
    advance("calls", len(requests) - len(asking.missing))
    if isinstance(cache, RecordingCache):
        unknown = cache.note("rerank", list(requests), lambda k: _expected_tokens(requests[k]))
        not_asked = UnknownReplyError(f"{scorer.identity}: no call was made yet")
        asking.failed.update(dict.fromkeys(unknown, not_asked))
    elif isinstance(scorer, RemoteScorer):
        asking.run(lambda missing: _score_remotely(missing, requests, scorer, asking))
    else:
        asking.run(lambda missing: _score_here(missing, requests, scorer, asking))
    if counts is not None:
        wanted = [key for parts in parts_of if isinstance(parts, list) for key in parts]
        counts.add(asking.counts(wanted))
    return [p if isinstance(p, ProviderError) else _joined(p, asking) for p in parts_of]


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


def _score_remotely(
    missing: Sequence[bytes],
    requests: Mapping[bytes, RerankInput],
    scorer: RemoteScorer,
    asking: Asking,
) -> None:
    async def score(key: bytes, send: RerankRequest) -> None:
        query, passages, _ = requests[key]
        try:
            with asked_again(asking.failures.get(key, 0)):
                scores, used = await send(query, list(passages))
        except CallsStoppedError:
            raise
        except ProviderError as error:
            asking.fail({key: error})
        else:
            await asking.store({key: _pack(scores)}, {key: used})

    async def score_all() -> None:
        async with scorer.connect() as send:
            work = partial(score, send=send)
            await run_bounded(asking.claim(missing), work, scorer.max_concurrency)

    run_calls(score_all())


def _score_here(
    missing: Sequence[bytes], requests: Mapping[bytes, RerankInput], scorer: Scorer, asking: Asking
) -> None:
    if not isinstance(scorer, LocalScorer):
        raise TypeError(f"{scorer.identity}: neither a LocalScorer nor a RemoteScorer")
    for key in asking.claim(missing):
        sent(1)
        try:
            asking.keep({key: _pack(scorer.score(*requests[key][:2]))})
        except CallsStoppedError:
            raise
        except ProviderError as error:
            asking.fail({key: error})


def _pack(scores: Sequence[float]) -> bytes:
    return np.array(scores, np.float64).tobytes()


def _joined(parts: Sequence[bytes], asking: Asking) -> Relevance:
    errors = [asking.failed[key] for key in parts if key in asking.failed]
    content = b"".join(asking.answers.get(key, b"") for key in parts)
    return errors[0] if errors else np.frombuffer(content, np.float64).tolist()


def _expected_tokens(asked: RerankInput) -> ChargedTokens:
    question = estimate_tokens(asked.query)
    tokens = sum(question + estimate_tokens(passage) for passage in asked.passages)
    return ChargedTokens(tokens, searches=-(-len(asked.passages) // _PER_SEARCH))


def _key(scorer: Scorer, asked: RerankInput) -> bytes:
    return call_key("rerank", scorer.identity, json.dumps(asked))
