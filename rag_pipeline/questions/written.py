"""Let a chat model write questions about passages, and certify them like questions of rules.

A question needs a verbatim quote from its passage, which becomes its gold span. Questions that the
model calls unanswerable are tried on the document.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from rag_pipeline.chunking.sizes import Limit
from rag_pipeline.chunking.windows import window_spans
from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document, GoldSpan, Prompt, Reply, Span
from rag_pipeline.errors import ProviderError
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.loading.quotes import Searchable
from rag_pipeline.models.chat import Ask
from rag_pipeline.models.prompts import Shown, object_schema, template_of
from rag_pipeline.questions.certification import Certifier
from rag_pipeline.questions.facts import read_facts
from rag_pipeline.questions.generation import (
    MadeQuestions,
    QuestionRow,
    distinct_documents,
    documents_in_force,
    made_row,
    round_robin,
)
from rag_pipeline.questions.naming import names_of
from rag_pipeline.questions.two_documents import pairs_alike

SourceSpan = tuple[Document, Span]
SourcePair = tuple[SourceSpan, SourceSpan]
_PASSAGE = 1_500
_EACH = 2
"""Maximum number of answered questions per passage, and of unanswered questions."""
_SPARE = 1.5
"""The model is asked for this many questions per wanted question, because some do not pass."""
_PROMPT, _BOTH = template_of(__file__), template_of(__file__, "written_of_two")
_TEXT = {"type": "string"}
_ANSWERED = object_schema(dict.fromkeys(("question", "answer", "quote"), _TEXT))
_SCHEMA = object_schema(
    {
        "answered": {"type": "array", "items": _ANSWERED},
        "unanswered": {"type": "array", "items": _TEXT},
    }
)
_OF_TWO = object_schema(dict.fromkeys(("question", "answer", "first_quote", "second_quote"), _TEXT))


def write_questions(
    documents: Sequence[Document],
    wanted: int,
    lexical: Lexical,
    ask: Ask,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    several: int = 0,
    unanswerable: int = 0,
) -> MadeQuestions:
    """Return certified questions that a chat model writes, as rows for a queries file.

    Up to `wanted` questions ask about one document, up to `several` about two, and up to
    `unanswerable` have no answer. `progress` gets the number of kept questions and the number of
    all wanted questions. Failed prompts count as refused. If all prompts fail, raise the first
    failure. The same documents give the same prompts.
    """
    documents = distinct_documents(documents_in_force(documents))
    passages, pairs = _sources(documents, wanted, several, unanswerable)
    prompts = _prompts(passages, pairs)
    total = wanted + several + unanswerable
    progress(0, total)
    replies = list(ask(prompts)) if prompts else []
    failed = [reply for reply in replies if isinstance(reply, ProviderError)]
    if failed and len(failed) == len(replies):
        raise failed[0]
    rows: list[QuestionRow] = []
    with Certifier(documents, lexical) as certifier:
        if failed:
            certifier.refused["not written"] = len(failed)
        checked = _Checked(certifier, documents)
        of_one, of_none = [], []
        for (document, span), reply in zip(passages, replies, strict=False):
            if isinstance(reply, Reply):
                of_one.append(checked.answered(document, span, reply.data["answered"]))
                of_none.append(checked.unanswered(document, reply.data["unanswered"]))
        of_two = (
            row
            for pair, reply in zip(pairs, replies[len(passages) :], strict=True)
            if isinstance(reply, Reply)
            for row in checked.of_two(pair, reply.data)
        )
        made = (round_robin(of_one), of_two, round_robin(of_none))
        for source, number in zip(made, (wanted, several, unanswerable), strict=True):
            kept: dict[str, QuestionRow] = {}
            while len(kept) < number and (row := next(source, None)):
                kept.setdefault(row["query"].casefold(), row)
                progress(len(rows) + len(kept), total)
            rows += kept.values()
    return MadeQuestions(rows, certifier.refused, len(passages) + len(pairs))


def prompts_of(
    documents: Sequence[Document], wanted: int, several: int = 0, unanswerable: int = 0
) -> list[Prompt]:
    """Return the prompts that `write_questions` sends for the same arguments."""
    documents = distinct_documents(documents_in_force(documents))
    return _prompts(*_sources(documents, wanted, several, unanswerable))


def _sources(
    documents: Sequence[Document], wanted: int, several: int, unanswerable: int
) -> tuple[list[SourceSpan], list[SourcePair]]:
    passages = list(_passages(documents, max(wanted, unanswerable)))
    return passages, list(_pairs(documents, several))


def _prompts(passages: Sequence[SourceSpan], pairs: Sequence[SourcePair]) -> list[Prompt]:
    of_one = (_PROMPT.prompt(passage=_shown(*one), schema=_SCHEMA) for one in passages)
    of_two = (_BOTH.prompt(passages=[_shown(*a), _shown(*b)], schema=_OF_TWO) for a, b in pairs)
    return [*of_one, *of_two]


class _Checked:
    """A filter that turns a model's questions into rows, and counts the refused questions."""

    def __init__(self, certifier: Certifier, documents: Sequence[Document]) -> None:
        self._certifier = certifier
        self._searchable = {d.document_id: Searchable(d.text) for d in documents}
        self._names = names_of(documents)

    def answered(
        self, document: Document, span: Span, written: Sequence[dict[str, str]]
    ) -> Iterator[QuestionRow]:
        """Yield the rows of the questions that pass, some only with their document's name."""
        for item in written[:_EACH]:
            gold = self._gold(document.document_id, item["quote"], span)
            if gold is None:
                self._certifier.refuse("no such quote")
                continue
            for query in self._with_name(item["question"], document.document_id):
                problem = self._certifier.problem(query, gold, item["answer"])
                if problem is None:
                    yield _row(query, [gold], item["answer"], ["written"])
                    break
            else:
                self._certifier.refuse(str(problem))

    def unanswered(self, document: Document, written: Sequence[str]) -> Iterator[QuestionRow]:
        """Yield the rows of the questions that their document does not answer."""
        names = self._names[document.document_id]
        for question in written[:_EACH] if names else ():
            problem = self._certifier.may_answer(question, document.document_id)
            if problem is None:
                query = self._with_name(question, document.document_id)[-1]
                yield _row(query, [], None, [UNANSWERABLE, "written"])
            else:
                self._certifier.refuse(problem)

    def of_two(self, pair: SourcePair, written: dict[str, str]) -> Iterator[QuestionRow]:
        """Yield the row of a question about two documents if a search finds both quotes."""
        quotes = written["first_quote"], written["second_quote"]
        gold = [
            self._gold(document.document_id, quote, span)
            for (document, span), quote in zip(pair, quotes, strict=True)
        ]
        known = [span for span in gold if span is not None]
        if len(known) < 2:
            self._certifier.refuse("no such quote")
        elif not all(self._certifier.finds(written["question"], span) for span in known):
            self._certifier.refuse("unanswerable")
        else:
            tags = ["written", "several documents"]
            yield _row(written["question"], known, written["answer"], tags)

    def _gold(self, document_id: str, quote: str, span: Span) -> GoldSpan | None:
        found = self._searchable[document_id].find(quote) if quote.strip() else []
        inside = [f for f in found if span[0] <= f[0] < span[1]]
        return GoldSpan(document_id, *inside[0]) if inside else None

    def _with_name(self, question: str, document_id: str) -> list[str]:
        name = next(iter(self._names[document_id]), None)
        if name is None or name.strip("“”").casefold() in question.casefold():
            return [question]
        return [question, f"{name}: {question}"]


def _passages(documents: Sequence[Document], wanted: int) -> Iterator[SourceSpan]:
    number = int(wanted * _SPARE / _EACH) + bool(wanted)
    queues = []
    for document in documents:
        windows = list(window_spans(document.text, Limit(_PASSAGE), 0))
        spans = [(start, end) for start, end in windows if end - start > _PASSAGE / 4]
        spans = spans or windows[:1]
        Random(document.document_id).shuffle(spans)
        queues.append([(document, span) for span in spans])
    yield from islice(round_robin(queues), number)


def _pairs(documents: Sequence[Document], wanted: int) -> Iterator[SourcePair]:
    if not wanted:
        return
    by_id = {d.document_id: d for d in documents}
    facts = [fact for document in documents for fact in read_facts(document)]
    for one, other in islice(pairs_alike(facts), int(wanted * _SPARE) + 1):
        first, second = (
            (by_id[f.document_id], _around(by_id[f.document_id].text, f.start, f.end))
            for f in (one, other)
        )
        yield first, second


def _around(text: str, start: int, end: int) -> Span:
    spare = max(0, _PASSAGE - (end - start)) // 2
    return max(0, start - spare), min(len(text), end + spare)


def _shown(document: Document, span: Span) -> Shown:
    return Shown(document.text[slice(*span)], document.title or document.document_id)


def _row(query: str, gold: Sequence[GoldSpan], answer: str | None, tags: list[str]) -> QuestionRow:
    place = ",".join(f"{g.document_id}#{g.start}" for g in gold)
    return made_row(f"{place}:{query}", query, gold, answer, tags)
