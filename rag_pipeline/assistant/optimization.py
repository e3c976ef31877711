"""Optimize the assistant's prompts with examples from a corpus's queries."""

import contextlib
import io
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import dspy

from rag_pipeline.answering.reading import Reader
from rag_pipeline.assistant import prompts as stored
from rag_pipeline.assistant.language_model import open_language_model
from rag_pipeline.assistant.pipeline import Assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.assistant.results import AssistedAnswer
from rag_pipeline.assistant.signatures import Prompts, fingerprint
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import ANYBODY, Query
from rag_pipeline.errors import ConfigError, InputError, ProviderError
from rag_pipeline.evaluation.entities.scores import score_entities
from rag_pipeline.evaluation.intervals import mean_of_known
from rag_pipeline.evaluation.metrics import answer_presence
from rag_pipeline.evaluation.relevance import relevance_labels
from rag_pipeline.evaluation.runs import load_queries

MeasureAnswer = Callable[[Query, AssistedAnswer], float | None]
"""Returns the score, 0 to 1, of the answer to a query, or None after a failure."""
Tell = Callable[[str], None]
"""Called with the name of each step at its start."""

_FEWEST_QUERIES = 6
_MOST_EXAMPLES = 4
_GOOD_ENOUGH = 0.5
"""Minimum score of an answer that becomes an example."""
_K = 5


def optimize_prompts(
    corpus: Corpus,
    reader: Reader,
    metric: str = "EntityF1",
    trials: int = 3,
    seed: int = 0,
    progress: Tell = lambda what: None,
) -> stored.PromptVersion:
    """Optimize the assistant's prompts for a metric. Store and return the result.

    The queries that the metric can score are shuffled by `seed` and split into three parts. Each
    trial answers the first part. Up to 4 answers per signature become examples if they score at
    least 0.5 (BootstrapFewShot of DSPy, Khattab et al., ICLR 2024). The second part selects the
    best trial. The result is adopted if it has examples and scores on the last part at least as
    well as the prompts in use. Raise ConfigError without a model. Raise InputError for too few
    queries or an invalid `metric` or `trials`.
    """
    model, measure = open_language_model(corpus, patient=True), measure_of(corpus, metric)
    if model is None:
        raise ConfigError(
            f"{corpus.config.where}: assistant.chat is not set, and prompts are optimized for a "
            f"model; set it to one of `chats`"
        )
    if trials < 1:
        raise InputError(f"trials is {trials}; it must be at least 1")
    by_facts = metric == "EntityF1"
    # The prompts are part of every caller's model calls, so examples are from public documents.
    released = ReleasedCorpus(corpus).seen_by(ANYBODY)
    queries = [
        q
        for q in load_queries(corpus.workspace)
        if (q.entities if by_facts else q.gold_spans)
        and all(corpus.sees(released.caller, d) for d in q.answering_documents)
    ]
    if len(queries) < _FEWEST_QUERIES:
        wanted = "entities" if by_facts else "gold_spans"
        raise InputError(
            f"{corpus.config.where}: {len(queries)} queries have {wanted}, but {metric} needs at "
            f"least {_FEWEST_QUERIES}; add queries with {wanted} and run `rag run`"
        )
    first, second, last = split(queries, seed)

    def answer(prompts: Prompts, query: str) -> AssistedAnswer:
        assistant = Assistant(
            corpora={corpus.name: released},
            settings=corpus.config.assistant,
            reader=reader,
            model=model.with_prompts(prompts),
            needs_model=True,
        )
        return assistant.ask(query)

    def score(prompts: Prompts, on: Sequence[Query]) -> float | None:
        return mean_of_known(measure(query, answer(prompts, query.query)) for query in on)

    candidates = []
    for trial in range(trials):
        progress(f"trial {trial + 1} of {trials}")
        candidate = _bootstrap(answer, measure, first, random.Random(f"{seed}.{trial}"))
        value = score(candidate, second)
        candidates.append((-1.0 if value is None else value, -trial, candidate))
    *_, best = max(candidates, key=lambda made: made[:2])
    progress("validation")
    before, after = score(model.prompts, last), score(best, last)
    record = best.as_record()
    changed = any(prompt.examples for prompt in record.values())
    return stored.save(
        corpus.workspace.store,
        stored.PromptVersion(
            number=0,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            fingerprint=fingerprint(),
            model=model.name,
            metric=metric,
            seed=seed,
            trials=trials,
            bootstrapped=len(first),
            selected=len(second),
            validated=len(last),
            score_before=before,
            score_after=after,
            adopted=changed and before is not None and after is not None and after >= before,
            prompts=record,
        ),
    )


def measure_of(corpus: Corpus, metric: str) -> MeasureAnswer:
    """Return the function that measures EntityF1 of an answer or AnswerPresence@5 of its passages.

    Raise InputError for any other metric.
    """
    if metric == "AnswerPresence":
        return lambda query, made: answer_presence(
            relevance_labels(made.passages, query.gold_spans), _K
        )
    if metric != "EntityF1":
        known = ", ".join(get_args(stored.PromptMetric))
        raise InputError(f"metric {metric!r} is not one of: {known}")
    settings = corpus.config.evaluation.entities

    def entity_f1(query: Query, made: AssistedAnswer) -> float | None:
        text = made.text if made.answered else ""
        (found,) = settings.extract([text], corpus.workspace.models())
        if isinstance(found, ProviderError):
            return None
        gold = query.entities, query.critical_types
        return score_entities(text, found, *gold, settings.similarity).total.f1

    return entity_f1


def split(queries: Sequence[Query], seed: int) -> tuple[list[Query], list[Query], list[Query]]:
    """Return three random parts of the queries. Their sizes differ by at most one."""
    shuffled = sorted(queries, key=lambda query: query.query_id)
    random.Random(seed).shuffle(shuffled)
    return shuffled[::3], shuffled[1::3], shuffled[2::3]


class _Program(dspy.Module):
    """The prompts that DSPy compiles, with a function that answers with these prompts."""

    def __init__(self, answer: Callable[[Prompts, str], AssistedAnswer]) -> None:
        super().__init__()
        self.prompts = Prompts()
        self.answer = answer

    def forward(self, query: str) -> Any:
        return dspy.Prediction(made=self.answer(self.prompts, query))


def _bootstrap(
    answer: Callable[[Prompts, str], AssistedAnswer],
    measure: MeasureAnswer,
    queries: Sequence[Query],
    rng: random.Random,
) -> Prompts:
    by_id = {query.query_id: query for query in queries}
    examples = [
        dspy.Example(query_id=query.query_id, query=query.query).with_inputs("query")
        for query in rng.sample(queries, len(queries))
    ]

    def good_enough(example: Any, prediction: Any, trace: Any) -> bool:
        value = measure(by_id[example.query_id], prediction.made)
        return value is not None and value >= _GOOD_ENOUGH

    optimizer = dspy.BootstrapFewShot(
        metric=good_enough,
        max_bootstrapped_demos=rng.randint(1, _MOST_EXAMPLES),
        max_labeled_demos=0,
        max_errors=1,  # raise the first error
    )
    printed = io.StringIO()  # DSPy draws a progress bar
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        compiled = optimizer.compile(_Program(answer), trainset=examples)
    prompts: Prompts = compiled.prompts
    return prompts
