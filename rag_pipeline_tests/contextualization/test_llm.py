from typing import Any

import pytest

from rag_pipeline import indexing
from rag_pipeline.calls.costs import most_tokens
from rag_pipeline.config import load_config, parse_config
from rag_pipeline.contextualization.llm import LLMContext, context_prompts, contextualize_with_model
from rag_pipeline.datamodels import Chunk, Document, Usage
from rag_pipeline.errors import ConfigError, ProviderError
from rag_pipeline.models.chat import Prompt, Reply
from rag_pipeline.models.prompts import DATA
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.pipeline.updates import table_outcome
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import TEMPLATE, attributes, llm_contexts, write_corpus
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving

SETTINGS = LLMContext(method="llm", chat="small", template=TEMPLATE)


def chat(**changes: Any) -> ChatModel:
    return ChatModel.model_validate({"provider": "openai", "model": "m", **changes})


def document(text: str, size: int = 30) -> tuple[Document, list[Chunk]]:
    starts = range(0, len(text), size)
    chunks = [Chunk("d.txt", s, min(s + size, len(text)), text[s : s + size]) for s in starts]
    return Document("d.txt", "0" * 64, text, title="A title"), chunks


class Model:
    """Answers by a function of the prompt's text, and keeps its prompts."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Prompt] = []

    def __call__(self, prompts: Any) -> list[Reply | ProviderError]:
        self.asked += prompts
        made = (self.answer(p.prefix + p.user) for p in prompts)
        return [m if isinstance(m, ProviderError) else Reply(m, None, Usage()) for m in made]


def test_the_document_comes_first_and_the_chunk_last():
    whole, chunks = document("one {x} two three four five six seven eight")
    prompts = context_prompts(whole, chunks, SETTINGS, chat())
    shown = f'<document document="A title; d">\n{whole.text}\n</document>'
    assert [p.prefix for p in prompts] == [f"Read: {shown}\n--\nSituate: "] * 2
    assert [p.user for p in prompts] == [f"<passage>\n{c.text}\n</passage>!" for c in chunks]
    assert prompts[0].prefix is prompts[1].prefix, "thousands of prompts share one string"


def test_a_template_may_name_the_document_by_title_file_and_parties():
    text = "AGREEMENT\n\nmade between Acme Rockets and Birch Paper; of 3 May 2021.\n"
    whole = Document("nda/acme-birch.txt", "0" * 64, text, title="Mutual NDA")
    chunk = Chunk("nda/acme-birch.txt", 0, 9, "{document_name}")
    template = "{document} is of {document_name}: {chunk} ({document_name})"
    settings = LLMContext(method="llm", chat="small", template=template)
    (prompt,) = context_prompts(whole, [chunk], settings, chat())
    name = "Mutual NDA; nda acme birch; between Acme Rockets and Birch Paper; 3 May 2021"
    shown = f'<document document="{name}">\n{text}\n</document>'
    assert prompt.prefix == f"{shown} is of {name}: "
    said = "<passage>\n{document_name}\n</passage>"
    assert prompt.user == f"{said} ({name})", "what a chunk says is no place"
    assert (prompt.system, prompt.examples) == (DATA, ()), "the task is the template's own"
    (plain,) = context_prompts(whole, [chunk], LLMContext(method="llm", chat="small"), chat())
    assert plain.prefix.startswith(shown), "shipped prompts name the document, too"
    assert "in the language of the passage" in plain.system


def test_documents_longer_than_the_window_are_named(tmp_path):
    with serving(lambda body: "short") as server:
        narrow = llm_contexts(server.url, context_window=400, max_output_tokens=10)
        file = write_corpus(tmp_path, **narrow)
        (tmp_path / "documents/long.txt").write_text("A sentence of the long one. " * 60)
        workspace = Workspace(load_config(file))
        indexing.update_documents(workspace)
        indexing.update(workspace, "chunks", "recursive_150")
        report = indexing.update(workspace, "contextualized_chunks", "recursive_150.llm")
    assert report.too_long == ["long.txt"]
    partition = indexing.open_partition(workspace, "contextualized_chunks", "recursive_150.llm")
    facts = table_outcome(partition, partition.table.state(), report).metadata
    assert facts["documents_longer_than_window"] == 1
    assert facts["longer_than_window"] == ["long.txt"]


def test_what_the_model_says_is_cut_and_stands_after_the_structure():
    whole, chunks = document("# Leave\n\nSick leave is paid.")
    settings = SETTINGS.model_copy(update={"max_characters": 20, "structural": True})
    result = contextualize_with_model([(whole, chunks)], settings, chat(), Model(
        lambda text: " From the leave\npolicy of Acme Rockets. "
    ))  # fmt: skip
    (made,) = result
    assert not isinstance(made, ProviderError)
    structural, said = made[0].context.split("\n")
    assert said == "From the leave"
    assert structural.startswith("A title")
    assert made[0].chunk == chunks[0]


def test_one_failed_chunk_fails_its_document_and_no_other():
    good, bad = document("alpha " * 10), document("omega " * 10)
    model = Model(
        lambda text: ProviderError("refused") if "Situate: <passage>\nomega" in text else "fine"
    )
    result = contextualize_with_model([bad, good], SETTINGS, chat(), model)
    assert isinstance(result[0], ProviderError)
    assert str(result[0]).endswith("d.txt#0-30: refused")
    assert isinstance(result[1], list)
    assert len(model.asked) == len(good[1]) + len(bad[1]), "the others were asked"


def test_a_document_longer_than_the_window_is_shown_as_summary_and_part():
    text = "".join(f"Sentence {n:05d} of a very long document. " for n in range(500))
    whole, chunks = document(text, 400)
    window = chat(context_window=3000, max_output_tokens=100)
    model = Model(lambda t: f"summary of {len(t)}" if "Summarize the" in t else "context")
    result = contextualize_with_model([(whole, chunks)], SETTINGS, window, model)
    assert isinstance(result[0], list)
    summaries = [p for p in model.asked if "Summarize" in p.user]
    assert len(summaries) > 2, "in pieces, and then what was said of them"
    pieces = [p.user.split('document="A title">\n')[1] for p in summaries[:-1]]
    assert "".join(piece.rsplit("\n</document>", 1)[0] for piece in pieces) == text
    last = model.answer(summaries[-1].prefix + summaries[-1].user)
    for prompt, chunk in zip(model.asked[len(summaries) :], chunks, strict=True):
        assert f"Summary of the whole document: {last}" in prompt.prefix
        assert chunk.text in prompt.prefix, "the part is around the chunk"
        assert most_tokens(prompt.prefix + prompt.user) + 100 + 64 <= 3000
    prefixes = [p.prefix for p in model.asked[len(summaries) :]]
    assert len(set(prefixes)) < len(prefixes) / 2, "chunks near each other share their part"


def test_a_window_without_room_is_refused_with_the_settings_that_decide():
    whole, chunks = document("word " * 2000, 300)
    narrow = chat(context_window=600, max_output_tokens=100)
    model = Model(lambda text: "context")
    result = contextualize_with_model([(whole, chunks)], SETTINGS, narrow, model)
    assert "chats.small.context_window 600" in str(result[0])
    assert not model.asked
    short, few = document("It fits.")
    assert context_prompts(short, few, SETTINGS, narrow)


# --- in a corpus ---


def test_a_failed_document_stays_stale_and_the_others_go_on(tmp_path):
    failing = True

    def answer(body: dict[str, Any]) -> str | Fault:
        if failing and "Situate: <passage>\n# Travel" in body["messages"][-1]["content"]:
            return Fault(400, "flagged")
        return "It is of the policies."

    with serving(answer) as server:
        workspace = Workspace(load_config(write_corpus(tmp_path, **llm_contexts(server.url))))
        indexing.update_documents(workspace)
        indexing.update(workspace, "chunks", "recursive_150")
        report = indexing.update(workspace, "contextualized_chunks", "recursive_150.llm")
        assert list(report.failed) == ["policy/travel.md"]
        assert "flagged" in report.failed["policy/travel.md"]
        table = workspace.contextualized_chunks("recursive_150.llm")
        assert set(table.state()) == {"nda/acme.txt", "nda/cedar.txt", "policy/leave.md"}
        partition = indexing.open_partition(workspace, "contextualized_chunks", "recursive_150.llm")
        assert indexing.plan(partition).stale == ("policy/travel.md",)
        assert set(partition.quarantine.state()) == {"policy/travel.md"}

        failing = False
        sent = len(server.requests)
        again = indexing.update(workspace, "contextualized_chunks", "recursive_150.llm")
        assert (again.failed, again.documents) == ({}, 1)
        assert len(server.requests) == sent + 1, "its other chunks are in the call cache"
        assert partition.quarantine.count() == 0
    charges = list(workspace.ledger.charges())
    assert len(charges) == sum(s.rows for s in table.state().values())
    assert {c.usd for c in charges} == {0.0}, "a server on this machine is free"


def test_when_every_document_fails_the_step_fails_with_the_reason(tmp_path):
    with serving(lambda body: Fault(400, "flagged")) as server:
        workspace = Workspace(load_config(write_corpus(tmp_path, **llm_contexts(server.url))))
        indexing.update_documents(workspace)
        indexing.update(workspace, "chunks", "recursive_150")
        with pytest.raises(ProviderError, match=r"nda/acme.*flagged.*and 3 more documents"):
            indexing.update(workspace, "contextualized_chunks", "recursive_150.llm")


def test_contexts_are_stale_when_model_or_template_change_and_not_for_a_timeout():
    def fingerprint(chat_changes: dict[str, Any], **changes: Any) -> str:
        settings = llm_contexts("http://localhost:1/v1", **chat_changes)
        settings["contextualizers"]["llm"].update(changes)
        return parse_config(attributes(**settings)).context_fingerprint("recursive_150", "llm")

    before = fingerprint({})
    assert fingerprint({"timeout_seconds": 5, "max_concurrency": 2}) == before
    assert fingerprint({"model": "other"}) != before
    assert fingerprint({}, template=TEMPLATE + "?") != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chat": "large"}, r"contextualizers\.llm\.chat: 'large' is not one of: small"),
        ({"template": "{chunk} of {document}"}, r"contextualizers\.llm.*\{document\} once"),
        ({"template": "no places"}, r"contextualizers\.llm.*\{document\} once"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], message: str):
    settings = llm_contexts("http://localhost:1/v1")
    settings["contextualizers"]["llm"].update(changes)
    with pytest.raises(ConfigError, match=message):
        parse_config(attributes(**settings))
