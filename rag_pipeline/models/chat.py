"""Prompts -> replies of a chat model, each distinct prompt asked once."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

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
from rag_pipeline.calls.costs import (
    USUAL_OUTPUT,
    ChargedTokens,
    cancel_reservations,
    estimate_tokens,
    framing_tokens,
    keep_reservations,
    measuring,
    request_texts,
    request_tokens,
    reserve_batch,
    settling,
    usual_output,
)
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import ChatSettings, RemoteModel
from rag_pipeline.datamodels import Prompt as Prompt
from rag_pipeline.datamodels import Reply as Reply
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, ProviderError, UnknownReplyError
from rag_pipeline.models.batches import BatchNotes, run_batches
from rag_pipeline.models.providers.batching import BatchedChat
from rag_pipeline.models.replies import Chats, ask_one, is_cut, pack, unpack, unpack_first
from rag_pipeline.models.replies import read_reply as read_reply

Ask = Callable[[Sequence[Prompt]], list[Reply | ProviderError]]
"""From prompts to a reply or a failure for each, in their order."""

_PER_CLAIM = 32


@dataclass(frozen=True, slots=True)
class UnknownReply(Reply):
    """Stands in a dry run for a text that was not asked for yet: unlike others, of usual length."""


def ask(
    prompts: Sequence[Prompt],
    settings: ChatSettings,
    cache: CallCache,
    counts: CallCounts | None = None,
) -> list[Reply | ProviderError]:
    """Return a reply per prompt, or the ProviderError that it failed with, in their order.

    Prompts that were answered before, stand here twice, or are being asked by another run are
    not sent again; each reply is stored when it arrives, a failure never. Raises
    CallsStoppedError when no call can work: a wrong key, model or address, or a provider that is
    down.
    """
    keys = [_key(settings, prompt) for prompt in prompts]
    distinct = dict(zip(keys, prompts, strict=True))
    if isinstance(cache, RecordingCache):
        replies = _note(distinct, settings, cache)
        return [replies[key] for key in keys]
    known: dict[bytes, Reply | ProviderError] = {
        key: unpack(value) for key, value in cache.get(list(distinct)).items()
    }
    missing = [key for key in distinct if key not in known]
    advance("calls", len(prompts) - len(missing))
    sent: list[bytes] = []
    try:
        if missing and settings.batch:
            sent.extend(missing)
            asked = {key: distinct[key] for key in missing}
            missing = _ask_in_batches(asked, settings, cache, known)
        if missing:
            with Claims(cache) as claims:
                _ask_missing(missing, distinct, settings, claims, known, sent)
    finally:
        if counts is not None:
            counts.add(count_calls(keys, known, sent))
    return [known[key] for key in keys]


def _ask_missing(
    missing: Sequence[bytes],
    prompts: Mapping[bytes, Prompt],
    settings: ChatSettings,
    claims: Claims,
    known: dict[bytes, Reply | ProviderError],
    sent: list[bytes],
) -> None:
    """Ask what nobody else is asking, then take the answers of the others."""
    while missing:
        others: list[bytes] = []
        chats = Chats(settings)
        ordered = list(_in_warm_order(missing, prompts, chats.usual.max_concurrency))
        groups = (ordered[i : i + _PER_CLAIM] for i in range(0, len(ordered), _PER_CLAIM))
        mine = chain.from_iterable(claims.draw(groups, others))
        run_calls(_ask_all(mine, prompts, chats, claims, known, sent))
        found: dict[bytes, bytes] = {}
        missing = claims.wait(others, found)
        known.update({key: unpack(value) for key, value in found.items()})
        advance("calls", len(found))


def _ask_in_batches(
    prompts: Mapping[bytes, Prompt],
    settings: ChatSettings,
    cache: CallCache,
    known: dict[bytes, Reply | ProviderError],
) -> list[bytes]:
    """Ask through the provider's Batch API; return the prompts whose replies are cut or wrong."""
    chat = settings.open()
    if not isinstance(chat, BatchedChat):
        raise CallsStoppedError(f"{chat.identity}: it has no batches; leave `batch` out")
    address = settings.base_url if isinstance(settings, RemoteModel) else None
    invalid: list[bytes] = []
    names = {key: f"batched {key.hex()}" for key in prompts}

    def done(key: bytes, body: dict[str, Any], call_id: str) -> None:
        texts = request_texts(prompts[key].messages, prompts[key].schema)
        with settling(names[key]), measuring(texts):
            completion = chat.read_batched(body, call_id)
        try:
            if is_cut(completion, prompts[key]):
                raise ValueError(completion.cut)
            data = read_reply(completion.text, prompts[key])
        except ValueError:
            cache.put({_first_key(key): pack(completion)})  # the repair begins with it
            invalid.append(key)
            return
        reply = known[key] = Reply(completion.text, data, completion.usage)
        cache.put({key: pack(reply)})

    def may_submit(keys: Sequence[bytes], wait: bool) -> list[bytes]:
        asked = {
            names[key]: request_tokens(
                prompts[key].messages, prompts[key].schema, settings.max_output_tokens
            )
            for key in keys
        }
        fitting = set(reserve_batch(settings.provider, settings.model, asked, address, wait=wait))
        return [key for key in keys if names[key] in fitting]

    def ended(keys: Iterable[bytes]) -> None:
        cancel_reservations([names[key] for key in keys])

    def request(key: bytes) -> dict[str, Any]:
        return chat.request(prompts[key].messages, prompts[key].schema)

    notes = BatchNotes(cache)
    client = chat.batches()
    try:
        poll = settings.batch_poll_seconds
        failed = run_batches(list(prompts), request, client, notes, done, poll, may_submit, ended)
        known.update(failed)
    except BaseException:
        keep_reservations(list(names.values()))  # a batch may run on: its end settles what it costs
        raise
    finally:
        client.close()
    return invalid


async def _ask_all(
    keys: Iterator[bytes],
    prompts: Mapping[bytes, Prompt],
    chats: Chats,
    claims: Claims,
    known: dict[bytes, Reply | ProviderError],
    sent: list[bytes],
) -> None:
    warm: dict[str, asyncio.Event] = {}
    failures = claims.cache.failures(list(prompts))
    firsts = claims.cache.get([_first_key(key) for key in prompts])

    async def one(key: bytes) -> None:
        prompt = prompts[key]
        is_first = bool(prompt.prefix) and prompt.prefix not in warm
        if is_first:
            warm[prompt.prefix] = asyncio.Event()
        elif prompt.prefix:
            await warm[prompt.prefix].wait()
        sent.append(key)
        try:
            with asked_again(failures.get(key, 0)):
                first = firsts.get(_first_key(key))
                mended = None if first is None else unpack_first(first)
                reply = await ask_one(
                    prompt,
                    chats,
                    mended,
                    lambda made: claims.cache.put({_first_key(key): pack(made)}),
                )
        except CallsStoppedError:
            raise
        except ProviderError as error:
            known[key] = error
            claims.cache.fail([key])
            claims.give_up([key])
        else:
            claims.cache.put({key: pack(reply)})
            known[key] = reply
        finally:
            if is_first:
                warm[prompt.prefix].set()
        advance("calls", 1)

    try:
        await run_bounded(keys, one, chats.usual.max_concurrency)
    finally:
        await chats.close()


def _in_warm_order(
    keys: Sequence[bytes], prompts: Mapping[bytes, Prompt], width: int
) -> Iterator[bytes]:
    """Yield the keys of prompts so that a provider's prompt cache serves their prefixes.

    The first prompts of `width` prefixes come before the others of these prefixes, which wait
    for its answer. Prompts of one prefix stay together, as a cache holds the prefixes that were
    used last.
    """
    groups: dict[str, list[bytes]] = {}
    for key in keys:
        groups.setdefault(prompts[key].prefix, []).append(key)
    yield from groups.pop("", [])
    ordered = list(groups.values())
    for start in range(0, len(ordered), width):
        wave = ordered[start : start + width]
        yield from (group[0] for group in wave)
        yield from (key for group in wave for key in group[1:])


def _note(
    prompts: Mapping[bytes, Prompt], settings: ChatSettings, cache: RecordingCache
) -> dict[bytes, Reply | ProviderError]:
    """Note the prompts of a dry run; return the known replies, and what stands for the others."""
    prefixes: set[str] = set()

    def tokens(key: bytes) -> ChargedTokens:
        prompt = prompts[key]
        is_first = prompt.prefix not in prefixes
        prefixes.add(prompt.prefix)
        return expected_tokens(prompt, settings, is_first)

    missing = cache.note("chat", list(prompts), tokens, settings)
    if missing and not cache.stands_in:
        raise UnknownReplyError(f"{settings.model}: not asked yet")
    known = cache.get(list(prompts))
    replies: dict[bytes, Reply | ProviderError] = {k: unpack(v) for k, v in known.items()}
    for key in missing:
        prompt = prompts[key]
        if prompt.schema is not None or prompt.choices:
            replies[key] = UnknownReplyError(f"{settings.model}: not asked yet")
        else:
            usual = f"{key.hex()} ".ljust(4 * USUAL_OUTPUT, "x")
            replies[key] = UnknownReply(usual, None, Usage())
    return replies


def expected_tokens(prompt: Prompt, settings: ChatSettings, is_first: bool) -> ChargedTokens:
    """Return about what a call would use; `is_first` of the prompts that share its prefix.

    OpenAI's prompt cache serves prefixes of 1,024 tokens and more, in steps of 128; what it
    serves in a batch nobody promises.
    """
    whole = sum(map(estimate_tokens, request_texts(prompt.messages, prompt.schema)))
    whole += framing_tokens(len(prompt.messages))
    prefix = estimate_tokens(prompt.system + prompt.prefix)
    cold = is_first or settings.batch or prefix < 1024
    output = usual_output(settings.max_output_tokens)
    return ChargedTokens(whole, 0 if cold else prefix // 128 * 128, output)


def _key(settings: ChatSettings, prompt: Prompt) -> bytes:
    asked = [prompt.messages, prompt.schema, *([prompt.choices] if prompt.choices else [])]
    content = json.dumps(asked, sort_keys=True)
    return call_key("chat", settings.identity, content)


def _first_key(key: bytes) -> bytes:
    """Return the key of a prompt's first reply, which is kept while it is repaired."""
    return call_key("chat, first reply", "", key.hex())
