"""The `openai` SDK's keys and exceptions, as all clients of its protocol treat them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import openai

from rag_pipeline.calls import LONGEST_TIMEOUT, failure_of_status, unreachable
from rag_pipeline.errors import ProviderError, TransientError, keep_secret
from rag_pipeline.models.providers.http import STAYING, trusted
from rag_pipeline.models.providers.openai import OpenAIProtocol

_HTTP_LIBRARY = openai.DefaultAsyncHttpxClient.mro()[1].__module__.partition(".")[0]
"""The library that the SDK sends its requests with: httpx, or what has followed it."""

_STOPPING_CODES = (
    "model_not_found",
    "invalid_api_key",
    "DeploymentNotFound",
    "insufficient_quota",
    "billing_hard_limit_reached",
)


def client_of(key: str | None, address: str | None, timeout: float) -> openai.AsyncOpenAI:
    """Return a client for one event loop, which neither tries again nor ends a call in time.

    The endpoint does both.
    """
    return openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=address,
        timeout=openai.Timeout(LONGEST_TIMEOUT * timeout, connect=timeout),
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=trusted(_HTTP_LIBRARY), event_hooks=STAYING
        ),
    )


def key_of(settings: OpenAIProtocol) -> str | None:
    """Return a model's key, None of a server that needs none; raise ProviderError without."""
    key = os.environ.get(settings.api_key_env)
    keep_secret(key)
    if not key and settings.base_url is None:
        raise ProviderError(
            f"{settings.model}: the environment variable {settings.api_key_env} is not set; "
            f"set it to your key"
        )
    return key


@contextmanager
def sdk_errors(what: str, settings: OpenAIProtocol, key: str | None) -> Iterator[None]:
    """Turn the SDK's exceptions inside the block into the pipeline's, without the key."""
    try:
        yield
    except openai.APIStatusError as error:
        raise failure_of_status(
            f"{what} ({settings.api_key_env})",
            error.status_code,
            error.message,
            error.response.headers,
            key,
            stops=error.code if error.code in _STOPPING_CODES else "",
        ) from None
    except openai.APIConnectionError as error:
        raise unreachable(what, error, key) from None
    except (ValueError, RecursionError) as error:
        raise TransientError(f"{what}: the reply is not JSON: {error}") from None
