"""Make unanswerable questions from facts, to measure whether a configuration abstains.

There are two sorts. `not_stated` asks about a fact of one document, but names another document
that lacks the fact. `no_such_document` asks about a document with an invented name.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Literal

from rag_pipeline.datamodels import Document
from rag_pipeline.questions.certification import Certifier
from rag_pipeline.questions.stated import StatedFact
from rag_pipeline.questions.wording import questions_of, with_name, without_name

Sort = Literal["not_stated", "no_such_document"]
_OTHERS = 3
"""Maximum number of other documents that are tried for a fact's question."""
_FIRST = ("Bren", "Vel", "Tor", "Mar", "Kel", "Dun", "Sol", "Har", "Lin", "Quor", "Zan", "Pell")
_MIDDLE = ("a", "o", "i", "e", "am", "or", "ev", "un")
_LAST = ("dane", "vik", "mora", "stead", "lund", "wick", "tal", "rix", "nor", "fax")
_WORD = re.compile(r"[^\W_]+")


def unanswerable_questions(
    facts: Sequence[StatedFact],
    documents: Collection[Document],
    names: Mapping[str, Sequence[str]],
    certifier: Certifier,
    random: Random,
) -> Iterator[tuple[str, Sort]]:
    """Yield questions that have no answer, each with its sort. The sorts take turns if possible."""
    named_ids = sorted(d.document_id for d in documents if names[d.document_id])
    invented = _Inventor(documents, random)
    titles = {d.title.casefold() for d in documents}
    invented_last = False
    for fact in facts:
        bare = next(questions_of(fact, random), None)
        # A question with a name needs no further name.
        if bare is None or invented.proper(without_name(bare)):
            continue
        if fact.subject.casefold() in titles:
            continue
        own = names[fact.document_id]
        if own and not invented_last:
            name = invented.instead_of(random.choice(own))
            if name is not None:
                invented_last = True
                yield with_name(bare, name, random, fact.language), "no_such_document"
                continue
        others = [d for d in named_ids if d != fact.document_id]
        for other in random.sample(others, min(_OTHERS, len(others))):
            problem = certifier.may_answer(without_name(bare), other)
            if problem is None:
                invented_last = False
                name = random.choice(names[other])
                yield with_name(bare, name, random, fact.language), "not_stated"
                break
            certifier.refuse(problem)


class _Inventor:
    """A maker of names that are similar to the documents' names but occur in no document."""

    def __init__(self, documents: Collection[Document], random: Random) -> None:
        words: Counter[str] = Counter()
        for document in documents:
            words.update(set(_WORD.findall(f"{document.title}\n{document.text}")))
        self._small = {w for w in words if w.islower()}
        self._known = {w.casefold() for w in words}
        self._random = random

    def proper(self, text: str) -> list[str]:
        """Return the words of a text, except the first, that no document writes in lower case."""
        words = (match.group() for match in _WORD.finditer(text) if match.start())
        return [w for w in words if w.istitle() and w.casefold() not in self._small]

    def instead_of(self, name: str) -> str | None:
        """Return a name with invented proper names, or None if `name` holds no proper name."""
        new = {word: self._new() for word in sorted(set(self.proper(f" {name}")))}
        return _WORD.sub(lambda m: new.get(m.group(), m.group()), name) if new else None

    def _new(self) -> str:
        while True:
            word = "".join(self._random.choice(part) for part in (_FIRST, _MIDDLE, _LAST))
            if word.casefold() not in self._known:
                self._known.add(word.casefold())
                return word
