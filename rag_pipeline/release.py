"""Which configuration is served: a manifest that pins one configuration's exact builds.

A release is written once and never changed; `releases/current.json` names the one that is
served and is replaced atomically, so a reader sees one whole release or another.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.checks import (
    check_chunks,
    check_contextualized_chunks,
    check_documents,
    check_lexical_index,
    check_queries,
    check_vector_index,
)
from rag_pipeline.config import Configuration
from rag_pipeline.errors import CheckFailedError, ConfigError, NotReleasedError
from rag_pipeline.evaluation.runs import (
    Pinned,
    load_leaderboard,
    run_file,
    run_is_current,
    scores_are_current,
)
from rag_pipeline.indexing import SHARDED_ASSETS, open_stage, plan, plan_lexical
from rag_pipeline.workspace import Workspace

FORMAT = 1
_CURRENT = "releases/current.json"


@dataclass(frozen=True, slots=True)
class Release:
    """One manifest: what is served, from which builds, and why it was chosen."""

    release_id: str
    created: str
    configuration: str
    settings: Mapping[str, Any]
    run_digest: str
    pinned: Pinned
    metrics: Mapping[str, Any]
    reasons: tuple[str, ...]
    previous: str | None
    format: int = FORMAT


def choose(workspace: Workspace) -> tuple[Configuration, list[str]]:
    """Return the configuration to serve and why: the named one, or the best by `serve_metric`."""
    config = workspace.config
    board = load_leaderboard(workspace)["configurations"]
    evaluated = {row["name"]: row for row in board}
    if not evaluated:
        raise NotReleasedError(f"{config.corpus}: no configuration has been evaluated yet")
    if config.serve != "best":
        if config.serve not in evaluated:
            raise NotReleasedError(f"{config.corpus}: {config.serve} has not been evaluated yet")
        return config.configuration(config.serve), [f"serve: {config.serve}"]
    held_back = set((workspace.store.read_json(_CURRENT) or {}).get("held_back", []))
    for row in board:
        made_from = workspace.store.read_note(run_file(row["name"])).get("digest")
        if made_from in held_back:
            continue
        score = row["metrics"][config.serve_metric]
        if score["mean"] is None:
            first = next(name for name in config.all_configurations if name in evaluated)
            return config.configuration(first), ["no query has gold spans: the first one listed"]
        return config.configuration(row["name"]), [
            f"best {config.serve_metric}: {score['mean']:.4f} over {score['n']} queries, of "
            f"{len(board)} configurations"
        ]
    raise NotReleasedError(
        f"{config.corpus}: every evaluated build was rolled back; change something and run again"
    )


def is_current(workspace: Workspace) -> bool:
    """Return whether the release is the build that would be chosen now."""
    try:
        configuration, _ = choose(workspace)
        release = current(workspace)
    except NotReleasedError:
        return False
    note = workspace.store.read_note(run_file(configuration.name))
    return release.run_digest == note.get("digest")


def publish(workspace: Workspace) -> Release:
    """Release the chosen configuration's evaluated builds.

    Raises CheckFailedError, and leaves what is served as it is, when the builds are stale,
    unevaluated, or their parts disagree.
    """
    configuration, reasons = choose(workspace)
    problems = obstacles(workspace, configuration)
    if problems:
        raise CheckFailedError(
            f"{workspace.config.corpus}: {configuration.name} is not released: "
            + "; ".join(problems)
        )
    note = workspace.store.read_note(run_file(configuration.name))
    before = _current_id(workspace)
    if before and load(workspace, before).run_digest == note["digest"]:
        return load(workspace, before)
    board = load_leaderboard(workspace)["configurations"]
    release = Release(
        release_id=_next_id(workspace),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=configuration.name,
        settings=_settings(workspace, configuration),
        run_digest=note["digest"],
        pinned=Pinned(**note["pinned"]),
        metrics=next(r["metrics"] for r in board if r["name"] == configuration.name),
        reasons=tuple(reasons),
        previous=before,
    )
    table = workspace.vector_index(configuration.vector_key).open()
    with suppress(ValueError, RuntimeError):  # a killed run has set this tag before
        table.tags.create(release.release_id, release.pinned.vector_version)
    workspace.store.write_json(_manifest(release.release_id), asdict(release))
    _serve(workspace, release.release_id)
    return release


def obstacles(workspace: Workspace, configuration: Configuration) -> list[str]:
    """Return why a configuration's builds can't be released; [] when they can."""
    problems = []
    keys = (configuration.chunking, configuration.context_key, configuration.vector_key)
    for asset, key in zip(SHARDED_ASSETS, keys, strict=True):
        todo = plan(open_stage(workspace, asset, key))
        if not todo.is_current:
            problems.append(
                f"{asset} {key} is not current ({len(todo.stale)} documents stale, "
                f"{len(todo.orphaned)} orphaned, {todo.waiting} waiting)"
            )
    if plan_lexical(workspace, configuration.context_key):
        problems.append(f"lexical_index {configuration.context_key} is not current")
    if not problems and not run_is_current(workspace, configuration):
        problems.append("its retrieval_run is not of these builds")
    if not problems and not scores_are_current(workspace, configuration):
        problems.append("its answer_presence is not of this run")
    return problems or _failed_checks(workspace, configuration)


def _failed_checks(workspace: Workspace, configuration: Configuration) -> list[str]:
    # Judged again here: a check that failed in an earlier run must not be forgotten by this one.
    results = {
        "documents": check_documents(workspace),
        "queries": check_queries(workspace),
        "chunks": check_chunks(workspace, configuration.chunking),
        "contextualized_chunks": check_contextualized_chunks(workspace, configuration.context_key),
        "vector_index": check_vector_index(workspace, configuration.vector_key),
    }
    if workspace.config.engine(configuration):
        results["lexical_index"] = check_lexical_index(workspace, configuration.context_key)
    return [f"{asset}: {f}" for asset, result in results.items() for f in result.failures]


def current(workspace: Workspace) -> Release:
    """Return the release that is served; raise NotReleasedError when there is none."""
    release_id = _current_id(workspace)
    if release_id is None:
        raise NotReleasedError(
            f"{workspace.config.corpus}: nothing has been released yet; run: rag run "
            f"{workspace.config.where}"
        )
    return load(workspace, release_id)


def load(workspace: Workspace, release_id: str) -> Release:
    """Return one release's manifest."""
    named = re.fullmatch(r"release-\d+", release_id)
    record = workspace.store.read_json(_manifest(release_id)) if named else None
    if record is None:
        known = ", ".join(r.release_id for r in history(workspace)) or "none"
        raise NotReleasedError(
            f"{workspace.config.corpus}: no release {release_id!r}; there are: {known}"
        )
    if record.get("format") != FORMAT:
        raise ConfigError(
            f"{workspace.config.corpus}: release {release_id} has format "
            f"{record.get('format')!r}, this version reads {FORMAT}"
        )
    record["pinned"] = Pinned(**record["pinned"])
    record["reasons"] = tuple(record["reasons"])
    return Release(**record)


def history(workspace: Workspace) -> list[Release]:
    """Return all releases, newest first."""
    names = [n.removesuffix(".json") for n in workspace.store.list("releases")]
    return [load(workspace, n) for n in sorted(names, reverse=True) if n != "current"]


def roll_back(workspace: Workspace, release_id: str | None = None) -> Release:
    """Serve an earlier release again (the one before the current by default) and return it.

    The builds that are rolled back are held back: they are not released again by themselves.
    """
    serving = current(workspace)
    target = release_id or serving.previous
    if target is None:
        raise NotReleasedError(
            f"{workspace.config.corpus}: {serving.release_id} is the first release; there is "
            f"none before it"
        )
    release = load(workspace, target)
    _serve(workspace, release.release_id, held_back=[serving.run_digest], allow=release.run_digest)
    return release


def _serve(
    workspace: Workspace, release_id: str, held_back: Sequence[str] = (), allow: str = ""
) -> None:
    before = (workspace.store.read_json(_CURRENT) or {}).get("held_back", [])
    held = [d for d in dict.fromkeys([*before, *held_back]) if d != allow]
    workspace.store.write_json(_CURRENT, {"release_id": release_id, "held_back": held})


def _current_id(workspace: Workspace) -> str | None:
    current: dict[str, Any] = workspace.store.read_json(_CURRENT) or {}
    return current.get("release_id")


def _next_id(workspace: Workspace) -> str:
    names = [n.removesuffix(".json") for n in workspace.store.list("releases")]
    numbers = [int(n.removeprefix("release-")) for n in names if n != "current"]
    return f"release-{max(numbers, default=0) + 1:06d}"


def _manifest(release_id: str) -> str:
    return f"releases/{release_id}.json"


def _settings(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Return the settings themselves: the corpus file may change while this release serves."""
    config = workspace.config
    stages = ("chunking", "contextualizer", "embedding", "retriever", "reranker")
    settings = {
        stage: config.variants(stage)[getattr(configuration, stage)].model_dump(mode="json")
        for stage in stages
    }
    return {**settings, "names": configuration.model_dump(exclude={"name"})}
