"""Make questions about facts of two documents: "…, according to A and according to B?"."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from random import Random

from rag_pipeline.questions.certification import Certifier
from rag_pipeline.questions.stated import FactKind, StatedFact
from rag_pipeline.questions.wording import questions_of, with_name

_ALIKE = 0.4
"""Minimum Jaccard similarity of the words of two sentences."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_TRIED = 3


def questions_of_two(
    facts: Sequence[StatedFact],
    names: Mapping[str, Sequence[str]],
    certifier: Certifier,
    random: Random,
) -> Iterator[tuple[str, tuple[StatedFact, StatedFact]]]:
    """Yield questions that two documents answer together, at most one per pair of documents.

    A question comes with its two facts, which are of the same kind and have similar sentences. The
    question about either document alone also passes certification.
    """
    asked: set[frozenset[str]] = set()
    for pair in pairs_alike([f for f in facts if names[f.document_id]]):
        ids = frozenset(f.document_id for f in pair)
        if ids in asked:
            continue
        called = [random.choice(names[f.document_id]) for f in pair]
        for bare in islice(questions_of(pair[0], random), _TRIED):
            problems = (
                certifier.problem(with_name(bare, name, random), f.gold, f.answer)
                for f, name in zip(pair, called, strict=True)
            )
            problem = next((p for p in problems if p is not None), None)
            if problem is None:
                asked.add(ids)
                both = " and ".join(f"according to {name}" for name in called)
                yield f"{bare.rstrip('? ')}, {both}?", pair
                break
            certifier.refuse(problem)


def pairs_alike(facts: Sequence[StatedFact]) -> Iterator[tuple[StatedFact, StatedFact]]:
    """Yield pairs of English facts of two documents.

    Both facts state a quantity of the same kind, and their sentences are similar.
    """
    words = {id(f): frozenset(w.casefold() for w in _WORD.findall(f.sentence)) for f in facts}
    by_kind: defaultdict[FactKind, list[StatedFact]] = defaultdict(list)
    for fact in facts:
        if fact.quantity is not None and fact.language == "en":
            by_kind[fact.kind].append(fact)
    for same in by_kind.values():
        for number, one in enumerate(same):
            for other in same[number + 1 :]:
                both = words[id(one)] & words[id(other)]
                either = words[id(one)] | words[id(other)]
                if one.document_id != other.document_id and len(both) >= _ALIKE * len(either):
                    yield one, other
