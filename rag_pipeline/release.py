"""Which configuration is served: a manifest that pins one configuration's exact builds.

A release is written once and never changed; `releases/current.json` names the one that is
served and is replaced atomically, so a reader sees one whole release or another. Both are
written on condition that nobody else did meanwhile: of two releasers one wins, the other looks
again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rag_pipeline.checks import (
    check_chunks,
    check_contextualized_chunks,
    check_documents,
    check_lexical_index,
    check_queries,
    check_vector_index,
)
from rag_pipeline.config import Configuration
from rag_pipeline.datamodels import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.errors import CheckFailedError, ConfigError, NotReleasedError, StoreError
from rag_pipeline.evaluation.comparison import Reference
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.runs import (
    Pinned,
    run_file,
    run_is_current,
    scores_are_current,
)
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.gate import Decision, decide, forget_scores, keep_scores, kept_file, kept_scores
from rag_pipeline.indexing import SHARDED_ASSETS, open_stage, plan, plan_lexical
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

FORMAT = 1
_CURRENT = "releases/current.json"
_TRIES = 5


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
    gate: Mapping[str, Any] = field(default_factory=dict)
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
    for _ in range(_TRIES):
        release = _publish_once(workspace)
        if release is not None:
            return release
    raise StoreError(
        f"{workspace.config.corpus}: others moved the release {_TRIES} times meanwhile; run again"
    )


def _publish_once(workspace: Workspace) -> Release | None:
    """Release what is chosen now; None if another releaser moved the release meanwhile."""
    seen = _Served(*workspace.store.read_tagged_json(_CURRENT))
    configuration, reasons = choose(workspace)
    problems = obstacles(workspace, configuration)
    if problems:
        raise CheckFailedError(
            f"{workspace.config.corpus}: {configuration.name} is not released: "
            + "; ".join(problems)
        )
    note = workspace.store.read_note(run_file(configuration.name))
    before = seen.release_id
    if before and load(workspace, before).run_digest == note["digest"]:
        return load(workspace, before)
    decision = decide(workspace, configuration.name, released(workspace, configuration))
    if not decision.allowed:
        raise CheckFailedError(_refusal(workspace, decision))
    board = load_leaderboard(workspace)["configurations"]
    documents_version = workspace.documents().version
    release = Release(
        release_id=_next_id(workspace),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=configuration.name,
        settings=_settings(workspace, configuration),
        run_digest=note["digest"],
        pinned=replace(Pinned(**note["pinned"]), documents_version=documents_version),
        metrics=next(r["metrics"] for r in board if r["name"] == configuration.name),
        reasons=tuple(reasons),
        previous=before,
        gate=asdict(decision),
    )
    keep_scores(workspace, release.release_id, configuration.name)
    # Before the manifest: what it names must outlive every clean-up from then on.
    _pin(workspace, release)
    written = workspace.store.write_json_if(_manifest(release.release_id), asdict(release), None)
    # Another releaser may have taken the number meanwhile, or moved its tags here or there.
    _pin(workspace, release if written else load(workspace, release.release_id))
    if not written:
        return None
    if _serve(workspace, seen, release.release_id):
        return release
    workspace.store.remove_file(_manifest(release.release_id))
    for table, _ in _pinned_tables(workspace, release):
        table.unpin(release.release_id)
    return None


def _pin(workspace: Workspace, release: Release) -> None:
    for table, version in _pinned_tables(workspace, release):
        table.pin(release.release_id, version)


def _pinned_tables(workspace: Workspace, release: Release) -> Iterator[tuple[Table, int]]:
    pinned = release.pinned
    vectors = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    yield vectors, pinned.vector_version
    if pinned.documents_version is not None:
        yield workspace.documents(), pinned.documents_version


def gate(workspace: Workspace) -> Decision:
    """Return whether what would be chosen now may be released; change nothing."""
    configuration, _ = choose(workspace)
    name = configuration.name
    problems = obstacles(workspace, configuration)
    if problems:
        return Decision(name, False, tuple(problems))
    before = _current_id(workspace)
    note = workspace.store.read_note(run_file(name))
    if before and load(workspace, before).run_digest == note["digest"]:
        return Decision(name, True, (f"it is what {before} serves already",))
    return decide(workspace, name, released(workspace, configuration))


def released(workspace: Workspace, candidate: Configuration | None = None) -> Reference | None:
    """Return what is served as a reference to compare with, None before the first release.

    Its scores are those of today where the corpus file still lists the same configuration and
    it is not the candidate itself; else those kept when it was released.
    """
    try:
        serving = current(workspace)
    except NotReleasedError:
        return None
    name = serving.configuration
    today = workspace.config.all_configurations.get(name)
    if (
        today is not None
        and (candidate is None or candidate.name != name)
        and _settings(workspace, today) == serving.settings
        and run_is_current(workspace, today)
        and scores_are_current(workspace, today)
    ):
        return Reference(serving.release_id, name, read_scores(workspace, name))
    return Reference(serving.release_id, name, kept_scores(workspace, serving.release_id))


def _refusal(workspace: Workspace, decision: Decision) -> str:
    return (
        f"{workspace.config.corpus}: {decision.candidate} is not released, it is worse than "
        f"{decision.against}: {'; '.join(decision.reasons)}. See `rag compare` and `rag explain`; "
        f"to serve it all the same, set gate.metrics to [] in {workspace.config.where}"
    )


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
    return read(record, f"{workspace.config.corpus}: release {release_id}")


def read(record: Any, where: str) -> Release:
    """Return the release of a manifest's content; `where` is what errors call it."""
    made = record.get("format") if isinstance(record, dict) else None
    if isinstance(made, int) and made > FORMAT:
        raise ConfigError(
            f"{where} has format {made}, this version reads up to {FORMAT}; upgrade rag_pipeline"
        )
    if made != FORMAT:
        raise StoreError(f"{where}: not a manifest (format {made!r}); see `rag doctor`")
    try:
        pinned, reasons = Pinned(**record["pinned"]), tuple(record["reasons"])
        return Release(**{**record, "pinned": pinned, "reasons": reasons})
    except (TypeError, KeyError) as error:
        raise StoreError(f"{where}: not a manifest ({error}); see `rag doctor`") from None


def serve(workspace: Workspace, release_id: str) -> None:
    """Serve a release in the place of one that can't be served any more."""
    load(workspace, release_id)
    try:
        held_back = (workspace.store.read_json(_CURRENT) or {}).get("held_back", [])
    except StoreError:
        held_back = []
    record = {"release_id": release_id, "held_back": held_back}
    workspace.store.write_json(_CURRENT, record)


def serve_imported(workspace: Workspace, made: Release, scores: bytes | None) -> Release:
    """Serve a release that was made elsewhere, whose builds are in this store; number it anew."""
    seen = _Served(*workspace.store.read_tagged_json(_CURRENT))
    release = replace(
        made,
        release_id=_next_id(workspace),
        previous=seen.release_id,
        reasons=(*made.reasons, f"imported: {made.release_id}, made {made.created}"),
    )
    if scores is not None:
        workspace.store.write_bytes(kept_file(release.release_id), scores)
    _pin(workspace, release)
    workspace.store.write_json(_manifest(release.release_id), asdict(release))
    if not _serve(workspace, seen, release.release_id):
        raise StoreError(
            f"{workspace.config.corpus}: another release was made meanwhile; import again"
        )
    return release


def names(workspace: Workspace) -> list[str]:
    """Return the ids of all releases whose manifests are there, readable or not; oldest first."""
    found = [n.removesuffix(".json") for n in workspace.store.list("releases")]
    return sorted(n for n in found if re.fullmatch(r"release-\d+", n))


def remove(workspace: Workspace, release_id: str) -> None:
    """Delete a release's manifest and the scores kept with it; what it pins stays pinned."""
    workspace.store.remove_file(_manifest(release_id))
    forget_scores(workspace, release_id)


def history(workspace: Workspace) -> list[Release]:
    """Return all releases, newest first."""
    return [load(workspace, release_id) for release_id in reversed(names(workspace))]


def roll_back(workspace: Workspace, release_id: str | None = None) -> Release:
    """Serve an earlier release again (the one before the current by default) and return it.

    The builds that are rolled back are held back: they are not released again by themselves.
    """
    seen = _Served(*workspace.store.read_tagged_json(_CURRENT))
    serving = current(workspace)
    target = release_id or serving.previous
    if target is None:
        raise NotReleasedError(
            f"{workspace.config.corpus}: {serving.release_id} is the first release; there is "
            f"none before it"
        )
    release = load(workspace, target)
    held_back, allow = [serving.run_digest], release.run_digest
    if not _serve(workspace, seen, release.release_id, held_back, allow):
        raise StoreError(
            f"{workspace.config.corpus}: another release was made meanwhile, nothing was rolled "
            f"back; look at `rag releases` and try again"
        )
    return release


class _Served(NamedTuple):
    """`releases/current.json` as it was read, with the tag that changes with it."""

    record: Mapping[str, Any] | None
    tag: str | None

    @property
    def release_id(self) -> str | None:
        return self.record["release_id"] if self.record else None


def _serve(
    workspace: Workspace,
    seen: _Served,
    release_id: str,
    held_back: Sequence[str] = (),
    allow: str = "",
) -> bool:
    """Move the release; False, and nothing is changed, if another mover was first."""
    before = (seen.record or {}).get("held_back", [])
    held = [d for d in dict.fromkeys([*before, *held_back]) if d != allow]
    record = {"release_id": release_id, "held_back": held}
    return workspace.store.write_json_if(_CURRENT, record, seen.tag)


def _current_id(workspace: Workspace) -> str | None:
    current: dict[str, Any] = workspace.store.read_json(_CURRENT) or {}
    return current.get("release_id")


def _next_id(workspace: Workspace) -> str:
    numbers = [int(name.removeprefix("release-")) for name in names(workspace)]
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
    chat = config.reranker_chat(config.rerankers[configuration.reranker])
    if chat is not None:
        settings["reranker_chat"] = chat.model_dump(mode="json")
    return {**settings, "names": configuration.model_dump(exclude={"name"})}
