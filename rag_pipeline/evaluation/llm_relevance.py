"""Ask a chat model whether passages answer, YES or NO, and measure its agreement with gold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.costs import Ledger, attributed, charging
from rag_pipeline.calls.database import cache_folder
from rag_pipeline.config import CorpusFile, Models, RelevanceJudge
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Ask, Reply, ask
from rag_pipeline.models.prompts import Shown, Template, template_of
from rag_pipeline.models.providers.openai import GivenKeyChat
from rag_pipeline.workspace import Workspace

_PROMPT = template_of(__file__)
_CHOICES = ("YES", "NO")


class ChatRelevance(RelevanceJudge):
    """A judge that asks a chat model about each of the first `passages` passages: YES or NO.

    A `template` replaces the packaged prompt. It must contain the placeholders `{query}` and
    `{passage}`. Their texts stand between delimiters.
    """

    judge: Literal["llm"]
    chat: ChatName
    template: Annotated[str | None, AfterValidator(_PROMPT.check)] = None

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model and the prompt."""
        return [*super().made_from(config), _PROMPT.using(self.template).version]

    def label(
        self, asked: Sequence[tuple[Query, ScoredChunk]], models: Models
    ) -> list[bool | ProviderError]:
        """Return for each passage whether it answers its query, or the error of its call."""
        pairs = [(query.query, Shown(chunk.text, chunk.document_id)) for query, chunk in asked]
        template = _PROMPT.using(self.template)
        return judge_passages(pairs, lambda prompts: models.ask(prompts, self.chat), template)


def judge_passages(
    pairs: Sequence[tuple[str, Shown]], ask: Ask, template: Template = _PROMPT
) -> list[bool | ProviderError]:
    """Return for each (query, passage) whether the passage answers, or the error of its call."""
    prompts = [
        template.prompt(query=query, passage=passage, choices=_CHOICES) for query, passage in pairs
    ]
    return [r.data == "YES" if isinstance(r, Reply) else r for r in ask(prompts)]


class Evaluator:
    """A chat model as judge of a ranking of passages, with the ranking's Answer Presence@k.

    The label of a failed judgement is None. Every judgement is cached, and charged once. If a
    `workspace` is given, the cache, prices and budget of its corpus apply. Otherwise, calls and
    costs are in `~/.cache/rag-pipeline/evaluator`.

    >>> evaluator = Evaluator(api_key="...", base_url="https://api.openai.com/v1")
    >>> evaluator.get_relevance_labels([{"document": "The capital of France is Paris."}],
    ...                                "What is the capital of France?")
    {'The capital of France is Paris.': 1}
    >>> evaluator.compute_metrics(ks=[1])
    {'@1': {'Accuracy': 1.0, 'Number of Relevant Docs': 1, 'Answer Presence': 1}}
    """

    def __init__(
        self,
        api_key: str,
        base_url: str,
        model: str = "gpt-4o-mini",
        prompt_template: str | None = None,
        *,
        workspace: Workspace | None = None,
    ) -> None:
        """Raise ValueError for a wrong `base_url` or `model`, and for an incomplete template.

        A template contains the placeholder `{query}` and one of `{passage}`, `{document}` and
        `{doc_text}`. Their texts stand between delimiters.
        """
        database = Database(cache_folder() / "evaluator" / "calls.sqlite")
        self.cache = workspace.cache if workspace else CallCache(database)
        self.ledger = workspace.ledger if workspace else Ledger(database, "evaluator")
        self.chat = GivenKeyChat.of(api_key, base_url=base_url, model=model)
        self.model = model
        self.prompt_template = prompt_template or _PROMPT.user
        self._template()
        self.relevance_dict: dict[str, int | None] = {}
        self.relevance_labels: list[int | None] | None = None
        self.errors: list[str] = []

    def get_relevance_labels(
        self, docs: Sequence[dict[str, Any]], query: str, top_k: int | None = None
    ) -> dict[str, int | None]:
        """Return a label for each text: 1 if the text answers the query, or else 0.

        The texts are the values of `document` in the first `top_k` entries of `docs`, by default in
        all entries. The label of a failed judgement is None, and `errors` has the reason. Raise
        ValueError for an entry without a `document`. Raise CallsStoppedError for a wrong key, a
        wrong model or a server that is down. Raise BudgetError if the workspace's budget is spent.
        """
        chosen = list(docs)[:top_k]
        for place, doc in enumerate(chosen):
            if not isinstance(doc.get("document"), str):
                raise ValueError(f"docs[{place}]: no text under `document`: {doc!r:.80}")
        texts = [doc["document"] for doc in chosen]
        distinct = list(dict.fromkeys(texts))
        with charging(self.ledger), attributed("relevance"):
            judged = judge_passages(
                [(query, Shown(text)) for text in distinct],
                lambda prompts: ask(prompts, self.chat, self.cache),
                self._template(),
            )
        found = dict(zip(distinct, judged, strict=True))
        failed = {t: made for t, made in found.items() if isinstance(made, ProviderError)}
        self.errors = [f"{text[:60]!r}: {error}" for text, error in failed.items()]
        self.relevance_dict = {t: None if t in failed else int(found[t] is True) for t in distinct}
        self.relevance_labels = [self.relevance_dict[text] for text in texts]
        return self.relevance_dict

    def _template(self) -> Template:
        if self.prompt_template == _PROMPT.user:
            return _PROMPT
        try:
            own = re.sub(r"\{(document|doc_text)\}", "{passage}", self.prompt_template)
            return _PROMPT.using(_PROMPT.check(own))
        except ValueError as error:
            raise ValueError(f"prompt_template: {error}") from None

    def compute_metrics(
        self, ks: Sequence[int] = tuple(range(1, 11)), show: bool = False
    ) -> dict[str, dict[str, float | int | None]]:
        """Return the metrics at each cutoff k of `ks` by the key `@k`.

        The metrics are `Accuracy` (relevant texts / k), `Number of Relevant Docs` and `Answer
        Presence`. The last `get_relevance_labels` gives the labels. If one of the first k labels is
        None, the metrics at k are None, except an Answer Presence of 1. If `show` is True, print
        the metrics. Raise ValueError without labels, or if a k is below 1.
        """
        if self.relevance_labels is None:
            raise ValueError("compute_metrics: no labels yet; call get_relevance_labels first")
        metrics: dict[str, dict[str, float | int | None]] = {}
        for k in ks:
            if k < 1:
                raise ValueError(f"ks: {k} is below 1; cutoffs start at 1")
            first = self.relevance_labels[:k]
            known = [label for label in first if label is not None]
            complete = len(known) == len(first)
            metrics[f"@{k}"] = {
                "Accuracy": sum(known) / k if complete else None,
                "Number of Relevant Docs": sum(known) if complete else None,
                "Answer Presence": int(any(known)) if complete or any(known) else None,
            }
            if show:
                print(f"@{k}: {metrics[f'@{k}']}")  # noqa: T201 - asked for
        return metrics


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of a judge with gold over the passages with both labels."""

    both_yes: int
    only_judge: int
    only_gold: int
    both_no: int

    @property
    def n(self) -> int:
        """Return the number of passages with both labels."""
        return self.both_yes + self.only_judge + self.only_gold + self.both_no

    @property
    def kappa(self) -> float | None:
        """Return Cohen's kappa: (observed - expected) / (1 - expected) agreement.

        Return None if no passage has both labels, or if all labels are equal. Source: Cohen, A
        coefficient of agreement for nominal scales, 1960.
        """
        if not self.n:
            return None
        judge_yes = self.both_yes + self.only_judge
        gold_yes = self.both_yes + self.only_gold
        observed = (self.both_yes + self.both_no) * self.n
        expected = judge_yes * gold_yes + (self.n - judge_yes) * (self.n - gold_yes)
        whole = self.n * self.n
        return None if expected == whole else (observed - expected) / (whole - expected)


def agreement(gold: Sequence[bool | None], judge: Sequence[bool | None]) -> Agreement:
    """Count the agreement of a judge with gold over the passages with both labels."""
    pairs = [p for p in zip(gold, judge, strict=True) if None not in p]
    return Agreement(
        both_yes=pairs.count((True, True)),
        only_judge=pairs.count((False, True)),
        only_gold=pairs.count((True, False)),
        both_no=pairs.count((False, False)),
    )
