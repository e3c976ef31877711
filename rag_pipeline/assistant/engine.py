"""DSPy's requests -> calls to chat models with cache, rate limits, charges and safe keys."""

import logging
from typing import Any

import dspy
from dspy import lm15

from rag_pipeline.answering import Ask
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Prompt, Reply

# Its warnings repeat errors that are raised, and print prompts.
logging.getLogger("dspy").setLevel(logging.CRITICAL)


class ChatEngine:
    """A DSPy engine that sends every request through `ask`."""

    supports_response_schema = True
    supported_params = frozenset({"response_format"})

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the model's reply; raise the ProviderError that it failed with."""
        (reply,) = self._ask([as_prompt(request)])
        if isinstance(reply, ProviderError):
            raise reply
        assert isinstance(reply, Reply)
        usage = reply.usage
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(reply.text or " "),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
        )


def open_lm(ask: Ask, name: str) -> dspy.LM:
    """Return a DSPy model that asks through `ask`, with no cache and no retries of its own."""
    # The name is only shown. For a known model's name DSPy would apply rules of its vendor.
    return dspy.LM(f"rag_pipeline/{name}", cache=False, num_retries=0, engine=ChatEngine(ask))


def as_prompt(request: lm15.Request) -> Prompt:
    """Return a request as a prompt: its system text, examples, question and JSON schema."""
    said = [(message.role, _text(message.parts)) for message in request.messages]
    *earlier, (_, user) = said
    pairs = zip(earlier[::2], earlier[1::2], strict=True)
    return Prompt(
        user,
        system=_text(request.system),
        schema=_schema(request.config.response_format),
        examples=tuple((asked, replied) for (_, asked), (_, replied) in pairs),
    )


def _text(parts: Any) -> str:
    if parts is None or isinstance(parts, str):
        return parts or ""
    return "\n\n".join(part.text for part in parts)


def _schema(wanted: Any) -> dict[str, Any] | None:
    if not wanted:
        return None
    schema: dict[str, Any] | None = wanted.get("json_schema", wanted).get("schema")
    return schema
