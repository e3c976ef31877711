"""Draw a representative sample of the questions in a server's log. People then label it."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.errors import InputError
from rag_pipeline.questions.files import read_lines

UNLABELLED = ".unlabelled.jsonl"
_ROUNDS = 20
_SEED = 15
_LIKE = 5
_LONGEST = 2_000

EmbedTexts = Callable[[Sequence[str]], Any]
"""Returns one vector of length 1 per text, as the rows of an array."""


@dataclass(frozen=True, slots=True)
class LoggedQuestion:
    """A question that represents similar questions of a log.

    `asked` is how often these questions were asked. `like` holds some of their other wordings.
    `named` holds the passages that people named as the answer, as gold spans with their quotes.
    """

    query: str
    asked: int
    like: tuple[str, ...] = ()
    named: tuple[Mapping[str, Any], ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the question as a row of a file to be labelled."""
        digest = hashlib.sha256(self.query.casefold().encode()).hexdigest()
        counted = {"asked": self.asked, "like": list(self.like)}
        row = {"query_id": f"asked-{digest[:8]}", "query": self.query, "gold_spans": [*self.named]}
        return {**row, "metadata": counted}


def read_log(path: Path) -> Counter[str]:
    """Count the questions in a file of questions or feedback, each in its most frequent wording.

    A line is a question, or a JSON object with `query`, as `rag serve --log-questions` writes it.
    Torn lines are left out. Raise InputError for an unreadable file or another JSON object.
    """
    wordings: dict[str, Counter[str]] = {}
    for query, _ in _records(path):
        wordings.setdefault(_key(query), Counter())[query] += 1
    return Counter({w.most_common(1)[0][0]: w.total() for w in wordings.values()})


def read_feedback(path: Path, corpus: str) -> list[LoggedQuestion]:
    """Return the judged questions of a corpus, with the passages that people named.

    `path` is a file that `/v1/feedback` writes. The sources of a helpful answer count as named if
    the judgement names no passage. Torn lines are left out. Raise InputError for an unreadable file
    or another JSON object.
    """
    judged: dict[str, tuple[list[str], dict[str, Mapping[str, Any]]]] = {}
    for query, record in _records(path):
        if record.get("corpus") != corpus or "verdict" not in record:
            continue
        right = [record["passage"]] if record.get("passage") else []
        if not right and record["verdict"] == "helpful":
            right = record.get("sources", [])
        queries, named = judged.setdefault(_key(query), ([], {}))
        queries.append(query)
        for one in right:
            span = {name: one[name] for name in ("document_id", "start", "end")}
            named[json.dumps(span)] = {**span, "quote": one["text"]}
    return [LoggedQuestion(q[0], len(q), named=tuple(n.values())) for q, n in judged.values()]


def new_of(judged: Sequence[LoggedQuestion], known: Collection[str]) -> list[LoggedQuestion]:
    """Return the questions that are not in `known`. Ignore case, spaces and final punctuation."""
    left_out = {*map(_key, known)}
    return [one for one in judged if _key(one.query) not in left_out]


def _lines(path: Path) -> list[str]:
    try:
        return list(read_lines(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read it: {error}") from None


def _key(query: str) -> str:
    return " ".join(query.split()).casefold().rstrip("?! .")


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each question with its record. Leave out torn lines."""
    for number, line in enumerate(_lines(path), 1):
        record = _parsed(line)
        if record is None:
            continue
        text = record.get("query")
        if not isinstance(text, str):
            raise InputError(f'{path}:{number}: has no text as "query": {line.strip()[:80]}')
        if query := " ".join(text.split())[:_LONGEST]:
            yield query, record


def torn_lines(path: Path) -> list[int]:
    """Return the numbers of lines that begin a JSON object and do not end it, from 1.

    A server that was killed, or that had no space left, leaves such a line.
    """
    return [n for n, line in enumerate(_lines(path), 1) if _parsed(line) is None]


def _parsed(line: str) -> dict[str, Any] | None:
    """Return a line's JSON object, or None if the line is torn. A line of text is the query."""
    text = line.strip()
    try:
        found: dict[str, Any] = json.loads(text) if text.startswith("{") else {"query": text}
    except ValueError:
        return None
    return found


def sample(
    asked: Counter[str], number: int, embed: EmbedTexts, known: Collection[str] = ()
) -> list[LoggedQuestion]:
    """Return at most `number` questions, one per cluster, the largest cluster first.

    k-means makes the clusters from the questions' vectors. A question's count is its weight. The
    question that is nearest to the cluster's mean represents the cluster. Questions in `known` are
    left out. The same log gives the same sample.
    """
    left_out = {*map(_key, known)}
    queries = sorted(q for q in asked if _key(q) not in left_out)
    if not queries or number < 1:
        return []
    weights = np.array([asked[q] for q in queries], float)
    vectors = np.asarray(embed(queries), float)
    of = _clusters(vectors, weights, min(number, len(queries)))
    found = []
    for cluster in range(int(of.max()) + 1):
        own = np.flatnonzero(of == cluster)
        if not len(own):
            continue
        middle = weights[own] @ vectors[own]
        order = own[np.argsort(-(vectors[own] @ middle), kind="stable")]
        names = [queries[i] for i in order]
        found.append(LoggedQuestion(names[0], int(weights[own].sum()), tuple(names[1 : 1 + _LIKE])))
    return sorted(found, key=lambda one: (-one.asked, one.query))


def _clusters(vectors: Any, weights: Any, number: int) -> Any:
    """Return the cluster of each row, by weighted k-means over cosines, which scipy lacks.

    The means are initialized as in k-means++ (Arthur and Vassilvitskii, 2007).
    """
    random = np.random.default_rng(_SEED)
    middles = vectors[[int(weights.argmax())]]
    while len(middles) < number:
        apart = weights * np.clip(1 - (vectors @ middles.T).max(axis=1), 0, None)
        if apart.sum() <= 1e-9:
            break
        chosen = random.choice(len(vectors), p=apart / apart.sum())
        middles = np.vstack([middles, vectors[[chosen]]])
    of = (vectors @ middles.T).argmax(axis=1)
    for _ in range(_ROUNDS):
        for cluster in range(len(middles)):
            own = of == cluster
            if own.any():
                middle = weights[own] @ vectors[own]
                middles[cluster] = middle / max(float(np.linalg.norm(middle)), 1e-12)
        before, of = of, (vectors @ middles.T).argmax(axis=1)
        if (before == of).all():
            break
    return of


def labelled(row: dict[str, Any], gold: Sequence[GoldSpan]) -> dict[str, Any]:
    """Return the row with its gold spans, or with the tag `unanswerable` if it has none."""
    tags = ["asked"] if gold else ["asked", "unanswerable"]
    return {**row, "gold_spans": [asdict(span) for span in gold], "tags": tags}
