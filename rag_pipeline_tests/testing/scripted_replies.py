"""Replies to the assistant's signatures, for a server that a test scripts."""

import json
from typing import Any

from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import Answer

OUTPUTS = {
    "intent": "kind",
    "rewriting": "rewritten",
    "keywords": "queries",
    "clause": "quotes",
    "comparison": "rows",
    "listing": "entries",
    "review": "grounded",
}
"""The output field by which a request's signature is told."""


def signature_of(body: Body) -> str:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    if "earlier questions, oldest first" in body["messages"][0]["content"]:
        return "follow_up"
    return next((name for name, field in OUTPUTS.items() if field in fields), "answer")


def scripted(**replies: Any) -> Answer:
    """Answer each signature with its reply: a value or a Fault, or a function that makes one."""

    def answer(body: Body) -> str | Failure:
        reply = replies[signature_of(body)]
        reply = reply(body) if callable(reply) else reply
        return reply if isinstance(reply, str | Fault) else json.dumps(reply)

    return answer


def passage_with(body: Body, words: str) -> int:
    """Return the number of the passage that holds some words."""
    passages = body["messages"][-1]["content"].split("[[ ## passages ## ]]")[1]
    before = passages.split(words)[0]
    return int(before.rsplit('<passage id="', 1)[1].split('"')[0])
