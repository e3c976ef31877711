"""Rank all evaluated configurations by their scores on a leaderboard, with verdicts."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.config import STAGES, fingerprint
from rag_pipeline.datamodels import Answer
from rag_pipeline.errors import InputError, StoreError, counted
from rag_pipeline.evaluation.answers import load_answers
from rag_pipeline.evaluation.best_of_many import BestOfMany, best_of_many
from rag_pipeline.evaluation.comparison import (
    Reference,
    baseline,
    compare_all,
    evaluated_scores,
    measured_metrics,
    shown_metrics,
)
from rag_pipeline.evaluation.intervals import UNMEASURED, Summary, few_groups
from rag_pipeline.evaluation.results import QUERIES, RUN, SCORES, read_as
from rag_pipeline.evaluation.retrieval_metrics import short_name
from rag_pipeline.evaluation.runs import count_left_out, load_groups, load_queries
from rag_pipeline.evaluation.scores import (
    check_metric_names,
    direction,
    ranking_metrics,
    summarize_over,
)
from rag_pipeline.evaluation.significance import Comparison
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.workspace import Workspace

LEADERBOARD_FILE = "evaluation/leaderboard.json"
_PRESENCE, _FACTS = "AnswerPresence@5", "EntityRecall"
_FEW_QUESTIONS = 20
_LEAST_DIFFERING = 6
"""If only one of two configurations answers six questions, the sign test gives p = 2 / 2 ** 6."""
LEADERBOARD_VERSION = 10

Against = Mapping[str, Mapping[str, Comparison]]
"""Comparisons by kind of reference (`baseline` or `released`) and by metric."""


def origin(synthetic: int, queries: int, unanswerable: int) -> str:
    """Return a sentence with the number of synthetic questions, or "" if there are none."""
    if not synthetic:
        return ""
    told = f"{synthetic} of {queries} questions were made from the documents"
    if 2 * synthetic <= queries:
        return f"{told}; figures mix both kinds"
    # The shares of all configurations of the sample: docs/measurements.md, Synthetic questions.
    told += " and are easier than people's (on the sample, 59 to 100 % are found, not 44 to 77 %)"
    return told if unanswerable else f"{told}; none tests a refusal (--unanswerable makes some)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """A configuration with its variants, metrics, comparisons and costs."""

    name: str
    chunking: str
    contextualizer: str
    embedding: str
    retriever: str
    reranker: str
    chunks: int
    seconds: float
    """Duration of the run over all queries, in seconds."""
    calls: CallCounts
    costs: Totals = field(default_factory=Totals)
    """Costs of all calls for this configuration so far."""
    latency_ms: float | None = None
    """Median time of a search for one query, in milliseconds."""
    usd_per_query: float | None = None
    """Cost of the calls of one search in USD, or None if unknown."""
    metrics: Mapping[str, Summary]
    synthetic: int = 0
    """Number of synthetic queries that have an AnswerPresence@5."""
    against: Against = field(default_factory=dict)
    refusals: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Numbers of refused and of all questions `without` an answer, and of `others`."""

    @property
    def refused(self) -> str:
        """Return a sentence with the refusals, or "" if every question has an answer."""
        (refused, n), (wrongly, m) = (self.refusals.get(k, (0, 0)) for k in ("without", "others"))
        told = f"Refused: {refused:,} of {counted(n, 'question')} without an answer"
        return f"{told}, {wrongly:,} of {counted(m, 'other')}." if n else ""

    def summary(self, metric: str) -> Summary:
        """Return a metric's mean and interval, or `UNMEASURED` if the row lacks the metric."""
        return self.metrics.get(metric, UNMEASURED)

    def comparison(self, kind: str, metric: str) -> Comparison | None:
        """Return a metric's comparison with the reference `baseline` or `released`.

        Return None for the reference itself, and for a metric that was not compared.
        """
        return self.against.get(kind, {}).get(metric)


@dataclass(frozen=True, slots=True)
class ComparedWith:
    """A configuration to compare with: a label for people and its name."""

    label: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """All evaluated configurations, best first by the metric `sorted_by`."""

    digest: str
    """Hash of the scores and settings that are shown."""
    corpus: str
    sorted_by: str
    queries_left_out: int
    configurations: tuple[BoardRow, ...]
    queries: int = 0
    synthetic: int = 0
    unanswerable: int = 0
    few_groups: int | None = None
    """Number of documents or groups of all queries, or None if the number is large enough."""
    chosen: BestOfMany | None = None
    """Cross-fitted mean of the best configuration, or None if there is only one configuration."""
    compared_with: Mapping[str, ComparedWith | None] = field(default_factory=dict)
    """The references `baseline` and `released`. A missing reference is None."""

    @property
    def is_measured(self) -> bool:
        """Return whether any configuration has a value of `sorted_by`."""
        return any(row.summary(self.sorted_by).n for row in self.configurations)

    @property
    def misses(self) -> bool:
        """Return whether any configuration lacks a value of `sorted_by` for some query."""
        return any(row.summary(self.sorted_by).missing for row in self.configurations)

    @property
    def scope(self) -> str:
        """Return a warning about too few documents, or "" if there are enough."""
        if self.few_groups is None:
            return ""
        if self.few_groups == 1:
            return (
                "too few documents: all questions are about one document or group. Intervals and "
                "verdicts hold for further questions about it, not for other documents"
            )
        return (
            f"too few documents: all questions are about {self.few_groups} documents or groups. "
            f"Intervals are wide, and few differences are significant. Ask about more documents, "
            f"or give each question its own `group` to draw conclusions about these documents only"
        )

    @property
    def references(self) -> dict[str, str]:
        """Return the names of the references `baseline` and `released` that exist."""
        return {kind: found.name for kind, found in self.compared_with.items() if found}

    def names(self) -> list[str]:
        """Return the names of the configurations, best first."""
        return [row.name for row in self.configurations]

    def labels(self) -> dict[str, str]:
        """Return short names for the configurations whose name lists all their variants.

        A short name lists only the variants of the stages that differ, such as `structural ·
        hybrid`. The variant `none` of a stage becomes, for example, `no reranker`.
        """
        parts = {
            row.name: {stage: getattr(row, stage) for stage in STAGES}
            for row in self.configurations
            if row.name == ".".join(getattr(row, stage) for stage in STAGES)
        }
        differ = [stage for stage in STAGES if len({own[stage] for own in parts.values()}) > 1]
        return {
            name: " · ".join(f"no {s}" if own[s] == "none" else own[s] for s in differ or STAGES)
            for name, own in parts.items()
        }

    def headline(self, name: str) -> str:
        """Return sentences with a configuration's AnswerPresence@5, or "" if unmeasured.

        The first sentence tells whether questions are synthetic. A further sentence has the share
        of expected facts in its answers, if it is measured.
        """
        row = next((row for row in self.configurations if row.name == name), None)
        found = row.summary(_PRESENCE) if row else UNMEASURED
        if row is None or found.mean is None:
            return ""
        sure = ""
        if found.low is not None and found.high is not None:
            sure = f", 95 % interval {100 * found.low:.0f} to {100 * found.high:.0f}"
        compared, more = row.comparison("baseline", _PRESENCE), ""
        if compared and compared.mean is not None and self.references["baseline"] != name:
            gain = round(100 * compared.mean)
            points = f"{abs(gain)} point{'s' * (abs(gain) > 1)}"
            amount = f"{points} {'more' if gain > 0 else 'less'} than" if gain else "as many as"
            verdict = "sure" if compared.verdict in ("better", "worse") else "not sure"
            verdict = f" ({verdict})" if gain else ""
            more = f", {amount} {self.references['baseline']}{verdict}"
        made = f"{origin(row.synthetic, found.n, self.unanswerable)}. " * bool(row.synthetic)
        share = f"{round(found.mean * found.n)} of {counted(found.n, 'question')}"
        percent = f"({100 * found.mean:.0f} %{sure})"
        told = (
            f"{made}{name} finds the answer among the first 5 chunks for {share} {percent}{more}."
        )
        facts = row.summary(_FACTS)
        if facts.mean is None:
            told += " This counts found passages, not right answers."
        else:
            measured = f"{100 * facts.mean:.0f} % of the expected facts"
            told += f" Its answers state {measured} ({counted(facts.n, 'question')})."
        few = self.queries - self.synthetic < _FEW_QUESTIONS
        told += f" {row.refused}" * bool(row.refused)
        if 2 * row.synthetic > found.n and few:
            told += " To measure with people's questions, one a line: rag questions import FILE."
        if found.n >= _FEW_QUESTIONS:
            return told
        least = math.ceil(100 * _LEAST_DIFFERING / found.n)
        shows = f"only a difference of {least} points or more" if least <= 100 else "no difference"
        return f"{told} {found.n} questions are few: they can show {shows} between configurations."

    def sorted_on(self, metric: str) -> "Board":
        """Return the board sorted by another metric, also given by its short name."""
        if not self.configurations:
            return self
        known = self.configurations[0].metrics
        metric = next((name for name in known if short_name(name) == metric), metric)
        if metric not in known:
            raise InputError(f"--sort {metric!r} is not one of: {', '.join(known)}")
        rows = best_first(self.configurations, metric)
        return replace(self, sorted_by=metric, configurations=rows)

    def record(self) -> dict[str, Any]:
        """Return the board as plain JSON values."""
        return asdict(self)


def count_refusals(
    answers: Mapping[str, Answer | None], unanswerable: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return the numbers of refused and of all answers, `without` an answer and for `others`."""
    kinds: dict[str, list[bool]] = {"without": [], "others": []}
    for query_id, answer in answers.items():
        if answer is not None:
            kinds["without" if query_id in unanswerable else "others"].append(not answer.answered)
    return {kind: (sum(refused), len(refused)) for kind, refused in kinds.items()}


def best_first(rows: Iterable[BoardRow], metric: str) -> tuple[BoardRow, ...]:
    """Sort rows by their mean of a metric, with the best row first and unmeasured rows last."""
    sign = 1 if direction(metric) == "lower" else -1

    def place(row: BoardRow) -> tuple[bool, float]:
        mean = row.summary(metric).mean
        return mean is None, sign * (mean or 0.0)

    return tuple(sorted(rows, key=place))


def leaderboard_digest(workspace: Workspace) -> str:
    """Hash the scores and settings that a leaderboard shows."""
    config = workspace.config
    names = list(config.all_configurations)
    digests = [[scores.digest(workspace, name) for scores in SCORES] for name in names]
    settings = [config.serve_metric, config.baseline_name, config.gate.metrics, names]
    health = config.evaluation.health  # a check of the leaderboard reads these thresholds
    problems = QUERIES.note(workspace).get("problems", [])
    return fingerprint("leaderboard", LEADERBOARD_VERSION, *settings, health, digests, problems)


def leaderboard_is_current(workspace: Workspace) -> bool:
    """Return whether the leaderboard shows the current scores."""
    written = workspace.store.read_json(LEADERBOARD_FILE) or {}
    return bool(written.get("digest") == leaderboard_digest(workspace))


def update_leaderboard(
    workspace: Workspace,
    released: Reference | None = None,
    costs: Mapping[str, Totals] | None = None,
) -> Board:
    """Summarize every evaluated configuration, best first by `serve_metric`, and save the board.

    Each configuration is compared with the baseline and with `released`. `costs` has the costs of
    calls by configuration. Raise ConfigError for an unknown `serve_metric` or gate metric.
    """
    config = workspace.config
    scores = evaluated_scores(workspace)
    check_metric_names(config, (m for own in scores.values() for m in own))
    rows = []
    groups, queries = load_groups(workspace), load_queries(workspace)
    unanswerable = {q.query_id for q in queries if UNANSWERABLE in q.tags}
    synthetic = {q.query_id for q in queries if q.synthetic}
    rankings = {metric.name for metric in ranking_metrics()}
    for name, own in scores.items():
        note = RUN.note(workspace, name)
        if not note:
            continue
        # No ranking is right for an unanswerable query, so its missing value does not count.
        ranked = {
            m: {q: v for q, v in values.items() if m not in rankings or q not in unanswerable}
            for m, values in own.items()
        }
        summaries = {m: summarize_over(v, v, groups, m) for m, v in ranked.items()}
        names = dict.fromkeys((*(m.name for m in ranking_metrics()), *own))
        rows.append(
            BoardRow(
                **config.configuration(name).model_dump(),
                chunks=note["pinned"]["rows"],
                seconds=note["seconds"],
                calls=CallCounts(**note["calls"]),
                costs=(costs or {}).get(name, Totals()),
                latency_ms=note.get("latency_ms"),
                usd_per_query=note.get("usd_per_query"),
                refusals=count_refusals(load_answers(workspace, name), unanswerable),
                metrics={m: summaries.get(m, UNMEASURED) for m in names},
                synthetic=sum(
                    value is not None and query_id in synthetic
                    for query_id, value in ranked.get(_PRESENCE, {}).items()
                ),
            )
        )
    (sorted_by,) = measured_metrics([config.serve_metric], scores.values())
    board = Board(
        digest=leaderboard_digest(workspace),
        corpus=config.corpus,
        sorted_by=sorted_by,
        queries_left_out=count_left_out(workspace),
        configurations=best_first(rows, sorted_by),
        queries=len(queries),
        synthetic=sum(query.synthetic for query in queries),
        unanswerable=len(unanswerable),
        few_groups=few_groups(list(groups.values())),
        chosen=best_of_many(
            sorted_by, {row.name: scores[row.name].get(sorted_by, {}) for row in rows}, groups
        ),
    )
    board = with_verdicts(workspace, board, released)
    workspace.store.write_json(LEADERBOARD_FILE, board.record())
    return board


def with_verdicts(
    workspace: Workspace, board: Board, released: Reference | None, also: Sequence[str] = ()
) -> Board:
    """Return the board with its rows compared with the baseline and the release.

    The comparisons are by the shown metrics and `also`. A row is not compared with itself.
    """
    names = board.names()
    scores = {n: s for n, s in evaluated_scores(workspace).items() if n in names}
    shown = shown_metrics(workspace.config, also)
    metrics = [m for m in shown if any(m in own for own in scores.values())]
    references = {"baseline": baseline(workspace), "released": released}
    groups = load_groups(workspace)
    found = {
        kind: compare_all(scores, reference, metrics, groups) if reference else {}
        for kind, reference in references.items()
    }

    def against(name: str) -> Against:
        return {
            kind: {metric: family[name] for metric, family in by.items() if name in family}
            for kind, by in found.items()
        }

    return replace(
        board,
        compared_with={
            kind: ComparedWith(reference.label, reference.configuration) if reference else None
            for kind, reference in references.items()
        },
        configurations=tuple(replace(r, against=against(r.name)) for r in board.configurations),
    )


def load_leaderboard(workspace: Workspace) -> Board:
    """Return the last leaderboard. Raise StoreError if it is missing or invalid."""
    written = workspace.store.read_json(LEADERBOARD_FILE)
    if written is None:
        raise StoreError(
            f"{workspace.config.corpus}: nothing has been evaluated yet; run: rag run "
            f"{workspace.config.where}"
        )
    try:
        return read_as(Board, written)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        place = workspace.store.address(LEADERBOARD_FILE)
        raise StoreError(f"{place}: not a leaderboard: {problem}; run `rag run` again") from None
