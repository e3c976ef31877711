"""Texts -> vectors, and vectors of their tokens, each distinct text embedded once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.calls import (
    CallCache,
    CallCounts,
    Claims,
    asked_again,
    call_key,
    count_calls,
    run_bounded,
    run_calls,
)
from rag_pipeline.calls.cache import NO_USAGE
from rag_pipeline.calls.costs import ChargedTokens, estimate_tokens
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config.models import (
    Embedder,
    InputType,
    LocalEmbedder,
    RemoteEmbedder,
    TokenEmbedder,
    Tokens,
)
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import (
    CallsStoppedError,
    PaidInVainError,
    ProviderError,
    TextsFailedError,
    TransientError,
    UnknownReplyError,
)

_REFUSED_ALIKE = 3
"""Number of texts that are refused singly, with none accepted, before the request is blamed."""


class Embedded(NamedTuple):
    """What a model made of some texts, in their order."""

    vectors: Vectors
    """Shape (texts, dimension), unit length."""
    tokens: Sequence[bytes]
    """Each text's tokens, packed: see `read_signs` for documents and `read_tokens` for queries.

    Empty bytes of a model that tells none.
    """


def embed(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
) -> Vectors:
    """Return the texts' vectors, shape (texts, dimension), unit length: see `embed_tokens`."""
    return embed_tokens(texts, embedder, cache, input_type, counts).vectors


def embed_tokens(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
    documents: Sequence[str] | None = None,
) -> Embedded:
    """Return the texts' vectors and packed tokens.

    Texts that were embedded before, or stand here twice, are not sent again; each request's
    vectors are committed before its slot takes the next one. `documents` tells each text's
    document, the chunks of one following each other, to models that embed them together.
    Raises TextsFailedError when all other texts are embedded and some could not be, ProviderError
    when the model returns vectors of a wrong count, dimension or value, CallsStoppedError when no
    call can work, and TextTooLongError before anything is sent.
    """
    inputs = _inputs(texts, embedder, input_type, documents)
    keys = [_key(texts, embedder, input_type) for texts in inputs]
    distinct = dict(zip(keys, inputs, strict=True))
    if isinstance(cache, RecordingCache):
        _note(distinct, embedder, cache)
    elif not isinstance(embedder, RemoteEmbedder):
        cache = cache.of_local_models()
    known = {
        key: value
        for key, value in cache.get(list(distinct)).items()
        # One vector alone was stored for a text that is spelt like these.
        if len(distinct[key]) == 1 or len(value) == len(distinct[key]) * embedder.dimension * 4
    }
    missing = [key for key in distinct if key not in known]
    advance("texts", len(texts) - sum(len(distinct[key]) for key in missing))
    sent: list[bytes] = []
    try:
        if missing:
            with Claims(cache) as claims:
                _embed_missing(missing, distinct, embedder, input_type, claims, known, sent)
    finally:
        if counts is not None:
            counts.add(count_calls(keys, known, sent))
    size = embedder.dimension * 4
    values: list[bytes] = []
    for key, together in zip(keys, inputs, strict=True):
        value = known[key]
        several = len(together) > 1  # then there are vectors alone
        values.extend(
            [value[i * size :][:size] for i in range(len(together))] if several else [value]
        )
    flat = np.frombuffer(b"".join(value[:size] for value in values), np.float32)
    vectors = flat.reshape(len(texts), embedder.dimension)
    return Embedded(vectors, [value[size:] for value in values])


def _note(inputs: Mapping[bytes, Sequence[str]], embedder: Embedder, cache: RecordingCache) -> None:
    """Note the inputs of a dry run; raise UnknownReplyError unless all their vectors are known."""

    def tokens(key: bytes) -> ChargedTokens:
        return ChargedTokens(sum(estimate_tokens(text) for text in inputs[key]))

    if cache.note("embedding", list(inputs), tokens) or not cache.reads:
        raise UnknownReplyError(f"{embedder.identity}: not embedded yet")


def _embed_missing(
    missing: Sequence[bytes],
    inputs: Mapping[bytes, Sequence[str]],
    embedder: Embedder,
    input_type: InputType,
    claims: Claims,
    known: dict[bytes, bytes],
    sent: list[bytes],
) -> None:
    """Embed what nobody else is embedding, then take the answers of the others."""

    def keep(
        batch: Sequence[bytes], made: Embedded, used: Mapping[bytes, Usage] = NO_USAGE
    ) -> None:
        rows = zip(made.vectors, made.tokens, strict=True)
        answers = {
            key: b"".join(v.tobytes() + t for v, t in islice(rows, len(inputs[key])))
            for key in batch
        }
        claims.cache.put(answers, used)
        known.update(answers)
        sent.extend(batch)
        advance("texts", len(made.vectors))

    failed: dict[bytes, ProviderError] = {}
    while missing:
        others: list[bytes] = []
        if isinstance(embedder, RemoteEmbedder):
            # All of them now, so that what is too long is told before it costs.
            # What failed in an earlier run is sent alone, so that it does not fail others again.
            failures = claims.cache.failures(missing)
            fresh = [key for key in missing if key not in failures]
            batches = list(embedder.batches([inputs[key] for key in fresh]))
            groups = [[fresh[i] for i in batch] for batch in batches] + [[k] for k in failures]
            mine = claims.draw(groups, others)
            of_mine: dict[bytes, ProviderError] = {}
            requests = _request_all(mine, inputs, embedder, input_type, keep, failures, of_mine)
            try:
                run_calls(requests)
            except CallsStoppedError:
                # All texts of one document may be refused: they stop no second run.
                claims.cache.fail([k for k, e in of_mine.items() if type(e) is ProviderError])
                raise
            claims.cache.fail(list(of_mine))
            claims.give_up(list(of_mine))
            failed |= of_mine
        else:
            local = _local(embedder)
            alone = local.batches([inputs[key][0] for key in missing])
            for batch in claims.draw(([missing[i] for i in b] for b in alone), others):
                keep(batch, request([inputs[key][0] for key in batch], local, input_type))
        missing = claims.wait(others, known)
        answered = set(others).difference(missing)
        advance("texts", sum(len(inputs[key]) for key in answered))
    if failed:
        raise TextsFailedError({text: e for key, e in failed.items() for text in inputs[key]})


async def _request_all(
    batches: Iterator[list[bytes]],
    inputs: Mapping[bytes, Sequence[str]],
    embedder: RemoteEmbedder,
    input_type: InputType,
    keep: Callable[[Sequence[bytes], Embedded, Mapping[bytes, Usage]], None],
    failures: Mapping[bytes, int],
    failed: dict[bytes, ProviderError],
) -> None:
    """Embed inputs with many requests in flight; add those that failed to `failed`.

    Where a request fails, its halves are sent, until the inputs that it failed on stand alone.
    Inputs whose vectors can't be used are sent once more; the others of the reply are kept.
    """
    unusable: set[bytes] = set()
    kept = refused = 0

    def give_up(part: Sequence[bytes], error: ProviderError) -> None:
        nonlocal refused
        failed.update(dict.fromkeys(part, error))
        refused += sum(key not in failures for key in part)
        if not kept and refused >= _REFUSED_ALIKE:
            # It is the request and not a text that is refused, or nothing can be read.
            raise CallsStoppedError(
                f"{error}; the same for each of {refused} texts and no text was embedded: "
                f"check the model's settings"
            ) from None

    def take(part: Sequence[bytes], vectors: Vectors, used: Usage) -> list[bytes]:
        """Keep what can be used of a reply; return the inputs of which it can't."""
        nonlocal kept
        counts = [len(inputs[key]) for key in part]
        _check_shape(vectors, sum(counts), embedder)
        good = np.logical_and.reduceat(
            np.isfinite(vectors).all(axis=1), np.cumsum([0, *counts[:-1]])
        )
        mine = [key for key, fine in zip(part, good, strict=True) if fine]
        usable = vectors[np.repeat(good, counts)]
        shares = _shares(used, {key: inputs[key] for key in part})
        keep(mine, Embedded(usable, [b""] * len(usable)), shares)
        kept += len(mine)
        return [key for key, fine in zip(part, good, strict=True) if not fine]

    async def one(batch: list[bytes]) -> None:
        parts = [batch]
        while parts:
            part = parts.pop()
            # A part of what has failed is not tried for long: one of them will fail again.
            earlier = failures.get(part[0], 0) if len(part) == len(batch) else 1
            try:
                with asked_again(earlier):
                    vectors, used = await send([inputs[key] for key in part], input_type)
            except (TransientError, CallsStoppedError):
                raise
            except ProviderError as error:
                if len(part) > 1 and not isinstance(error, PaidInVainError):
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
                else:
                    give_up(part, error)
                continue
            bad = take(part, vectors, used)
            if again := [key for key in bad if key not in unusable]:
                parts.append(again)
            elif bad:
                what = "returned twice a vector that is not finite or has no length"
                give_up(bad, ProviderError(f"{embedder.identity}: {what}"))
            unusable.update(bad)

    async with embedder.connect() as send:
        await run_bounded(batches, one, embedder.max_concurrency)


def _shares(used: Usage, inputs: Mapping[bytes, Sequence[str]]) -> dict[bytes, Usage]:
    """Return about what each input used of a request's tokens, by its length; all are given out."""
    sizes = np.cumsum([sum(len(text.encode()) for text in texts) for texts in inputs.values()])
    ends = np.rint(sizes / max(int(sizes[-1]), 1) * used.input_tokens).astype(int)
    shares = np.diff(ends, prepend=0).tolist()
    return {key: Usage(share) for key, share in zip(inputs, shares, strict=True)}


def request(texts: Sequence[str], embedder: LocalEmbedder, input_type: InputType) -> Embedded:
    """Embed the texts of one request, past the cache."""
    if not isinstance(embedder, TokenEmbedder):
        vectors = embedder.embed(texts, input_type)
        _check(vectors, len(texts), embedder)
        return Embedded(vectors, [b""] * len(texts))
    vectors, tokens = embedder.embed_tokens(texts, input_type)
    _check(vectors, len(texts), embedder)
    pack = _pack_signs if input_type == "document" else _pack_tokens
    return Embedded(vectors, [pack(t) for t in tokens])


def embed_queries(texts: Sequence[str], embedder: Embedder, cache: CallCache) -> Embedded:
    """Embed a few queries: through the cache where they are paid for, else past it."""
    if isinstance(embedder, RemoteEmbedder):
        return embed_tokens(texts, embedder, cache, "query")
    return request(texts, _local(embedder), "query")


def read_signs(packed: bytes, dimension: int) -> tuple[npt.NDArray[np.uint32], bytes]:
    """Return a document's token ids, and one bit per token and dimension: whether it is above 0."""
    count = len(packed) // (4 + dimension // 8)
    return np.frombuffer(packed, np.uint32, count), packed[4 * count :]


def read_tokens(packed: bytes, dimension: int) -> Tokens:
    """Return a query's tokens."""
    count = len(packed) // (4 + 2 * dimension)
    vectors = np.frombuffer(packed, np.float16, offset=4 * count).reshape(count, dimension)
    return Tokens(np.frombuffer(packed, np.uint32, count), vectors.astype(np.float32))


def _pack_signs(tokens: Tokens) -> bytes:
    return tokens.ids.tobytes() + np.packbits(tokens.vectors > 0, axis=1).tobytes()


def _pack_tokens(tokens: Tokens) -> bytes:
    return tokens.ids.tobytes() + tokens.vectors.astype(np.float16).tobytes()


def _inputs(
    texts: Sequence[str], embedder: Embedder, input_type: InputType, documents: Sequence[str] | None
) -> list[tuple[str, ...]]:
    """Return the texts as the model takes them: each alone, or those of a document together."""
    if documents is None or input_type == "query" or not isinstance(embedder, RemoteEmbedder):
        return [(text,) for text in texts]
    inputs: list[tuple[str, ...]] = []
    pairs = zip(documents, texts, strict=True)
    for _, chunks in groupby(pairs, key=itemgetter(0)):
        inputs.extend(embedder.parts([text for _, text in chunks]))
    return inputs


def _key(texts: Sequence[str], embedder: Embedder, input_type: InputType) -> bytes:
    # The vector of a chunk among others depends on all of them: they are one call, with one key.
    content = texts[0] if len(texts) == 1 else json.dumps(texts)
    if len(texts) == 1 and _is_like_several(content):
        content = f"\0{content}"
    # A model may tell another part of a query than an earlier version did.
    version = getattr(embedder, "query_version", 1) if input_type == "query" else 1
    kind = f"embed:{input_type}" if version == 1 else f"embed:{input_type}:{version}"
    return call_key(kind, embedder.identity, content)


def _is_like_several(text: str) -> bool:
    """Tell whether a text is spelt like the texts of a call with several of them."""
    if not text.startswith('["'):
        return False
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return len(read) > 1 and json.dumps(read) == text and all(isinstance(t, str) for t in read)


def _local(embedder: Embedder) -> LocalEmbedder:
    if not isinstance(embedder, LocalEmbedder):
        raise TypeError(f"{embedder.identity} is neither a local nor a remote embedder")
    return embedder


def _check(vectors: Vectors, count: int, embedder: Embedder) -> None:
    _check_shape(vectors, count, embedder)
    if not np.isfinite(vectors).all():
        raise ProviderError(f"{embedder.identity}: returned a vector that is not finite")


def _check_shape(vectors: Vectors, count: int, embedder: Embedder) -> None:
    if vectors.shape != (count, embedder.dimension):
        raise ProviderError(
            f"{embedder.identity}: expected vectors of shape ({count}, {embedder.dimension}), "
            f"got {vectors.shape}"
        )
