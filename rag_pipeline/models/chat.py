"""Ask a chat model, and pay for each distinct prompt once."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rag_pipeline.calls import (
    Asking,
    CallCache,
    CallCounts,
    asked_again,
    call_key,
    costs,
    run_bounded,
    run_calls,
)
from rag_pipeline.calls.progress import advance
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import ChatSettings
from rag_pipeline.config.models import Completion
from rag_pipeline.datamodels import Prompt as Prompt
from rag_pipeline.datamodels import Reply as Reply
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, ProviderError, UnknownReplyError
from rag_pipeline.models.batches import ask_in_batches
from rag_pipeline.models.replies import (
    CHOICE_TOKENS,
    Chats,
    ask_one,
    first_key,
    pack,
    unpack,
    unpack_first,
)
from rag_pipeline.models.replies import read_reply as read_reply

Ask = Callable[[Sequence[Prompt]], list[Reply | ProviderError]]
"""A function that returns a reply or an error for each prompt, in order."""


@dataclass(frozen=True, slots=True)
class UnknownReply(Reply):
    """A stand-in for a reply in a dry run, which makes no calls. Its text has the usual length."""


def ask(
    prompts: Sequence[Prompt],
    settings: ChatSettings,
    cache: CallCache,
    counts: CallCounts | None = None,
) -> list[Reply | ProviderError]:
    """Return for each prompt, in order, its reply or its ProviderError.

    Even concurrent runs send each distinct prompt only once. The call cache stores each reply when
    it arrives. The next run sends failed prompts again. Raise CallsStoppedError if every call
    fails, because the key, model or address is wrong, or the provider is down.
    """
    keys = [_key(settings, prompt) for prompt in prompts]
    distinct = dict(zip(keys, prompts, strict=True))
    if isinstance(cache, RecordingCache):
        replies = _note(distinct, settings, cache)
        return [replies[key] for key in keys]
    asking = Asking(distinct, cache, lambda done: advance("calls", len(done)))
    advance("calls", len(prompts) - len(asking.missing))
    try:
        if asking.missing and settings.batch:
            ask_in_batches(distinct, settings, asking)
        asking.run(partial(_ask_missing, prompts=distinct, settings=settings, asking=asking))
    finally:
        if counts is not None:
            counts.add(asking.counts(keys))
    return [asking.failed.get(key) or unpack(asking.answers[key]) for key in keys]


def _ask_missing(
    missing: Sequence[bytes],
    prompts: Mapping[bytes, Prompt],
    settings: ChatSettings,
    asking: Asking,
) -> None:
    """Send the missing prompts concurrently, but wait for the first reply of each prefix."""
    cache = asking.cache
    firsts = cache.get([first_key(key) for key in missing])
    chats = Chats(settings)
    concurrency = chats.usual.max_concurrency
    warm: dict[str, asyncio.Event] = {}

    def keep_first(key: bytes, completion: Completion) -> None:
        cache.put({first_key(key): pack(completion)})

    async def ask_prompt(key: bytes) -> None:
        prompt, first = prompts[key], firsts.get(first_key(key))
        prefix = prompt.prefix
        is_first = bool(prefix) and prefix not in warm
        if is_first:
            warm[prefix] = asyncio.Event()
        elif prefix:
            await warm[prefix].wait()
        try:
            with asked_again(asking.failures.get(key, 0)):
                kept = None if first is None else unpack_first(first)
                reply = await ask_one(prompt, chats, kept, partial(keep_first, key))
            await asking.store({key: pack(reply)})
        except CallsStoppedError:
            raise
        except ProviderError as error:
            asking.fail({key: error})
        finally:
            if is_first:
                warm[prefix].set()

    async def ask_all() -> None:
        ordered = list(_in_warm_order(missing, prompts, concurrency))
        try:
            await run_bounded(asking.claim(ordered), ask_prompt, concurrency)
        finally:
            await chats.close()

    run_calls(ask_all())


def _in_warm_order(
    keys: Sequence[bytes], prompts: Mapping[bytes, Prompt], width: int
) -> Iterator[bytes]:
    """Yield keys in waves of `width` prefixes: the first prompts of all, then the other prompts."""
    # Prompts of a prefix stay together, because a provider's prompt cache holds few prefixes.
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
    """Record the prompts of a dry run. Return stored replies, stand-ins and errors by key."""
    prefixes: set[str] = set()
    unknown = UnknownReplyError(f"{settings.model}: no reply yet in a dry run")

    def tokens(key: bytes) -> costs.ChargedTokens:
        prompt = prompts[key]
        is_first = prompt.prefix not in prefixes
        prefixes.add(prompt.prefix)
        return expected_tokens(prompt, settings, is_first)

    missing = cache.note("chat", list(prompts), tokens, settings)
    if missing and not cache.stands_in:
        raise unknown
    known = cache.get(list(prompts))
    replies: dict[bytes, Reply | ProviderError] = {k: unpack(v) for k, v in known.items()}
    for key in missing:
        prompt = prompts[key]
        if prompt.schema is not None or prompt.choices:
            replies[key] = unknown
        else:
            usual = f"{key.hex()} ".ljust(4 * cache.missing["chat"][key].output, "x")
            replies[key] = UnknownReply(usual, None, Usage())
    return replies


def expected_tokens(prompt: Prompt, settings: ChatSettings, is_first: bool) -> costs.ChargedTokens:
    """Estimate the tokens of a call. `is_first` means that no earlier prompt has the same prefix.

    OpenAI's prompt cache serves prefixes of 1,024 tokens and more, in steps of 128. The estimate of
    batched calls has no cached tokens.
    """
    whole = sum(map(costs.estimate_tokens, costs.request_texts(prompt.messages, prompt.schema)))
    whole += costs.framing_tokens(len(prompt.messages))
    before = (message["content"] for message in prompt.messages[:-1])
    prefix = costs.estimate_tokens("".join(before) + prompt.prefix)
    cold = is_first or settings.batch or prefix < 1024
    most = settings.max_output_tokens
    output = costs.usual_output(min(most, CHOICE_TOKENS) if prompt.choices else most)
    return costs.ChargedTokens(whole, 0 if cold else prefix // 128 * 128, output)


def _key(settings: ChatSettings, prompt: Prompt) -> bytes:
    asked = [prompt.messages, prompt.schema, *([prompt.choices] if prompt.choices else [])]
    return call_key("chat", settings.identity, json.dumps(asked, sort_keys=True))
