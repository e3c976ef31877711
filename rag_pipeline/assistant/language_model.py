"""Do the assistant's steps with a chat model, and check its answers."""

import importlib.util
import re
from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import TYPE_CHECKING, Any

from rag_pipeline.answering.intent import KINDS, Intent
from rag_pipeline.answering.written import (
    cited_answer,
    clause_answer,
    comparison_answer,
    listing_answer,
)
from rag_pipeline.assistant.model import Reflection, interactive
from rag_pipeline.assistant.prompts import FOLDER, adopted
from rag_pipeline.calls.costs import attributed, charging, estimate_tokens
from rag_pipeline.config import ChatSettings
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import Answer, ScoredChunk
from rag_pipeline.errors import MissingExtraError, ProviderError, RagPipelineError
from rag_pipeline.models import prompts
from rag_pipeline.models.chat import Ask, Prompt, Reply, ask
from rag_pipeline.store import Store

if TYPE_CHECKING:
    from rag_pipeline.assistant.signatures import Prompts

_MOST_QUERIES = 5
_LONGEST_QUERY = 300
_MOST_ENTITIES = 20
_MARGIN = 1.25
"""Safety factor for prompts with more tokens than estimated."""
_VERDICTS = ("grounded", "complete", "consistent", "specific")
_SIGNATURES = {"clause_lookup": "clause", "comparison": "comparison", "comprehensive": "listing"}
"""The signatures that answer questions of these intents."""


class LanguageModel:
    """A chat model for the steps of an assistant. Threads may share the object.

    `ask` sends prompts to the model with these `settings`. `current` returns the prompts in use.
    Every method that calls the model raises ProviderError if the reply does not fit the signature.
    """

    def __init__(
        self, ask: Ask, settings: ChatSettings, current: "Callable[[], Prompts] | None" = None
    ) -> None:
        require_dspy()
        from rag_pipeline.assistant.signatures import Prompts, open_lm

        as_written = Prompts()
        self._current = current or (lambda: as_written)
        self._settings = settings
        self._lm = open_lm(ask, settings.model)

    @property
    def name(self) -> str:
        """Return the model's name at its provider."""
        return self._settings.model

    @property
    def prompts(self) -> "Prompts":
        """Return the prompts in use."""
        return self._current()

    def with_prompts(self, prompts: "Prompts") -> "LanguageModel":
        """Return a copy with other prompts."""
        other = copy(self)
        other._current = lambda: prompts
        return other

    def rewrite(self, query: str, turns: Sequence[str] = ()) -> str:
        """Return the query in clearer words. `turns` are the earlier queries.

        The result is clear without `turns`. Raise ProviderError if the reply is empty or too long
        for a question.
        """
        if turns:
            before = "\n".join(prompts.block("question", turn) for turn in turns)
            made = self._predict("follow_up", before=before, question=query)
        else:
            made = self._predict("rewriting", question=query)
        rewritten = " ".join(made.rewritten.split())
        if not rewritten or len(rewritten) > 2 * len(query) + _LONGEST_QUERY:
            raise ProviderError(f"rewriting: {rewritten[:80]!r} is not one question")
        return rewritten

    def detect(self, query: str) -> Intent:
        """Return the query's intent. Drop entities that are not in the query."""
        made = self._predict("intent", question=query)
        if made.kind not in KINDS:
            raise ProviderError(f"intent: {made.kind!r} is not one of: {', '.join(KINDS)}")
        known = [e.strip() for e in made.entities if e.strip().lower() in query.lower()]
        entities = tuple(dict.fromkeys(e for e in known if e))[:_MOST_ENTITIES]
        return Intent(made.kind, made.domain.strip()[:60] or "general", entities)

    def keywords(
        self, query: str, document_id: str, texts: Sequence[str], instructions: str
    ) -> list[str]:
        """Return 1 to 5 boosted queries for a document. Raise ProviderError for an empty reply."""
        made = self._predict(
            "keywords",
            question=query,
            guidance=instructions,
            document=prompts.block("document", prompts.name(document_id)),
            passages=prompts.blocks([prompts.Shown(text) for text in texts]),
        )
        queries = [" ".join(q.split())[:_LONGEST_QUERY] for q in made.queries]
        queries = list(dict.fromkeys(q for q in queries if re.search(r"\w", q)))
        if not queries:
            raise ProviderError("keywords: the reply has no keywords")
        return queries[:_MOST_QUERIES]

    def answer(
        self, query: str, intent: Intent, chunks: Sequence[ScoredChunk], instructions: str
    ) -> Answer:
        """Return an answer in the form of the intent.

        Only the first chunks that fit into the model's context window are used. Citations and
        quotes are compared with these chunks. `problems` lists wrong citations and quotes.
        """
        name = _SIGNATURES.get(intent.kind, "answer")
        asked = {"question": query, "guidance": instructions}
        shown = self._fitting(name, chunks, **asked)
        made = self._predict(name, **asked, passages=_numbered(shown))
        if name == "clause":
            quotes = [(quote.passage, quote.text) for quote in made.quotes]
            return clause_answer(made.answer, quotes, shown)
        if name == "comparison":
            return comparison_answer([(row.document, row.says) for row in made.rows], shown)
        if name == "listing":
            return listing_answer(made.entries, shown)
        return cited_answer(made.answer, shown)

    def reflect(
        self,
        query: str,
        intent: Intent,
        answer: Answer,
        chunks: Sequence[ScoredChunk],
        instructions: str,
    ) -> Reflection:
        """Return a review of an answer.

        If a verdict is False, the model answers again with the review's advice. The result contains
        the new answer only if it answers, differs and has no more problems than the old answer.
        """
        asked = {
            "question": query,
            "answer": prompts.block("answer", answer.text),
            "problems": "\n".join(answer.problems),
        }
        shown = self._fitting("review", chunks, **asked)
        review = self._predict("review", **asked, passages=_numbered(shown))
        verdicts = {name: bool(getattr(review, name)) for name in _VERDICTS}
        if all(verdicts.values()):
            return Reflection(verdicts)
        wanting = ", ".join(name for name, good in verdicts.items() if not good)
        guidance = (
            f"{instructions}\n\nAn earlier answer was not {wanting}. "
            f"Advice: {prompts.inert(review.advice)}\n"
            f"The earlier answer:\n{prompts.block('answer', answer.text)}"
        ).strip()
        better = self.answer(query, intent, chunks, guidance)
        is_new = better.answered and better.text != answer.text
        is_better = is_new and len(better.problems) <= len(answer.problems)
        return Reflection(verdicts, better if is_better else None)

    def _predict(self, name: str, **inputs: str) -> Any:
        """Return the model's reply to a prompt. Raise ProviderError if the reply does not fit."""
        import dspy
        from dspy.utils.exceptions import DSPyError

        predictor = self.prompts.predictor(name)
        plain = {"question", "problems"} & inputs.keys()
        asked = inputs | {field: prompts.inert(inputs[field]) for field in plain}
        try:
            with (
                attributed(f"assistant.{name}"),
                dspy.context(lm=self._lm, adapter=dspy.JSONAdapter(), disable_history=True),
            ):
                return predictor(**asked)
        except DSPyError as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, RagPipelineError):
                    raise cause from None
                cause = cause.__cause__
            said = " ".join(str(error).split())[:200]
            raise ProviderError(f"{self._settings.model}: {name}: {said}") from None

    def _fitting(
        self, name: str, chunks: Sequence[ScoredChunk], **inputs: str
    ) -> Sequence[ScoredChunk]:
        import dspy

        predictor = self.prompts.predictor(name)
        asked = {**inputs, "passages": ""}
        messages = dspy.JSONAdapter().format(predictor.signature, predictor.demos, asked)
        used = sum(estimate_tokens(message["content"]) for message in messages)
        room = (self._settings.context_window - self._settings.max_output_tokens) / _MARGIN - used
        count = 0
        while count < len(chunks) and estimate_tokens(_numbered(chunks[: count + 1])) <= room:
            count += 1
        return chunks[: max(count, 1)]


class _Adopted:
    """The adopted prompts of a store. They are read again if the store has new prompts."""

    def __init__(self, store: Store, model: str) -> None:
        self._store = store
        self._model = model
        self._lock = Lock()
        self._read: tuple[list[str], Prompts] | None = None

    def __call__(self) -> "Prompts":
        """Return the newest adopted prompts. Raise StoreError if a file is invalid."""
        from rag_pipeline.assistant.signatures import Prompts, fingerprint

        listed = self._store.list(FOLDER)
        with self._lock:
            if self._read is None or self._read[0] != listed:
                version = adopted(self._store, fingerprint(), self._model)
                self._read = listed, Prompts.of_record(version.prompts) if version else Prompts()
            return self._read[1]


def open_language_model(corpus: Corpus, patient: bool = False) -> LanguageModel | None:
    """Return the chat model of a corpus's assistant with its adopted prompts.

    Return None if the assistant has no model. If `patient` is False, a call fails after
    `model_seconds`. Raise MissingExtraError if dspy is not installed, and StoreError if a file of
    prompts is invalid.
    """
    chat = corpus.config.assistant.chat
    if chat is None:
        return None
    require_dspy()
    settings = corpus.workspace.config.chat(chat)
    if patient:
        settings = settings.model_copy(update={"batch": False})  # each prompt needs earlier replies
    else:
        settings = interactive(settings, corpus.config.assistant)
    workspace = corpus.workspace

    def ask_now(asked: Sequence[Prompt]) -> list[Reply | ProviderError]:
        with charging(workspace.ledger):
            return ask(asked, settings, workspace.cache)

    current = _Adopted(workspace.store, settings.model)
    current()  # an invalid file raises here, before the first question
    return LanguageModel(ask_now, settings, current)


def require_dspy() -> None:
    """Raise MissingExtraError if dspy is not installed."""
    if importlib.util.find_spec("dspy") is None:
        raise MissingExtraError("dspy", "dspy")


def _numbered(chunks: Sequence[ScoredChunk]) -> str:
    return prompts.blocks([prompts.Shown(chunk.text, chunk.document_id) for chunk in chunks])
