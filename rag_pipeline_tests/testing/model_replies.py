"""The right replies of a model server, each vendor's in its own shape; a token is a word."""

import base64
import hashlib
from typing import Any

import numpy as np

DIMENSION = 8
Body = dict[str, Any]


def vector_of(text: str, dimension: int = DIMENSION) -> np.ndarray:
    """Return the unit vector that the server has for a text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    made = np.random.default_rng(seed).normal(size=dimension)
    return (made / np.linalg.norm(made)).astype(np.float32)


def score_of(query: str, passage: str) -> float:
    """Return the share of the query's words that the passage has."""
    words = set(query.lower().split())
    return len(words & set(passage.lower().split())) / len(words)


def items_of(path: str, body: Body) -> list[str]:
    """Return what a request is billed for: its prompt, its texts or its query."""
    if "messages" in body:
        return [str(message["content"]) for message in body["messages"][-1:]]
    if "inputs" in body:
        return [chunk for chunks in body["inputs"] for chunk in chunks]
    if "query" in body:
        return [body["query"]]
    return list(body.get("input", []))


def reply_to(path: str, body: Body, text: str) -> Body:
    """Return the right reply; `text` is what a chat model says."""
    if path == "chat/completions":
        return completed(text, body)
    return _REPLIES[path](body)


def completed(text: str, body: Body) -> Body:
    asked = _tokens([str(m["content"]) for m in body["messages"]])
    said = _tokens([text])
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


def _tokens(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _embedding(body: Body, text: str, index: int) -> Body:
    length = body.get("dimensions") or body.get("output_dimension") or DIMENSION
    vector = vector_of(text, length)
    packed: Any = vector.tolist()
    if body.get("encoding_format") == "base64":
        packed = base64.b64encode(vector.tobytes()).decode()
    return {"object": "embedding", "index": index, "embedding": packed}


def _embeddings(body: Body) -> Body:
    """OpenAI and Voyage agree on this one."""
    texts = body["input"]
    data = [_embedding(body, text, n) for n, text in enumerate(texts)]
    used = {"prompt_tokens": _tokens(texts), "total_tokens": _tokens(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": used}


def _contextualized(body: Body) -> Body:
    """A chunk's vector is told by its whole document."""
    data = [
        {
            "object": "list",
            "index": n,
            "data": [
                _embedding(body, f"{chunk} in {' | '.join(chunks)}", i)
                for i, chunk in enumerate(chunks)
            ],
        }
        for n, chunks in enumerate(body["inputs"])
    ]
    used = {"total_tokens": _tokens(items_of("", body))}
    return {"object": "list", "data": data, "model": body["model"], "usage": used}


def _rerank(body: Body) -> Body:
    """`data` for Voyage, `results` for Cohere and Jina; best first, as they do."""
    passages = body["documents"]
    found = [
        {"index": n, "relevance_score": score_of(body["query"], passage)}
        for n, passage in enumerate(passages)
    ]
    found.sort(key=lambda row: -row["relevance_score"])
    used = {"total_tokens": _tokens([body["query"], *passages])}
    units = {"billed_units": {"search_units": 1}}
    return {"object": "list", "data": found, "results": found, "usage": used, "meta": units}


_REPLIES = {
    "embeddings": _embeddings,
    "contextualizedembeddings": _contextualized,
    "rerank": _rerank,
}
