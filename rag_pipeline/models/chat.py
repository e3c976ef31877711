"""Prompts -> replies of a chat model, each distinct prompt asked once."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from rag_pipeline.config.models import Completion
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
    """Stands for a text of usual length that a dry run would have to ask for."""


def ask(
    prompts: Sequence[Prompt],
    settings: ChatSettings,
    cache: CallCache,
    counts: CallCounts | None = None,
) -> list[Reply | ProviderError]:
    """Return a reply per prompt, or the ProviderError that it failed with, in their order.

    Answered prompts, repeated prompts and prompts of another run in progress are not sent again.
    Each reply is stored when it arrives, a failure never. Raises CallsStoppedError if no call can
    work: a wrong key, model or address, or a provider that is down.
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


# --- one call a prompt ---


def _ask_missing(
    missing: Sequence[bytes],
    prompts: Mapping[bytes, Prompt],
    settings: ChatSettings,
    claims: Claims,
    known: dict[bytes, Reply | ProviderError],
    sent: list[bytes],
) -> None:
    """Ask the prompts that no other run asks, then take the answers of the other runs."""
    while missing:
        others: list[bytes] = []
        calls = _Calls(prompts, Chats(settings), claims, known, sent)
        ordered = list(_in_warm_order(missing, prompts, calls.chats.usual.max_concurrency))
        groups = (ordered[i : i + _PER_CLAIM] for i in range(0, len(ordered), _PER_CLAIM))
        run_calls(calls.ask_all(chain.from_iterable(claims.draw(groups, others))))
        found: dict[bytes, bytes] = {}
        missing = claims.wait(others, found)
        known.update({key: unpack(value) for key, value in found.items()})
        advance("calls", len(found))


@dataclass(slots=True)
class _Calls:
    """Concurrent calls; the first prompt of a prefix is answered before the others are sent."""

    prompts: Mapping[bytes, Prompt]
    chats: Chats
    claims: Claims
    known: dict[bytes, Reply | ProviderError]
    sent: list[bytes]
    warm: dict[str, asyncio.Event] = field(default_factory=dict)
    failures: Mapping[bytes, int] = field(init=False)
    firsts: Mapping[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        cache = self.claims.cache
        self.failures = cache.failures(list(self.prompts))
        self.firsts = cache.get([_first_key(key) for key in self.prompts])

    async def ask_all(self, keys: Iterator[bytes]) -> None:
        try:
            await run_bounded(keys, self.ask, self.chats.usual.max_concurrency)
        finally:
            await self.chats.close()

    async def ask(self, key: bytes) -> None:
        prefix = self.prompts[key].prefix
        is_first = bool(prefix) and prefix not in self.warm
        if is_first:
            self.warm[prefix] = asyncio.Event()
        elif prefix:
            await self.warm[prefix].wait()
        self.sent.append(key)
        cache = self.claims.cache
        try:
            reply = self.known[key] = await self._reply(key)
            cache.put({key: pack(reply)})
        except CallsStoppedError:
            raise
        except ProviderError as error:
            self.known[key] = error
            cache.fail([key])
            self.claims.give_up([key])
        finally:
            if is_first:
                self.warm[prefix].set()
        advance("calls", 1)

    async def _reply(self, key: bytes) -> Reply:
        first = self.firsts.get(_first_key(key))
        completion = None if first is None else unpack_first(first)
        with asked_again(self.failures.get(key, 0)):
            return await ask_one(
                self.prompts[key], self.chats, completion, partial(self._keep_first, key)
            )

    def _keep_first(self, key: bytes, completion: Completion) -> None:
        self.claims.cache.put({_first_key(key): pack(completion)})


# --- batches ---


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
    batched = _BatchedPrompts(prompts, settings, chat, cache, known)
    client = chat.batches()
    try:
        poll = settings.batch_poll_seconds
        known.update(run_batches(list(prompts), batched, client, BatchNotes(cache), poll))
    except BaseException:
        # The batch may go on; its end settles the cost.
        keep_reservations([_reservation(key) for key in prompts])
        raise
    finally:
        client.close()
    return batched.invalid


@dataclass(slots=True)
class _BatchedPrompts:
    """The requests of `run_batches`."""

    prompts: Mapping[bytes, Prompt]
    settings: ChatSettings
    chat: BatchedChat
    cache: CallCache
    known: dict[bytes, Reply | ProviderError]
    invalid: list[bytes] = field(default_factory=list)

    def body(self, key: bytes) -> dict[str, Any]:
        prompt = self.prompts[key]
        return self.chat.request(prompt.messages, prompt.schema)

    def admit(self, keys: Sequence[bytes], wait: bool) -> list[bytes]:
        settings, wanted = self.settings, {}
        address = settings.base_url if isinstance(settings, RemoteModel) else None
        for key in keys:
            prompt, room = self.prompts[key], settings.max_output_tokens
            wanted[_reservation(key)] = request_tokens(prompt.messages, prompt.schema, room)
        fitting = set(reserve_batch(settings.provider, settings.model, wanted, address, wait=wait))
        return [key for key in keys if _reservation(key) in fitting]

    def accept(self, key: bytes, body: dict[str, Any], answer_id: str) -> None:
        prompt = self.prompts[key]
        texts = request_texts(prompt.messages, prompt.schema)
        with settling(_reservation(key)), measuring(texts):
            completion = self.chat.read_batched(body, answer_id)
        try:
            if is_cut(completion, prompt):
                raise ValueError(completion.cut)
            data = read_reply(completion.text, prompt)
        except ValueError:
            self.cache.put({_first_key(key): pack(completion)})  # the repair begins with it
            self.invalid.append(key)
            return
        reply = self.known[key] = Reply(completion.text, data, completion.usage)
        self.cache.put({key: pack(reply)})

    def finished(self, keys: Iterable[bytes]) -> None:
        cancel_reservations([_reservation(key) for key in keys])


def _reservation(key: bytes) -> str:
    return f"batched {key.hex()}"


# --- order, dry runs and keys ---


def _in_warm_order(
    keys: Sequence[bytes], prompts: Mapping[bytes, Prompt], width: int
) -> Iterator[bytes]:
    """Yield keys in the order in which a provider's prompt cache serves most prefixes.

    The first prompts of `width` prefixes come before the other prompts of these prefixes. Prompts
    of one prefix stay together, as a cache holds the last prefixes.
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
    """Note the prompts of a dry run; return known replies, and stand-ins for the others."""
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
    """Estimate the tokens of a call; `is_first` is the first prompt with its prefix.

    OpenAI's prompt cache serves prefixes of 1,024 tokens and more, in steps of 128. Batches are
    estimated without it.
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
    """Return the key of a prompt's first reply, kept until its repair succeeds."""
    return call_key("chat, first reply", "", key.hex())
