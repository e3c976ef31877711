"""Open clients of the `openai` SDK, read their keys and translate their errors.

The SDK takes 0.5 s to import, so each function imports it on first use.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_pipeline.calls import LONGEST_TIMEOUT, failure_of_status, unreachable
from rag_pipeline.config import RemoteModel
from rag_pipeline.errors import ProviderError, TransientError, keep_secret
from rag_pipeline.models.providers.http import MOST_TEXT_BYTES, staying, trusted

if TYPE_CHECKING:
    import openai

_STOPPING_CODES = (
    "model_not_found",
    "invalid_api_key",
    "DeploymentNotFound",
    "insufficient_quota",
    "billing_hard_limit_reached",
)


def client_of(
    key: str | None, address: str | None, timeout: float, most_bytes: int = MOST_TEXT_BYTES
) -> "openai.AsyncOpenAI":
    """Return a client for one event loop.

    The endpoint handles retries and timeouts. No reply may be longer than `most_bytes`.
    """
    import openai

    # The SDK sends its requests with httpx or with a successor of httpx.
    library = openai.DefaultAsyncHttpxClient.mro()[1].__module__.partition(".")[0]
    return openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=address,
        timeout=openai.Timeout(LONGEST_TIMEOUT * timeout, connect=timeout),
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=trusted(library), event_hooks=staying(most_bytes)
        ),
    )


def key_of(model: str, settings: RemoteModel) -> str | None:
    """Return a model's key. For a server of your own, return None if the key is not set.

    Raises ProviderError if the vendor's own server is called without a key.
    """
    key = os.environ.get(settings.api_key_env)
    keep_secret(key)
    if not key and settings.base_url is None:
        raise ProviderError(
            f"{model}: the environment variable {settings.api_key_env} is not set; "
            f"set it to your key"
        )
    return key


@contextmanager
def sdk_errors(what: str, api_key_env: str, key: str | None) -> Iterator[None]:
    """Turn the SDK's exceptions inside the block into ProviderErrors without the key."""
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise failure_of_status(
            f"{what} ({api_key_env})",
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
