"""Ask for one complete and valid reply.

If a reply is cut, the prompt is sent again with more room. If a reply is invalid, the prompt is
sent again with the reply and its error. The call cache keeps an unusable first reply until the
repair succeeds, because the provider charges for it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from operator import add
from typing import Any

from rag_pipeline.calls import call_key
from rag_pipeline.calls.costs import request_tokens
from rag_pipeline.config import ChatSettings
from rag_pipeline.config.models import Chat, Completion
from rag_pipeline.datamodels import Prompt, Reply, Usage
from rag_pipeline.errors import ProviderError

CHOICE_TOKENS = 16
"""Maximum tokens of a reply with one of the `choices`, until such a reply is cut."""
_MORE_ROOM = 4
"""Factor by which `max_output_tokens` grows after a cut reply."""


@dataclass(slots=True)
class Chats:
    """The clients of a chat model in one event loop, one for each limit of the reply."""

    settings: ChatSettings
    usual: Chat = field(init=False)
    _roomier: dict[int, Chat] = field(default_factory=dict)
    _brief: bool = True

    def __post_init__(self) -> None:
        self.usual = self.settings.open()

    async def first(self, prompt: Prompt) -> Completion:
        """Return the first reply to a prompt. If the prompt has choices, allow at most 16 tokens.

        A model that thinks before it answers needs more. After the first cut reply, all prompts get
        the usual number of tokens.
        """
        used = Usage()
        if prompt.choices and self._brief and self.settings.max_output_tokens > CHOICE_TOKENS:
            made = await self._with(CHOICE_TOKENS).complete(prompt.messages, prompt.schema)
            if not is_cut(made, prompt) or made.cut != "length":
                return made
            self._brief, used = False, made.usage
        made = await self.usual.complete(prompt.messages, prompt.schema)
        return replace(made, usage=_sum(used, made.usage))

    def roomier(self, prompt: Prompt, cut: str) -> Chat:
        """Return a client that allows a longer reply to a prompt.

        `cut` is the reason of the cut reply. After a content filter, return the usual client.
        Raise ProviderError if the model's window has no more room.
        """
        settings = self.settings
        _, most = request_tokens(prompt.messages, prompt.schema, settings.max_output_tokens)
        left = settings.context_window - most.input
        room = min(_MORE_ROOM * settings.max_output_tokens, left)
        if cut == "content_filter":
            return self.usual  # the filter may pass the next reply
        if room <= settings.max_output_tokens:
            raise ProviderError(
                f"{settings.model}: the reply is cut ({cut}) after max_output_tokens "
                f"{settings.max_output_tokens}, and context_window {settings.context_window} has "
                f"no more room for this prompt; raise context_window if the model has more"
            )
        return self._with(room)

    def _with(self, room: int) -> Chat:
        if room not in self._roomier:
            other = self.settings.model_copy(update={"max_output_tokens": room})
            self._roomier[room] = other.open()
        return self._roomier[room]

    async def close(self) -> None:
        """Close all connections."""
        for chat in (self.usual, *self._roomier.values()):
            await chat.close()


async def ask_one(
    prompt: Prompt, chats: Chats, first: Completion | None, keep_first: Callable[[Completion], None]
) -> Reply:
    """Return a usable reply. Repair a cut or invalid reply once.

    `keep_first` stores a cut or invalid first reply. If the repair fails, the next run passes this
    reply as `first`. Raise ProviderError if the repaired reply is also cut or invalid.
    """
    chat, messages = chats.usual, prompt.messages
    completion = first or await chats.first(prompt)
    used = completion.usage
    if is_cut(completion, prompt):
        if first is None:
            keep_first(completion)
        chat = chats.roomier(prompt, completion.cut)
        whole = await _with_more_room(chat, chats, prompt, completion.cut)
        used, completion, first = _sum(used, whole.usage), whole, None
    try:
        return Reply(completion.text, read_reply(completion.text, prompt), used)
    except ValueError as error:
        if first is None:
            keep_first(Completion(completion.text, used))
        wanted = "one of these words" if prompt.choices else "one JSON value of the schema"
        repair = f"That is not valid: {error}. Answer again with {wanted}, and nothing else."
    if not _is_blank(completion.text, prompt):  # servers refuse a blank message
        messages = [
            *messages,
            {"role": "assistant", "content": completion.text},
            {"role": "user", "content": repair},
        ]
    again = await chat.complete(messages, prompt.schema)
    used = _sum(used, again.usage)
    try:
        return Reply(again.text, read_reply(again.text, prompt), used)
    except ValueError as error:
        wanted = "one of the choices" if prompt.choices else "of the schema"
        is_blank = _is_blank(again.text, prompt)
        said = f"{error} again" if is_blank else f"the reply is not {wanted}: {error}"
        raise ProviderError(f"{chat.identity}: {said}") from None


async def _with_more_room(chat: Chat, chats: Chats, prompt: Prompt, cut: str) -> Completion:
    usual = f"max_output_tokens {chats.settings.max_output_tokens}"
    try:
        whole = await chat.complete(prompt.messages, prompt.schema)
    except ProviderError as error:
        if type(error) is not ProviderError or cut != "length":
            raise
        raise ProviderError(f"{error}; the reply is cut at {usual}: lower this setting") from None
    if is_cut(whole, prompt):
        cure = f"; raise {usual}" if whole.cut == "length" else ""
        raise ProviderError(f"{chat.identity}: the reply is cut ({whole.cut}) again{cure}")
    return whole


def is_cut(completion: Completion, prompt: Prompt) -> bool:
    """Return whether a reply is cut before its needed part is complete.

    The needed part is the whole JSON with a schema, and the first word with choices.
    """
    if completion.cut and prompt.choices:
        first = re.search(r"\w+", completion.text.casefold())
        return first is None or first[0] not in map(str.casefold, prompt.choices)
    if not completion.cut or prompt.schema is None:
        return bool(completion.cut)
    try:
        _parse(completion.text, prompt.schema)
    except ValueError:
        return True
    return False


def read_reply(text: str, prompt: Prompt) -> Any:
    """Return the choice or JSON value of a reply, or None if the prompt asks for text.

    Raise ValueError with the reason if the reply is invalid or blank.
    """
    if _is_blank(text, prompt):
        raise ValueError("the reply is blank")
    if prompt.choices:
        return choose(text, prompt.choices)
    return None if prompt.schema is None else _parse(text, prompt.schema)


def _is_blank(text: str, prompt: Prompt) -> bool:
    """Return whether a reply has no letter and no digit, such as an empty pair of quotes."""
    return re.search(r"[^\W_]" if prompt.schema is None else r"\S", text) is None


def choose(reply: str, choices: Sequence[str]) -> str:
    """Return the one choice that occurs in a reply as a word, in upper or lower case.

    Raise ValueError if none or several occur.
    """
    words = set(re.findall(r"\w+", reply.casefold()))
    named = [choice for choice in choices if choice.casefold() in words]
    if len(named) != 1:
        raise ValueError(f"{reply[:80]!r} is not one of: {', '.join(choices)}")
    return named[0]


def _parse(reply: str, schema: Mapping[str, Any]) -> Any:
    text = reply.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # the cache stores no half surrogates
    except (ValueError, RecursionError):
        raise ValueError(f"no JSON: {reply[:80]!r}") from None
    import jsonschema

    try:
        jsonschema.validate(value, dict(schema))
    except jsonschema.ValidationError as error:
        raise ValueError(f"{error.json_path}: {error.message[:200]}") from None
    return value


def pack(reply: Reply | Completion) -> bytes:
    """Encode a reply, or a first reply before its repair, for the call cache."""
    return json.dumps(asdict(reply), ensure_ascii=False).encode()


def first_key(key: bytes) -> bytes:
    """Return the key of a prompt's first reply before its repair."""
    return call_key("chat, first reply", "", key.hex())


def unpack(value: bytes) -> Reply:
    """Decode a reply of the call cache."""
    record = json.loads(value)
    return Reply(record["text"], record["data"], Usage(**record["usage"]))


def unpack_first(value: bytes) -> Completion:
    """Decode a first reply of the call cache."""
    record = json.loads(value)
    return Completion(record["text"], Usage(**record["usage"]), record.get("cut", ""))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(*map(add, astuple(one), astuple(other)))
