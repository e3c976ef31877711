"""Move what is served: to a new release, back to an earlier one, to one made elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from rag_pipeline.datamodels import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.errors import CheckFailedError, NotReleasedError, StoreError
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.quality import load_calibration
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import left_out
from rag_pipeline.release.candidate import (
    choose,
    missing_documents,
    obstacles,
    released,
    served_digests,
    settings_of,
)
from rag_pipeline.release.gate import (
    Decision,
    decide,
    keep_refusal,
    keep_scores,
    kept_file,
)
from rag_pipeline.release.manifest import (
    CURRENT,
    Pointer,
    Release,
    current,
    current_id,
    hash_files,
    load,
    manifest_file,
    next_id,
    pinned_tables,
)
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.workspace import Workspace

_TRIES = 5


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
    seen = Pointer(*workspace.store.read_tagged_json(CURRENT))
    configuration, reasons = choose(workspace)
    # Before the checks: what is loaded during them is in no build that they judge.
    documents_version = workspace.documents().version
    problems = obstacles(workspace, configuration)
    if problems:
        raise CheckFailedError(
            f"{workspace.config.corpus}: {configuration.name} is not released: "
            + "; ".join(problems)
        )
    note = RUN.note(workspace, configuration.name)
    before = seen.release_id
    if before and load(workspace, before).digest in served_digests(workspace, configuration):
        return load(workspace, before)
    decision = decide(workspace, configuration.name, released(workspace, configuration))
    if not decision.allowed:
        keep_refusal(workspace, configuration.name)
        raise CheckFailedError(_refusal(workspace, decision, reasons[1:]))
    board = load_leaderboard(workspace).configurations
    pinned = Pinned(**note["pinned"])
    if pinned.documents_version is None:  # of a run by an earlier version
        pinned = replace(pinned, documents_version=documents_version)
    if mixed := _mixed(workspace, pinned):
        raise CheckFailedError(
            f"{workspace.config.corpus}: {configuration.name} is not released: {len(mixed)} "
            f"documents were loaded anew while its run was made ({', '.join(mixed[:5])}); run again"
        )
    release = Release(
        release_id=next_id(workspace),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=configuration.name,
        settings={
            **settings_of(workspace, configuration),
            "calibration": asdict(load_calibration(workspace, configuration.name)),
        },
        run_digest=note["digest"],
        pinned=pinned,
        metrics=next(asdict(r)["metrics"] for r in board if r.name == configuration.name),
        reasons=tuple(
            filter(
                None, [*reasons, left_out(workspace), missing_documents(workspace, configuration)]
            )
        ),
        previous=before,
        gate=asdict(decision),
    )
    keep_scores(workspace, release.release_id, configuration.name)
    release = replace(release, files=hash_files(workspace, pinned))
    return release if _moved_to(workspace, seen, release) else None


def _moved_to(workspace: Workspace, seen: Pointer, release: Release) -> bool:
    """Keep and serve a new release; False, and nothing is kept, if another was made meanwhile."""
    # Before the manifest: what it names must outlive every clean-up from then on.
    _pin(workspace, release)
    written = workspace.store.write_json_if(
        manifest_file(release.release_id), asdict(release), None
    )
    # Another releaser may have taken the number meanwhile, or moved its tags here or there.
    _pin(workspace, release if written else load(workspace, release.release_id))
    if not written:
        return False
    if _serve(workspace, seen, release.release_id):
        return True
    workspace.store.remove_file(manifest_file(release.release_id))
    for table, _ in pinned_tables(workspace, release.pinned):
        table.unpin(release.release_id)
    return False


def _mixed(workspace: Workspace, pinned: Pinned) -> list[str]:
    """Return the documents whose vectors were not made from them as they are pinned."""
    documents = workspace.documents().state(pinned.documents_version)
    vectors = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    return [
        i
        for i, state in vectors.state(pinned.vector_version).items()
        if i not in documents or documents[i].content_hash != state.content_hash
    ]


def _refusal(workspace: Workspace, decision: Decision, also: Sequence[str]) -> str:
    reasons = "; ".join((*decision.reasons, *also))
    return (
        f"{workspace.config.corpus}: {decision.candidate} is not released, against "
        f"{decision.against}: {reasons}. See `rag compare` and `rag explain`; "
        f"to serve it all the same, set gate.metrics to [] in {workspace.config.where}"
    )


def roll_back(workspace: Workspace, release_id: str | None = None) -> Release:
    """Serve an earlier release again (the one before the current by default) and return it.

    The builds that are rolled back are held back: they are not released again by themselves.
    """
    seen = Pointer(*workspace.store.read_tagged_json(CURRENT))
    serving = current(workspace)
    target = release_id or serving.previous
    if target is None:
        raise NotReleasedError(
            f"{workspace.config.corpus}: {serving.release_id} is the first release; there is "
            f"none before it"
        )
    release = load(workspace, target)
    held_back, allow = [serving.digest], {release.digest, release.run_digest}
    if not _serve(workspace, seen, release.release_id, held_back, allow):
        raise StoreError(
            f"{workspace.config.corpus}: another release was made meanwhile, nothing was rolled "
            f"back; look at `rag releases` and try again"
        )
    if workspace.store.read_json(manifest_file(target)) is None:  # `forget` was first
        serve(workspace, serving.release_id)
        return load(workspace, target)  # raises
    return release


def serve(workspace: Workspace, release_id: str) -> None:
    """Serve a release in the place of one that can't be served any more."""
    load(workspace, release_id)
    try:
        held_back = (workspace.store.read_json(CURRENT) or {}).get("held_back", [])
    except StoreError:
        held_back = []
    record = {"release_id": release_id, "held_back": held_back}
    workspace.store.write_json(CURRENT, record)


def serve_imported(workspace: Workspace, made: Release, scores: bytes | None) -> Release:
    """Serve a release that was made elsewhere, whose builds are in this store; number it anew."""
    seen = Pointer(*workspace.store.read_tagged_json(CURRENT))
    release = replace(
        made,
        release_id=next_id(workspace),
        previous=seen.release_id,
        reasons=(*made.reasons, f"imported: {made.release_id}, made {made.created}"),
    )
    if scores is not None:
        workspace.store.write_bytes(kept_file(release.release_id), scores)
    release = replace(release, files=hash_files(workspace, made.pinned))
    if not _moved_to(workspace, seen, release):
        raise StoreError(
            f"{workspace.config.corpus}: another release was made meanwhile; import again"
        )
    return release


def forget(workspace: Workspace, release: Release) -> bool:
    """Remove a release that is not served; False, and it stays, if it is served again meanwhile.

    Whoever rolls back to it looks for its manifest after moving the pointer, and here the pointer
    is looked at after removing the manifest: one of the two sees the other.
    """
    file = manifest_file(release.release_id)
    workspace.store.remove_file(file)
    if current_id(workspace) == release.release_id:
        workspace.store.write_json(file, asdict(release))
        return False
    remove(workspace, release.release_id)
    for table, _ in pinned_tables(workspace, release.pinned):
        if table.exists():
            table.unpin(release.release_id)
    return True


def remove(workspace: Workspace, release_id: str) -> None:
    """Delete a release's manifest and the scores kept with it; what it pins stays pinned."""
    workspace.store.remove_file(manifest_file(release_id))
    workspace.store.remove_file(kept_file(release_id))


def _serve(
    workspace: Workspace,
    seen: Pointer,
    release_id: str,
    held_back: Sequence[str] = (),
    allow: Collection[str] = (),
) -> bool:
    """Move the release; False, and nothing is changed, if another mover was first."""
    before = (seen.record or {}).get("held_back", [])
    held = [d for d in dict.fromkeys([*before, *held_back]) if d not in allow]
    record = {"release_id": release_id, "held_back": held}
    return workspace.store.write_json_if(CURRENT, record, seen.tag)


def _pin(workspace: Workspace, release: Release) -> None:
    for table, version in pinned_tables(workspace, release.pinned):
        table.pin(release.release_id, version)
