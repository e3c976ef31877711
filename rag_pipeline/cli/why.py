"""Implement `rag why` and `rag compare --why`, which find the causes of changed results."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rag_pipeline import release
from rag_pipeline.cli.comparing import resolve, text_of_query
from rag_pipeline.cli.console import console, counting, print_json, say, visible
from rag_pipeline.config import load_config
from rag_pipeline.errors import count_shown
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.release.causes import CHANGES, Cause, causes
from rag_pipeline.workspace import Workspace

_SHOWN = 10


def show_cause(
    file: Path, query_id: str, of: str | None, against: str | None, k: int, as_json: bool
) -> None:
    """Print the cause of a query's different results in two releases or configurations."""
    workspace = Workspace(load_config(file))
    text = text_of_query(workspace, query_id)
    of = of or release.current(workspace).release_id
    (found,) = causes(workspace, of, against or _before(workspace, of), [query_id], k)
    if as_json:
        print_json({**asdict(found), "why": CHANGES[found.change]})
        return
    say(f"[bold]{visible(query_id)}[/bold]  {visible(text)}")
    say(f"  {visible(found.sentence)}")


def show_causes(file: Path, one: str, other: str) -> None:
    """Print the causes of different results in two releases or configurations.

    The first lines count the causes of all queries. Then the cause of each query follows, for at
    most `_SHOWN` queries.
    """
    workspace = Workspace(load_config(file))
    metric = workspace.config.serve_metric
    mine, theirs = (resolve(workspace, name).scores.get(metric, {}) for name in (one, other))
    texts = {q.query_id: q.query for q in load_queries(workspace)}
    changed = [q for q, v in mine.items() if q in texts and q in theirs and v != theirs[q]]
    if not changed:
        console.print(f"no query was won or lost at {metric}")
        return
    found: list[Cause] = []
    with counting("searching again", "queries") as progress:
        for cause in causes(workspace, one, other, changed):
            found.append(cause)
            progress(len(found), len(changed))
    console.print("Causes:")
    for line in totals(found)[:_SHOWN]:
        say(f"  {visible(line)}")
    most = count_shown(found, _SHOWN)
    for cause in found[:most]:
        console.print(f"  {visible(cause.query_id)}  {visible(texts[cause.query_id])}")
        say(f"    {visible(cause.sentence)}")
    if len(found) > most:
        console.print(f"  (and {len(found) - most} more)")


def totals(found: Iterable[Cause]) -> list[str]:
    """Return a line per kind of change and better side, with its count, most frequent first."""
    places: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for cause in found:
        places[cause.better, CHANGES[cause.change]][cause.where] += 1
    lines = []
    for (better, told), where in sorted(places.items(), key=lambda item: -item[1].total()):
        place = f"{len(where)} documents" if len(where) > 1 else next(iter(where))
        lines.append(f"{where.total()} better in {better}: {told}{f' ({place})' if place else ''}")
    return lines


def _before(workspace: Workspace, name: str) -> str:
    """Return the release before a release, or else the baseline.

    For the baseline itself, return the first other configuration.
    """
    known = workspace.config.all_configurations
    found = None if name in known else release.load(workspace, name)
    if found and found.previous:
        return found.previous
    its, others = found.configuration if found else name, [workspace.config.baseline_name, *known]
    return next((other for other in others if other != its), its)
