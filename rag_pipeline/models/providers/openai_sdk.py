"""Open clients of the `openai` SDK, and translate their errors.

The import of the SDK takes 0.5 s, so each function imports the SDK on first use.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_pipeline.calls import LONGEST_TIMEOUT, unreachable
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers.http import MOST_TEXT_BYTES, staying, trusted
from rag_pipeline.models.providers.remote import Server

if TYPE_CHECKING:
    import openai

_STOPPING_CODES = (
    "model_not_found invalid_api_key DeploymentNotFound insufficient_quota "
    "billing_hard_limit_reached"
).split()


def client_of(
    server: Server, timeout: float, most_bytes: int = MOST_TEXT_BYTES
) -> "openai.AsyncOpenAI":
    """Return a client for one event loop, which reads replies of at most `most_bytes`.

    The endpoint handles retries and timeouts.
    """
    import openai

    # The SDK sends its requests with httpx or with a successor of httpx.
    library = openai.DefaultAsyncHttpxClient.mro()[1].__module__.partition(".")[0]
    return openai.AsyncOpenAI(
        api_key=server.key,
        base_url=server.address,
        timeout=openai.Timeout(LONGEST_TIMEOUT * timeout, connect=timeout),
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            verify=trusted(library), event_hooks=staying(most_bytes)
        ),
    )


@contextmanager
def sdk_errors(server: Server) -> Iterator[None]:
    """Turn the SDK's exceptions inside the block into ProviderErrors without the key."""
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        stops = error.code if error.code in _STOPPING_CODES else ""
        headers = error.response.headers
        raise server.refusal(error.status_code, error.message, headers, stops) from None
    except openai.APIConnectionError as error:
        raise unreachable(server.what, error, server.key) from None
    except (ValueError, RecursionError) as error:
        raise TransientError(f"{server.what}: the reply is not JSON: {error}") from None
