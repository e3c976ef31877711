"""Embed texts and their tokens, each distinct text once."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.calls import (
    PROBE,
    TRIES_OF_A_PROBE,
    Asking,
    CallCache,
    CallCounts,
    Sending,
    call_key,
    run_bounded,
    run_calls,
    sent_as,
)
from rag_pipeline.calls.costs import ChargedTokens, estimate_tokens, sent
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config.models import (
    Embedder,
    EmbedRequest,
    InputType,
    LocalEmbedder,
    RemoteEmbedder,
    TokenEmbedder,
    Tokens,
)
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import (
    CallsStoppedError,
    GivenUpError,
    ProviderError,
    TextsFailedError,
    TransientError,
    UnknownReplyError,
)

_REFUSED_ALIKE = 3
"""Number of failed inputs that cause a probe before the first accepted input, or at the end."""
_FAILED_IN_A_ROW = 20
"""Number of failed inputs in a row that cause a probe after an accepted input."""


class Embedded(NamedTuple):
    """The vectors and tokens of some texts, in the order of the texts."""

    vectors: Vectors
    """Shape (texts, dimension), unit length."""
    tokens: Sequence[bytes]
    """Each text's packed tokens (see `read_signs` and `read_tokens`), b"" without token vectors."""


def embed(
    texts: Sequence[str],
    embedder: Embedder,
    cache: CallCache,
    input_type: InputType = "document",
    counts: CallCounts | None = None,
) -> Vectors:
    """Return the texts' unit vectors, shape (texts, dimension). See `embed_tokens`."""
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

    Each distinct text is sent once. The vectors of a request are stored before its worker sends
    another request. For contextual models, `documents` has the document of each text. The chunks of
    a document must be adjacent.

    Raise TextsFailedError if some texts fail and all others are embedded. Raise ProviderError if
    vectors have a wrong count, dimension or value. Raise CallsStoppedError if every call fails.
    Raise TextTooLongError before the first request.
    """
    inputs = _inputs(texts, embedder, input_type, documents)
    keys = [_key(texts, embedder, input_type) for texts in inputs]
    distinct = dict(zip(keys, inputs, strict=True))
    if isinstance(cache, RecordingCache):
        _note(distinct, embedder, cache)
    elif not isinstance(embedder, RemoteEmbedder):
        cache = cache.of_local_models()
    asking = Asking(distinct, cache, lambda d: advance("texts", sum(len(distinct[k]) for k in d)))
    advance("texts", len(texts) - sum(len(distinct[key]) for key in asking.missing))
    try:
        if isinstance(embedder, RemoteEmbedder):
            asking.run(lambda new: _embed_remotely(new, distinct, embedder, input_type, asking))
        else:
            local = _local(embedder)
            asking.run(lambda new: _embed_here(new, distinct, local, input_type, asking))
    finally:
        if counts is not None:
            counts.add(asking.counts(keys))
    if asking.failed:
        raise TextsFailedError({t: e for key, e in asking.failed.items() for t in distinct[key]})
    size = embedder.dimension * 4
    values: list[bytes] = []
    for key, together in zip(keys, inputs, strict=True):
        value = asking.answers[key]
        several = len(together) > 1  # such inputs have no tokens
        values.extend(
            [value[i * size :][:size] for i in range(len(together))] if several else [value]
        )
    flat = np.frombuffer(b"".join(value[:size] for value in values), np.float32)
    vectors = flat.reshape(len(texts), embedder.dimension)
    return Embedded(vectors, [value[size:] for value in values])


def _note(inputs: Mapping[bytes, Sequence[str]], embedder: Embedder, cache: RecordingCache) -> None:
    """Record the inputs of a dry run. Raise UnknownReplyError if a vector is unknown."""

    def tokens(key: bytes) -> ChargedTokens:
        return ChargedTokens(sum(estimate_tokens(text) for text in inputs[key]))

    if cache.note("embedding", list(inputs), tokens) or not cache.reads:
        raise UnknownReplyError(f"{embedder.identity}: no vector yet in a dry run")


def _embed_here(
    missing: Sequence[bytes],
    inputs: Mapping[bytes, Sequence[str]],
    embedder: LocalEmbedder,
    input_type: InputType,
    asking: Asking,
) -> None:
    batches = embedder.batches([inputs[key][0] for key in missing])
    for batch in asking.claim_groups([missing[i] for i in batch] for batch in batches):
        sent(len(batch))
        made = request([inputs[key][0] for key in batch], embedder, input_type)
        rows = zip(batch, made.vectors, made.tokens, strict=True)
        asking.keep({key: vector.tobytes() + tokens for key, vector, tokens in rows})


def _embed_remotely(
    missing: Sequence[bytes],
    inputs: Mapping[bytes, Sequence[str]],
    embedder: RemoteEmbedder,
    input_type: InputType,
    asking: Asking,
) -> None:
    """Embed inputs with concurrent requests. Send an input with an unusable vector once more."""
    # All batches are made first: a text that is too long must raise an error before any cost.
    # An input that failed in an earlier run is sent alone, so other inputs do not fail with it.
    failures = asking.failures
    fresh = [key for key in missing if key not in failures]
    batches = list(embedder.batches([inputs[key] for key in fresh]))
    groups = [[fresh[i] for i in batch] for batch in batches] + [[key] for key in failures]
    failed: dict[bytes, ProviderError] = {}
    in_a_row: list[bytes] = []
    unusable: set[bytes] = set()
    said = "twice a vector of length 0, of a wrong dimension or not finite"
    unfit_error = ProviderError(f"{embedder.identity}: {said}")
    kept = 0

    async def works(send: EmbedRequest) -> bool:
        for _ in range(TRIES_OF_A_PROBE):
            try:
                with sent_as(Sending(once=True)):
                    vectors, _ = await send([(PROBE,)], input_type)
                return bool(np.isfinite(vectors).all())
            except GivenUpError:
                continue
            except ProviderError:
                return False
        return False

    async def give_up(part: Sequence[bytes], error: ProviderError, send: EmbedRequest) -> None:
        failed.update(dict.fromkeys(part, error))
        in_a_row.extend(key for key in part if key not in failures)
        if len(in_a_row) >= (_FAILED_IN_A_ROW if kept else _REFUSED_ALIKE):
            await blame_texts(send)

    async def blame_texts(send: EmbedRequest) -> None:
        """Send the probe, and raise CallsStoppedError if the probe also fails."""
        nonlocal kept
        if await works(send):
            kept += 1
            in_a_row.clear()
            return
        raise CallsStoppedError(
            f"{failed[in_a_row[-1]]}; each of {len(in_a_row)} texts in a row failed, and no text "
            f"was embedded{' since' if kept else ''}: check the model's settings"
        ) from None

    async def take(part: Sequence[bytes], vectors: Vectors, used: Usage) -> list[bytes]:
        """Store the usable vectors of a reply. Return the inputs with unusable vectors."""
        nonlocal kept
        together = {key: inputs[key] for key in part}
        ends = np.cumsum([len(texts) for texts in together.values()])
        _check_shape(vectors, int(ends[-1]), embedder)
        rows = dict(zip(part, np.split(vectors, ends[:-1]), strict=True))
        good = {key: own.tobytes() for key, own in rows.items() if np.isfinite(own).all()}
        shares = _shares(used, together)
        if good:
            kept += len(good)
            in_a_row.clear()
        await asking.store(good, {key: shares[key] for key in good})
        return [key for key in part if key not in good]

    async def embed_batch(batch: list[bytes], send: EmbedRequest) -> None:
        """Embed a batch, and find its bad inputs by binary search.

        If a request fails or returns no usable vector, the first half of its inputs is sent next.
        If this half succeeds, the other half has the bad input and is halved. If this half fails,
        it is halved, and the other half waits in `rest`. So one bad input among n costs log2(n) + 2
        more requests. Before the first success, inputs are sent alone, and a probe distinguishes an
        outage from bad inputs.
        """
        rest, width, bad, up = list(batch), len(batch), 0, False
        put_off: list[bytes] = []  # inputs that failed before the first success
        sending = Sending()

        async def tried(part: list[bytes], once: bool = False) -> ProviderError | None:
            """Send inputs, and keep their vectors. Return the error of the request, or None."""
            if sending.once and len(part) == 1:
                sending.tries = sending.paid_in_vain = 0
            sending.once, sending.started = once or len(part) > 1, None
            try:
                with sent_as(sending):
                    vectors, used = await send([inputs[key] for key in part], input_type)
                unfit = await take(part, vectors, used)
                if len(unfit) == len(part) and (len(part) > 1 or part[0] in unusable):
                    unusable.update(unfit)
                    raise unfit_error  # one input may spoil all vectors
            except (TransientError, CallsStoppedError):
                raise
            except ProviderError as error:
                return error
            sending.tries = sending.paid_in_vain = 0
            rest.extend(key for key in unfit if key not in unusable)
            if twice := [key for key in unfit if key in unusable]:
                await give_up(twice, unfit_error, send)
            unusable.update(unfit)
            return None

        while rest or put_off:
            earlier, is_late = failures.get(batch[0], 0), not rest
            worked = is_late or up
            sending = Sending(
                earlier, suspect=earlier > 0 or worked, isolated=len(batch) > 1, tries=int(is_late)
            )
            part = rest[:width] or [put_off.pop()]
            rest = rest[width:]
            error = await tried(part, once=len(put_off) == 1 and not worked)
            while error and len(part) > 1:
                half, other = part[: len(part) // 2], part[len(part) // 2 :]
                once = not (worked or sending.suspect)
                if failure := await tried(half, once):
                    part, rest, error = half, other + rest, failure
                else:
                    part, worked = other, True
                    error = error if len(other) > 1 else await tried(other)
            worked |= sending.suspect
            if error is None:
                width = len(batch) if bad < 2 else min(len(batch), 4 * width)
            elif sending.once and isinstance(error, GivenUpError):
                put_off += part
                up, width = up or (len(put_off) > 1 and await works(send)), 1
            else:
                await give_up(part, error, send)
                bad += 1
                # After several bad inputs, requests get smaller, so fewer good inputs fail.
                width = 1 if not worked else len(batch) if bad == 1 else max(1, width // 4)

    async def embed_all() -> None:
        async with embedder.connect() as send:
            work = partial(embed_batch, send=send)
            await run_bounded(asking.claim_groups(groups), work, embedder.max_concurrency)
            if len(in_a_row) >= _REFUSED_ALIKE:
                await blame_texts(send)

    try:
        run_calls(embed_all())
    except CallsStoppedError:
        # The model failed, so its last texts may be good.
        for key in in_a_row:
            failed.pop(key, None)
        raise
    finally:
        # The next run sends failed texts alone.
        asking.fail(failed)


def _shares(used: Usage, inputs: Mapping[bytes, Sequence[str]]) -> dict[bytes, Usage]:
    """Divide a request's tokens among its inputs in proportion to their bytes."""
    sizes = np.cumsum([sum(len(text.encode()) for text in texts) for texts in inputs.values()])
    ends = np.rint(sizes / max(int(sizes[-1]), 1) * used.input_tokens).astype(int)
    shares = np.diff(ends, prepend=0).tolist()
    return {key: Usage(share) for key, share in zip(inputs, shares, strict=True)}


def request(texts: Sequence[str], embedder: LocalEmbedder, input_type: InputType) -> Embedded:
    """Embed texts in one batch with a local model, without the cache."""
    if not isinstance(embedder, TokenEmbedder):
        vectors = embedder.embed(texts, input_type)
        _check(vectors, len(texts), embedder)
        return Embedded(vectors, [b""] * len(texts))
    vectors, tokens = embedder.embed_tokens(texts, input_type)
    _check(vectors, len(texts), embedder)
    pack = _pack_signs if input_type == "document" else _pack_tokens
    return Embedded(vectors, [pack(t) for t in tokens])


def embed_queries(texts: Sequence[str], embedder: Embedder, cache: CallCache) -> Embedded:
    """Embed a few queries. The call cache stores only vectors of remote models."""
    if isinstance(embedder, RemoteEmbedder):
        return embed_tokens(texts, embedder, cache, "query")
    return request(texts, _local(embedder), "query")


def read_signs(packed: bytes, dimension: int) -> tuple[npt.NDArray[np.uint32], bytes]:
    """Unpack a document's token ids, and one sign bit per token and dimension (1 if positive)."""
    count = len(packed) // (4 + dimension // 8)
    return np.frombuffer(packed, np.uint32, count), packed[4 * count :]


def read_tokens(packed: bytes, dimension: int) -> Tokens:
    """Unpack a query's token ids and token vectors, shape (tokens, dimension)."""
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
    """Return the inputs of the model: single texts, or groups of chunks for a contextual model."""
    if documents is None or input_type == "query" or not isinstance(embedder, RemoteEmbedder):
        return [(text,) for text in texts]
    inputs: list[tuple[str, ...]] = []
    pairs = zip(documents, texts, strict=True)
    for _, chunks in groupby(pairs, key=itemgetter(0)):
        inputs.extend(embedder.parts([text for _, text in chunks]))
    return inputs


def _key(texts: Sequence[str], embedder: Embedder, input_type: InputType) -> bytes:
    # A contextual model embeds the chunks of a document together, in one call with one key.
    content = texts[0] if len(texts) == 1 else json.dumps(texts)
    if len(texts) == 1 and _is_like_several(content):
        content = f"\0{content}"
    # `query_version` is the version of a model's query tokens. A new version needs new keys.
    version = getattr(embedder, "query_version", 1) if input_type == "query" else 1
    kind = f"embed:{input_type}" if version == 1 else f"embed:{input_type}:{version}"
    return call_key(kind, embedder.identity, content)


def _is_like_several(text: str) -> bool:
    """Return whether a text looks like the key of several texts: a JSON list of texts."""
    if not text.startswith('["'):
        return False
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return len(read) > 1 and json.dumps(read) == text and all(isinstance(t, str) for t in read)


def _local(embedder: Embedder) -> LocalEmbedder:
    if not isinstance(embedder, LocalEmbedder):
        raise TypeError(f"{embedder.identity}: neither a LocalEmbedder nor a RemoteEmbedder")
    return embedder


def _check(vectors: Vectors, count: int, embedder: Embedder) -> None:
    _check_shape(vectors, count, embedder)
    if not np.isfinite(vectors).all():
        raise ProviderError(f"{embedder.identity}: a vector is not finite")


def _check_shape(vectors: Vectors, count: int, embedder: Embedder) -> None:
    if vectors.shape != (count, embedder.dimension):
        raise ProviderError(
            f"{embedder.identity}: expected vectors of shape ({count}, {embedder.dimension}), "
            f"got {vectors.shape}"
        )
