"""Judge contexts without a chat model, by gold spans, similarity and key phrases."""

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from rag_pipeline.answering.reading import SentenceEmbed
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.chunking.spans import SpanLike, answers
from rag_pipeline.config import ContextJudge, Models
from rag_pipeline.datamodels import Answered, ContextJudgement, Judged, Level, Query
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.entities.matching import find
from rag_pipeline.search.tokenization import stop_words

_WORD = re.compile(r"[^\W_]+(?:['’.,-][^\W_]+)*")
_PHRASE_BREAK = re.compile(r"(?:(?<!\d)[.,]|[.,](?!\d)|[;:?!()\[\]{}\"“”\n])+")
_LONGEST_PHRASE = 4
_LEVELS: tuple[Level, ...] = ("high", "medium", "low", "none")


class RuleContext(ContextJudge):
    """A judge that sets levels by gold spans, or else by the similarity of query and sentences.

    `similarities` are the minimum cosines of the levels high, medium and low. The sentence nearest
    to the query gives the cosine of a context.
    """

    code_version = 2
    judge: Literal["rules"] = "rules"
    similarities: tuple[float, float, float] = (0.6, 0.45, 0.3)

    def judge_contexts(
        self, answered: Sequence[Answered], models: Models
    ) -> list[ContextJudgement | ProviderError]:
        """Judge the contexts by rules. The packaged embedding model measures similarity."""
        return [*judge_by_rules(answered, self, lambda texts: models.vectors(texts, None))]


def judge_by_rules(
    answered: Sequence[Answered], settings: RuleContext, embed: SentenceEmbed
) -> list[ContextJudgement]:
    """Judge the contexts of each query. The contexts are in ranked order.

    If the query has gold spans, the level of a context is:

    - `high`: the context answers a gold span (see `spans.answers`).
    - `medium`: the context overlaps a gold span.
    - `low`: the context is in the document of a gold span.
    - `none`: the context is in another document.

    Without gold spans, `similarities` decide. `missing` lists the gold spans that no context
    answers. Without gold spans, `missing` lists the annotated facts that no context states. Without
    both, `missing` is "an answer" if the query is unanswered.
    """
    judged = []
    for one, cosines in zip(answered, _nearest(answered, embed), strict=True):
        if one.query.gold_spans:
            levels = [_gold_level(chunk, one.query) for chunk in one.contexts]
        else:
            levels = [_likeness_level(cosine, settings) for cosine in cosines]
        contexts = tuple(map(Judged, levels, _used(one, levels)))
        judged.append(ContextJudgement(contexts, tuple(_missing(one))))
    return judged


# Many queries and configurations retrieve the same chunks.
@lru_cache(maxsize=4096)
def key_phrases(text: str) -> frozenset[str]:
    """Return runs of two to four words between stop words and punctuation, in lower case.

    In a longer run, every four consecutive words are a phrase. A single word with a digit is also a
    phrase. Source: the candidate phrases of RAKE (Rose et al., Automatic keyword extraction from
    individual documents, 2010).
    """
    stops = stop_words("english")
    phrases: set[str] = set()
    for piece in _PHRASE_BREAK.split(text.casefold()):
        run: list[str] = []
        for word in [*_WORD.findall(piece), ""]:
            if word and word not in stops:
                run.append(word)
                continue
            if 2 <= len(run) <= _LONGEST_PHRASE or (len(run) == 1 and re.search(r"\d", run[0])):
                phrases.add(" ".join(run))
            elif len(run) > _LONGEST_PHRASE:
                last = len(run) - _LONGEST_PHRASE + 1
                phrases.update(" ".join(run[n : n + _LONGEST_PHRASE]) for n in range(last))
            run = []
    return frozenset(phrases)


def was_used(phrases: frozenset[str], answer: str, level: Level) -> bool:
    """Return whether an answer contains enough key phrases of a context.

    One phrase is enough for level `high`, and two for `medium` and `low`. A context of level `none`
    is never used.
    """
    if level == "none":
        return False
    padded = f" {' '.join(_WORD.findall(answer.casefold()))} "
    hits = sum(f" {phrase} " in padded for phrase in phrases)
    return hits > 0 if level == "high" else hits > 1


def _used(one: Answered, levels: Sequence[Level]) -> list[bool]:
    """Return for each context whether the answer cites the context or has its key phrases."""
    if not one.answer.answered:
        return [False] * len(one.contexts)
    cited = {citation.chunk_id for citation in one.answer.citations}
    phrases = [key_phrases(chunk.text) for chunk in one.contexts]
    asked = key_phrases(one.query.query)
    used = []
    for n, (chunk, level) in enumerate(zip(one.contexts, levels, strict=True)):
        own = phrases[n] - frozenset().union(asked, *phrases[:n], *phrases[n + 1 :])
        used.append(chunk.chunk_id in cited or was_used(own, one.answer.text, level))
    return used


def best_levels(query: Query, chunks: Iterable[SpanLike], contexts: int) -> list[Level]:
    """Return the highest possible levels of `contexts` retrieved contexts, best first.

    `chunks` has all chunks of the documents with gold spans. Missing chunks have the level `none`.
    """
    levels = sorted((_gold_level(chunk, query) for chunk in chunks), key=_LEVELS.index)
    nothing: list[Level] = ["none"] * contexts
    return [*levels, *nothing][:contexts]


def _gold_level(chunk: SpanLike, query: Query) -> Level:
    if any(answers(chunk, gold) for gold in query.gold_spans):
        return "high"
    same = [gold for gold in query.gold_spans if gold.document_id == chunk.document_id]
    if any(min(chunk.end, g.end) > max(chunk.start, g.start) for g in same):
        return "medium"
    return "low" if same else "none"


def _likeness_level(cosine: float, settings: RuleContext) -> Level:
    steps = zip(_LEVELS, settings.similarities, strict=False)
    return next((level for level, least in steps if cosine >= least), "none")


def _missing(one: Answered) -> list[str]:
    query, chunks = one.query, one.contexts
    if query.gold_spans:
        return [
            f"{gold.document_id}#{gold.start}-{gold.end}"
            for gold in query.gold_spans
            if not any(answers(chunk, gold) for chunk in chunks)
        ]
    if query.entities:
        return [
            f"{kind}: {variants[0]}"
            for kind, groups in query.entities.items()
            for variants in groups
            if not any(find(kind, v, c.text, 88.0) for v in variants for c in chunks)
        ]
    return [] if one.answer.answered else ["an answer"]


def _nearest(answered: Sequence[Answered], embed: SentenceEmbed) -> list[list[float]]:
    """Return each context's highest cosine of a sentence and the query, if gold is missing."""
    needed = [one for one in answered if one.contexts and not one.query.gold_spans]
    sentences = {
        chunk.text: [chunk.text[s:e] for s, e in sentence_spans(chunk.text)] or [chunk.text]
        for one in needed
        for chunk in one.contexts
    }
    asked = dict.fromkeys(one.query.query for one in needed)
    texts = list(dict.fromkeys([*asked, *itertools.chain.from_iterable(sentences.values())]))
    if not texts:
        return [[] for _ in answered]
    vector = dict(zip(texts, embed(texts), strict=True))
    return [
        [
            max(float(vector[s] @ vector[one.query.query]) for s in sentences[chunk.text])
            for chunk in (() if one.query.gold_spans else one.contexts)
        ]
        for one in answered
    ]
