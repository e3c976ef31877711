"""A chat model that a request's headers name, for this request only."""

from functools import lru_cache

import openai

from rag_pipeline.assistant import LanguageModel
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, ProviderError
from rag_pipeline.models.chat import Prompt, Reply, read_reply
from rag_pipeline.models.providers.openai import ChatModel, request_body

_SECONDS = 20.0
"""Timeout of a call in seconds; two calls are shorter than a request may take."""


def header_model(url: str, name: str, key: str) -> LanguageModel:
    """Return the assistant's model behind an allowed address.

    Its calls bypass the call cache and the ledger: the owner of the key pays, and sees no answers
    of others. A refusal or an outage stops the other steps. Errors contain the status
    only, because the server's text may contain the key.
    """
    settings = ChatModel(provider="openai", model=name, base_url=url, timeout_seconds=_SECONDS)
    sdk = openai.OpenAI(
        api_key=key or "none",
        base_url=url,
        max_retries=1,
        timeout=settings.timeout_seconds,
        http_client=_connections(),
    )

    return LanguageModel(lambda prompts: [_asked(sdk, settings, p) for p in prompts], settings)


def _asked(sdk: openai.OpenAI, settings: ChatModel, prompt: Prompt) -> Reply | ProviderError:
    try:
        made = sdk.chat.completions.create(**request_body(settings, prompt.messages, prompt.schema))
        text = made.choices[0].message.content or ""
        return Reply(text, read_reply(text, prompt), Usage())
    except openai.APIStatusError as error:
        return CallsStoppedError(f"X-LLM-API-URL: the model answered {error.status_code}")
    except openai.OpenAIError as error:
        return CallsStoppedError(f"X-LLM-API-URL: {type(error).__name__}")
    except (ValueError, IndexError) as error:
        return ProviderError(f"X-LLM-MODEL: the reply can't be used: {str(error)[:100]}")


@lru_cache(maxsize=1)
def _connections() -> openai.DefaultHttpxClient:
    """Return the HTTP client of all such models: no redirects, no proxies of the environment."""
    return openai.DefaultHttpxClient(follow_redirects=False, trust_env=False)
