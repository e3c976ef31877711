"""Use the backends in a request's headers if the operator allows their hosts.

Without allowed hosts, such headers are refused, because clients must not reach the network behind
the server. A key in a header is used only for its request. It is never logged, cached or shown.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from rag_pipeline.assistant import Assistant, LanguageModel
from rag_pipeline.assistant.released import SearchedCorpus
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import CallsStoppedError, InputError, ProviderError
from rag_pipeline.models.chat import Prompt, Reply, read_reply
from rag_pipeline.models.providers.openai import ChatModel, request_body
from rag_pipeline.serving.dify import DifyDataset
from rag_pipeline.serving.outgoing import allowed_url, check_hosts, post_json

RETRIEVAL = ("x-retrieval-endpoint", "x-retrieval-api-key")
RERANK = ("x-rerank-url", "x-rerank-model")
LLM = ("x-llm-api-url", "x-llm-model", "x-llm-api-key")

_MODEL_SECONDS = 20.0
"""Timeout of a call in seconds. A call and its retry fit into the default request timeout."""
_DATASET_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class HeaderBackends:
    """The backends that a request's headers may name."""

    def __init__(self, allowed: Sequence[str]) -> None:
        check_hosts(allowed)
        self._allowed = tuple(allowed)

    def assistant(self, own: Assistant, headers: Mapping[str, str]) -> Assistant:
        """Return the assistant with the backends in `headers`, or `own` without such headers.

        Raise InputError for a backend that is not allowed, or that lacks one of its headers.
        """
        names = (*RETRIEVAL, *RERANK, *LLM)
        given = {name: headers[name] for name in names if headers.get(name)}
        if not given:
            return own
        corpora: Mapping[str, SearchedCorpus] = own.corpora
        reranker = own.reranker
        if _complete(given, RETRIEVAL, optional=("x-retrieval-api-key",)):
            endpoint = self._url(given, "x-retrieval-endpoint")
            corpora = DifyDatasets(endpoint, given.get("x-retrieval-api-key", ""))
        if _complete(given, RERANK):
            reranker = HeaderReranker(self._url(given, "x-rerank-url"), given["x-rerank-model"])
        model = own.model
        if _complete(given, LLM, optional=("x-llm-api-key",)):
            url, key = self._url(given, "x-llm-api-url"), given.get("x-llm-api-key", "")
            model = header_model(url, given["x-llm-model"], key)
        return own.with_backends(corpora, model, reranker)

    def _url(self, given: Mapping[str, str], header: str) -> str:
        return allowed_url(header, given[header], self._allowed)


class DifyDatasets(dict[str, SearchedCorpus]):
    """The datasets of a Dify server by id. The mapping opens datasets, but lists none."""

    def __init__(self, endpoint: str, key: str) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._key = key

    def __missing__(self, name: str) -> SearchedCorpus:
        return DifyDataset(name, self._endpoint, self._key)

    def __contains__(self, name: object) -> bool:
        """Return whether `name` has the form of a Dify dataset's id."""
        return isinstance(name, str) and _DATASET_ID.fullmatch(name) is not None


class HeaderReranker:
    """A reranking server with Jina's interface (`POST …/rerank`)."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url if url.rstrip("/").endswith("/rerank") else f"{url.rstrip('/')}/rerank"
        self._model = model

    def __call__(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return a score per passage. Raise ProviderError after a failed call or a bad reply."""
        body = {
            "model": self._model,
            "query": query,
            "documents": list(passages),
            "top_n": len(passages),
            "return_documents": False,
        }
        reply = post_json("X-RERANK-URL: the reranker", self._url, body)
        try:
            scores = {int(r["index"]): float(r["relevance_score"]) for r in reply["results"]}
            return [scores[n] for n in range(len(passages))]
        except (ValueError, KeyError, TypeError):
            raise ProviderError("X-RERANK-URL: the reply is not a ranking") from None


def header_model(url: str, name: str, key: str) -> LanguageModel:
    """Return a chat model at an allowed address, for one request of the assistant.

    Its calls bypass the call cache and the ledger, because the owner of the key pays and must not
    see other callers' answers. A refusal or an outage is a CallsStoppedError, because further calls
    would fail, too. Errors omit the server's text, because it may contain the key.
    """
    import openai

    settings = ChatModel(
        provider="openai", model=name, base_url=url, timeout_seconds=_MODEL_SECONDS
    )
    sdk = openai.OpenAI(
        api_key=key or "none",
        base_url=url,
        max_retries=1,
        timeout=_MODEL_SECONDS,
        http_client=_connections(),
    )

    def ask(prompt: Prompt) -> Reply | ProviderError:
        body = request_body(settings, prompt.messages, prompt.schema)
        try:
            text = sdk.chat.completions.create(**body).choices[0].message.content or ""
            return Reply(text, read_reply(text, prompt), Usage())
        except openai.APIStatusError as error:
            return CallsStoppedError(f"X-LLM-API-URL: the model answered {error.status_code}")
        except openai.OpenAIError as error:
            return CallsStoppedError(f"X-LLM-API-URL: {type(error).__name__}")
        except (ValueError, IndexError) as error:
            return ProviderError(f"X-LLM-MODEL: the reply can't be used: {str(error)[:100]}")

    return LanguageModel(lambda prompts: [ask(prompt) for prompt in prompts], settings)


@lru_cache(maxsize=1)
def _connections() -> Any:
    """Return the HTTP client of all header models. It ignores redirects and proxies."""
    import openai

    return openai.DefaultHttpxClient(follow_redirects=False, trust_env=False)


def _complete(
    given: Mapping[str, str], wanted: Sequence[str], optional: Sequence[str] = ()
) -> bool:
    """Return whether the headers name a backend. Raise InputError for a missing header."""
    named = [name for name in wanted if name in given]
    lacking = [name for name in wanted if name not in given and name not in optional]
    if named and lacking:
        raise InputError(f"{', '.join(lacking).upper()}: required with {named[0].upper()}")
    return bool(named)
