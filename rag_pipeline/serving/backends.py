"""Backends that a request names by its headers, among the hosts that the operator allows.

Without allowed hosts the headers are refused: the server must not reach into its network for
clients. Keys from headers live as long as their request; they are never logged, cached or shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.corpora import SearchedCorpus
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline.serving.dify import DifyDataset
from rag_pipeline.serving.outgoing import allowed_url, check_hosts, post_json

RETRIEVAL = ("x-retrieval-endpoint", "x-retrieval-api-key")
RERANK = ("x-rerank-url", "x-rerank-model")
LLM = ("x-llm-api-url", "x-llm-model", "x-llm-api-key")

_DATASET_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class HeaderBackends:
    """Makes the assistant of a request from its headers; without them, the server's own."""

    def __init__(self, own: Assistant, allowed: Sequence[str]) -> None:
        check_hosts(allowed)
        self._own = own
        self._allowed = tuple(allowed)

    def assistant(self, headers: Mapping[str, str]) -> Assistant:
        """Return the assistant with the named backends.

        Raises InputError for a backend that is not allowed, or that lacks one of its headers.
        """
        names = (*RETRIEVAL, *RERANK, *LLM)
        given = {name: headers[name] for name in names if headers.get(name)}
        if not given:
            return self._own
        corpora: Mapping[str, SearchedCorpus] = self._own.corpora
        reranker = self._own.reranker
        if _complete(given, RETRIEVAL, optional=("x-retrieval-api-key",)):
            endpoint = self._url(given, "x-retrieval-endpoint")
            corpora = DifyDatasets(endpoint, given.get("x-retrieval-api-key", ""))
        if _complete(given, RERANK):
            reranker = HeaderReranker(self._url(given, "x-rerank-url"), given["x-rerank-model"])
        model = self._own.model
        if _complete(given, LLM, optional=("x-llm-api-key",)):
            from rag_pipeline.serving.header_model import header_model

            url, key = self._url(given, "x-llm-api-url"), given.get("x-llm-api-key", "")
            model = header_model(url, given["x-llm-model"], key)
        return self._own.with_backends(corpora, model, reranker)

    def _url(self, given: Mapping[str, str], header: str) -> str:
        return allowed_url(header, given[header], self._allowed)


class DifyDatasets(Mapping[str, SearchedCorpus]):
    """The datasets of a Dify server, opened by the ids that a request names."""

    def __init__(self, endpoint: str, key: str) -> None:
        self._endpoint = endpoint
        self._key = key

    def __getitem__(self, name: str) -> SearchedCorpus:
        """Return a dataset; raise KeyError for a name that Dify does not allow."""
        if not _DATASET_ID.fullmatch(name):
            raise KeyError(name)
        return DifyDataset(name, self._endpoint, self._key)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _DATASET_ID.fullmatch(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class HeaderReranker:
    """A reranking server that speaks Jina's `POST …/rerank`."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url if url.rstrip("/").endswith("/rerank") else f"{url.rstrip('/')}/rerank"
        self._model = model

    def __call__(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return a score per passage; raise ProviderError for an unusable reply."""
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


def _complete(
    given: Mapping[str, str], wanted: Sequence[str], optional: Sequence[str] = ()
) -> bool:
    """Return whether a backend is named; raise InputError if one of its headers is missing."""
    named = [name for name in wanted if name in given]
    lacking = [name for name in wanted if name not in given and name not in optional]
    if named and lacking:
        raise InputError(f"{', '.join(lacking).upper()}: missing beside {named[0].upper()}")
    return bool(named)
