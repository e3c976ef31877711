"""A real model behind the real protocol, far too small to be right: nonsense is survived."""

import pytest

pytest.importorskip("dspy", reason="needs the extra `dspy`")

from rag_pipeline.answering.intent import KINDS
from rag_pipeline_tests.testing.corpora import DOCUMENTS
from rag_pipeline_tests.testing.llama_server import llama_server

CHAT = {
    "model": "SmolLM2-135M-Instruct",
    "context_window": 2048,
    "max_output_tokens": 64,
    "timeout_seconds": 240,
    "patience_seconds": 240,
}


def check(made, steps):
    """Every step is in the trace, and unsupported sentences are flagged."""
    names = [entry.name for entry in made.trace]
    assert [n for n in names if n != "reflection"] == ["intent", "search", "answer", "citations"]
    by_rule = {step: why for s in made.trace for step, why in s.detail.get("by_rule", {}).items()}
    assert set(by_rule) < steps, f"none by the model: {by_rule}"
    assert all(by_rule.values())
    assert made.intent.kind in KINDS
    for source in made.sources:
        text = DOCUMENTS[source.document_id]
        assert not source.verified or text[source.start : source.end] == source.text


@pytest.mark.bench
def test_every_stage_gets_through(talking):
    with llama_server(context_tokens=2048) as url:
        assistant = talking(
            f"{url}/v1",
            CHAT,
            boosted_files=1,
            rewrite_queries=True,
            reflections=1,
            model_seconds=240,
        )
        for question in (
            "How long does confidentiality last under the Acme NDA?",
            "Compare how long confidentiality lasts in the agreements.",
            "List all governing laws.",
        ):
            made = assistant.ask(question)
            steps = {"rewriting", "intent", "answer", "reflection"}
            check(made, steps | {f"keywords of {d}" for d in DOCUMENTS})
