"""Try questions with gold spans on the documents, and name their problems.

A question passes if a search finds its span, the span holds the answer, and no other passage
answers it. The document's title must neither answer the question nor be its only subject.
"""

import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.answering.amendments import section_at_end, sections_named
from rag_pipeline.answering.quantities.values import Quantity, quantities, same_value
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.chunking.sizes import Limit
from rag_pipeline.chunking.spans import answers
from rag_pipeline.chunking.windows import window_spans
from rag_pipeline.config import Lexical
from rag_pipeline.contextualization.structural import StructuralContext, structural_contexts
from rag_pipeline.datamodels import Chunk, Document, GoldSpan
from rag_pipeline.questions.words import either
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index
from rag_pipeline.search.lexical_index.documents import readable_name
from rag_pipeline.search.lexical_index.postings import idf
from rag_pipeline.search.standing import amendments
from rag_pipeline.search.tokenization import Tokenizer

_PASSAGE = 400
"""Maximum characters of the passages that are searched."""
_FOUND = 10
"""A search of all documents must find the span among this number of first passages."""
_FOUND_INSIDE = 5
"""A search inside the document, without its name, must find the span among this number."""
_RIVALS_AMONG = 40
_RIVAL = 0.8
"""Another sentence is a rival if it covers more than this share of the gold one's coverage."""
_LEAST_COVERED = 0.3
"""The gold sentence and its headings must cover this share of a question's terms, by rarity."""
_ABSENT = 0.35
"""A sentence may answer a question if it covers more than this share of its terms, by rarity."""
_LEAST_ASKED = 2
_NAMED = 1.0
"""Minimum lead in nats of a named document over all others.

Documents are compared by the rarity of the words that they share with the question.
"""
_UNIT = r"(?:days|weeks|months|years|hours|minutes)"
_EXPECTS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"\bhow (?:much|many) (?:\w+ )?(?:notice|leave|warning)\b", "TIME"),
        (rf"\bhow (?:long|soon|quickly|often|many (?:\w+ )?{_UNIT})\b", "TIME"),
        (r"\b(?:(?:what|which) (?:length of )?(?:time|period)|(?:by|since|until) when)\b", "TIME"),
        (r"\b(?:what|which) (?:date|day|year)\b|(?:^|[,:]\s*)when\b|\bdate$", "TIME"),
        (r"\b(?:what|which) (?:percentage|percent|share)\b", "PERCENTAGE"),
        (r"\bhow much\b|\b(?:what|which) (?:amount|price|sum)\b|\bwie viel\b", "MONEY"),
        (r"\bwann\b|\bwie (?:lang|oft)e?\b|welcher (?:frist|zeit)\b", "TIME"),
    )
)
"""Patterns of questions, and the kind of quantity that each asks for. The first match counts."""
_HIGH = re.compile(r"(?:.*, )?(?:how high|wie hoch|wie groß)\b", re.IGNORECASE)
"""A question for a sum or a share. The answer decides between them."""
_DEFINITION = re.compile(
    r"\b(?:means?|shall mean|refers? to|defined as|(?:is|are|was|were) (?:an?|the|one of)|"
    r"(?:ist|sind) (?:eine?|das|der|die))\b|\([A-Z][\w&-]*[A-Z]s?\)|^\W*-{1,2}\w|"
    rf"\b(?:{either('things')})\b.{{,40}} (?:used to|provides|returns|{either('deeds')})\b",
    re.IGNORECASE,
)
_DEFINES = re.compile(
    rf"\b(?:what (?:do(?:es)? (?:.* (?:mean|stand for|say about)|(?:the|{either('things')}) .*)|is|"
    r"are)|how is\b.*\b(?:defined|explained)|was (?:ist|sind|steht|bewirkt|bedeutet)|wie wird .* "
    r"erklärt|wofür steht|wozu dient|welche (?:wirkung|bedeutung|voreinstellung) hat)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: GoldSpan
    terms: frozenset[str]
    kinds: frozenset[str]
    defines: bool

    def could_answer(self, wanted: str | None, defines: bool) -> bool:
        return wanted in self.kinds if wanted else self.defines or not defines


class Certifier(AbstractContextManager["Certifier"]):
    """An index of the documents, in a temporary folder, that questions are tried on.

    `refused` counts the refused questions by reason. `is_alone` tells whether there is only one
    document.
    """

    def __init__(self, documents: Iterable[Document], lexical: Lexical) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rag-questions-")
        self.refused: Counter[str] = Counter()
        self._tokenizer = Tokenizer(lexical)
        self._documents: dict[str, Document] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._called: dict[str, frozenset[str]] = {}
        self._calling: Counter[str] = Counter()
        self._passages: dict[str, Chunk] = {}
        self._headings: dict[str, frozenset[str]] = {}
        self._holding: Counter[str] = Counter()
        self._read: dict[str, list[_Sentence]] = {}
        target = Path(self._folder.name) / "index"
        build_lexical_index("bm25s", self._batches(documents), lexical, target)
        self._index = open_lexical_index(target)
        own = np.array(self._index.document_ids.to_pylist())
        self.is_alone = len(self._documents) == 1
        self._inside: dict[str, Any] = {d: own == d for d in self._documents}
        self._amending = amendments(self._documents.values(), are_all=True)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def problem(
        self, query: str, gold: GoldSpan, answer: str | None = None, is_only: bool = False
    ) -> str | None:
        """Return the problem of a question, or None if it passes.

        `answer` is the expected answer, or None if it is unknown. `is_only` means that the question
        holds a name that only this span defines: of a row, an option, an abbreviation or a term.
        """
        document = self._documents.get(gold.document_id)
        text = document.text[gold.start : gold.end] if document else ""
        if not text.strip():
            return "unanswerable: there is no such span"
        if answer is not None and (told := self._answer_problem(query, gold, answer, text)):
            return told
        section = section_at_end(self._documents[gold.document_id].text[: gold.end])
        for amending in self._amending.get(gold.document_id, ()):
            if section in sections_named(self._documents[amending].text):
                return f"ambiguous: {amending} may change this section"
        terms = set(self._tokenizer.tokenize(query))
        # A number in a table has its unit in the head of its column.
        wanted = _expected(query) if answer is None or quantities(answer) else None
        if answer is not None and _HIGH.match(query):
            wanted = next((q.kind for q in quantities(answer)), None)
        if wanted and not any(q.kind == wanted for q in quantities(text)):
            return f"unanswerable: the span states no {wanted.lower()}"
        name = self._names[gold.document_id]
        asked = terms - name
        if len(asked) < _LEAST_ASKED and not (asked and _DEFINES.search(query)):
            return "leaks the title: it asks for nothing else"
        if self._rank(query, gold, None) > (_RIVALS_AMONG if is_only else _FOUND):
            return "unanswerable: a search does not find the span"
        inside = " ".join(w for w in query.split() if asked & set(self._tokenizer.tokenize(w)))
        most = _RIVALS_AMONG if is_only else _FOUND_INSIDE
        if self._rank(inside, gold, self._inside[gold.document_id]) > most:
            return "leaks the title: without it the span is not found in its document"
        return self._rival_problem(query, terms, asked, gold, wanted, is_only)

    def may_answer(self, query: str, document_id: str) -> str | None:
        """Return the problem of a question that a document should not answer, or None.

        A question has a problem if the documents hold fewer than 2 of its terms. It also has a
        problem if a sentence of this document covers much of it and states the wanted kind of
        quantity.
        """
        wanted = _expected(query)
        terms = set(self._tokenizer.tokenize(query)) - self._names[document_id]
        weight = self._weights(terms)
        total = sum(weight.values())
        if len([t for t in terms if self._holding[t]]) < _LEAST_ASKED:
            return "asks for terms that no document has"
        inside = self._inside[document_id]
        for chunk_id, _ in self._index.search(query, _RIVALS_AMONG, inside):
            context = self._headings[chunk_id] - self._names[document_id]
            for sentence in self._sentences(chunk_id):
                said = sentence.terms | context
                share = sum(w for t, w in weight.items() if t in said)
                if sentence.could_answer(wanted, False) and share > _ABSENT * total:
                    return "answerable: the document may say it"
        return None

    def finds(self, query: str, gold: GoldSpan) -> bool:
        """Return whether a search of all documents or of the span's document finds the span."""
        found = self._rank(query, gold, None) <= _FOUND
        return found or self._rank(query, gold, self._inside[gold.document_id]) <= _FOUND_INSIDE

    def refuse(self, problem: str) -> None:
        """Count a refused question by its problem."""
        self.refused[problem.partition(":")[0]] += 1

    def _answer_problem(self, query: str, gold: GoldSpan, said: str, text: str) -> str | None:
        """Return a problem if the question or title holds the answer, or if the span lacks it."""
        answer, in_query, in_span = (set(self._tokenizer.tokenize(t)) for t in (said, query, text))
        values = quantities(said)
        told = _hold(query, values) if values else answer and answer <= in_query
        if told:
            return "the question contains its answer"
        if answer and answer <= self._names[gold.document_id]:
            return "leaks the title: it contains the answer"
        if not _hold(text, values) or len(answer & in_span) < 0.5 * len(answer):
            return "unanswerable: the span does not hold the answer"
        return None

    def _rival_problem(
        self,
        query: str,
        terms: set[str],
        asked: set[str],
        gold: GoldSpan,
        wanted: str | None,
        is_only: bool,
    ) -> str | None:
        inside = self._inside[gold.document_id]
        for amending in self._amending.get(gold.document_id, ()):
            inside = inside | self._inside[amending]
        named = self._is_named(terms, gold.document_id)
        found = [
            hit
            for allowed in ((inside,) if named else (None, inside))
            for hit, _ in self._index.search(query, _RIVALS_AMONG, allowed)
        ]
        weight = self._weights(terms)
        total = sum(weight[term] for term in asked)
        defines = wanted is None and bool(_DEFINES.search(query))
        covered = 0.0
        rivals: list[tuple[float, str]] = []
        for chunk_id in dict.fromkeys(found):
            context = self._headings[chunk_id]
            for sentence in self._sentences(chunk_id):
                share = sum(w for t, w in weight.items() if t in sentence.terms or t in context)
                if answers(sentence.place, gold):
                    covered = max(covered, share)
                elif is_only and sentence.place.document_id == gold.document_id:
                    continue
                elif sentence.could_answer(wanted, defines) and sentence.terms & asked:
                    rivals.append((share, sentence.place.document_id))
        if covered < _LEAST_COVERED * total:
            return "unanswerable: the span covers too little of the question"
        best, other = max(rivals, default=(0.0, ""))
        if best > _RIVAL * covered:
            where = "the same document" if other == gold.document_id else other
            return f"ambiguous: {where} answers it as well"
        return None

    def _is_named(self, terms: set[str], document_id: str) -> bool:
        """Return whether a question names this document more clearly than any other."""
        n = len(self._called)
        weight = {t: idf(n, self._calling[t]) for t in terms if self._calling[t]}
        sums = {d: sum(w for t, w in weight.items() if t in own) for d, own in self._called.items()}
        own = sums.pop(document_id)
        unique = idf(n, 1)
        return own >= unique and own - max(sums.values(), default=0.0) >= min(_NAMED, unique / 2)

    def _sentences(self, chunk_id: str) -> list[_Sentence]:
        if chunk_id not in self._read:
            passage = self._passages[chunk_id]
            self._read[chunk_id] = [
                _Sentence(
                    GoldSpan(passage.document_id, passage.start + start, passage.start + end),
                    frozenset(self._tokenizer.tokenize(sentence)),
                    frozenset(q.kind for q in quantities(sentence)),
                    bool(_DEFINITION.search(sentence)),
                )
                for start, end in sentence_spans(passage.text)
                for sentence in [passage.text[start:end]]
            ]
        return self._read[chunk_id]

    def _rank(self, query: str, gold: GoldSpan, allowed: Any) -> float:
        """Return the rank, from 1, of the first passage in `allowed` (None: all) with the span.

        If no passage holds the span, return infinity.
        """
        for rank, (chunk_id, _) in enumerate(self._index.search(query, _RIVALS_AMONG, allowed), 1):
            if answers(self._passages[chunk_id], gold):
                return rank
        return math.inf

    def _weights(self, terms: Iterable[str]) -> dict[str, float]:
        return {term: idf(len(self._passages), self._holding[term]) for term in terms}

    def _batches(self, documents: Iterable[Document]) -> Iterable[pa.RecordBatch]:
        settings = StructuralContext(method="structural")
        for document in documents:
            chunks = [
                Chunk(document.document_id, s, e, document.text[s:e])
                for s, e in window_spans(document.text, Limit(_PASSAGE), 0)
            ]
            contexts = structural_contexts(document, chunks, settings)
            self._add(document, chunks, contexts)
            yield pa.record_batch(
                {
                    "chunk_id": pa.array([c.chunk_id for c in chunks], pa.string()),
                    "document_id": pa.array([c.document_id for c in chunks], pa.string()),
                    "start": pa.array([c.start for c in chunks], pa.int64()),
                    "text": pa.array([c.text for c in chunks], pa.string()),
                    "title": pa.array([document.title] * len(chunks), pa.string()),
                    "context": pa.array(contexts, pa.string()),
                }
            )

    def _add(self, document: Document, chunks: Sequence[Chunk], contexts: Sequence[str]) -> None:
        self._documents[document.document_id] = document
        name = f"{document.title} {readable_name(document.document_id)}"
        self._names[document.document_id] = frozenset(self._tokenizer.tokenize(name))
        called = frozenset(self._tokenizer.tokenize(" ".join((name, *contexts[:1]))))
        self._called[document.document_id] = called
        self._calling.update(called)
        for chunk, context in zip(chunks, contexts, strict=True):
            self._passages[chunk.chunk_id] = chunk
            self._headings[chunk.chunk_id] = frozenset(self._tokenizer.tokenize(context))
            terms = {*self._tokenizer.tokenize(chunk.text), *self._headings[chunk.chunk_id]}
            self._holding.update(terms)


def _hold(text: str, values: Sequence[Quantity]) -> bool:
    """Return whether a text states all of these values."""
    held = quantities(text)
    return all(any(same_value(v.value, h.value) for h in held) for v in values)


def _expected(query: str) -> str | None:
    return next((kind for pattern, kind in _EXPECTS if pattern.search(query.rstrip("?. "))), None)
