"""Change the served release: publish a new release, roll back, or serve an imported release."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.config import Configuration
from rag_pipeline.errors import (
    CheckFailedError,
    NotReleasedError,
    RagPipelineError,
    StoreError,
    blaming,
    counted,
)
from rag_pipeline.evaluation.answers import load_calibration
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import left_out
from rag_pipeline.release.candidate import (
    choose,
    missing_documents,
    obstacles,
    served_digest,
    served_reference,
)
from rag_pipeline.release.drift import reference_id
from rag_pipeline.release.gate import Decision, decide, keep_decision, keep_scores, kept_file
from rag_pipeline.release.holds import (
    held_builds,
    kept_release,
    present_builds,
    released_build,
    settings_of,
)
from rag_pipeline.release.manifest import (
    CURRENT,
    Release,
    checked_pointer,
    current,
    current_id,
    hash_files,
    load,
    made,
    manifest_file,
    names,
    next_id,
    pinned_tables,
    pointer,
)
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

_TRIES = 5
Pointer = tuple[dict[str, Any], str | None]
"""The content of `releases/current.json`, and its version tag for conditional writes."""


def publish(workspace: Workspace) -> Release:
    """Make and serve a release of the chosen configuration's evaluated builds.

    If the served release has these builds, or a rollback holds them back, return the served
    release. Raise CheckFailedError if the
    builds are stale, unevaluated or inconsistent, or if the gate refuses them. The served release
    then stays.
    """
    for _ in range(_TRIES):
        release = _try_to_publish(workspace)
        if release is not None:
            return release
    corpus = workspace.config.corpus
    raise StoreError(
        f"{corpus}: other processes changed the served release {_TRIES} times; run again"
    )


def _try_to_publish(workspace: Workspace) -> Release | None:
    """Publish a release. Return None if another process changes the served release."""
    seen = _seen(workspace)
    if kept_release(workspace):
        return load(workspace, seen[0]["release_id"])
    configuration, reasons = choose(workspace)
    if problems := obstacles(workspace, configuration):
        corpus, name = workspace.config.corpus, configuration.name
        raise CheckFailedError(f"{corpus}: {name} is not released: {'; '.join(problems)}")
    before = seen[0].get("release_id")
    if before:
        serving = load(workspace, before)
        if serving.digest == served_digest(workspace, configuration):
            return serving
    reference = served_reference(workspace, configuration)
    decision = decide(workspace, configuration.name, reference)
    if not decision.allowed:
        keep_decision(workspace, decision)
        raise CheckFailedError(_refusal(workspace, decision, reasons[1:]))
    release = _new_release(workspace, configuration, reasons, decision, before)
    keep_scores(workspace, release.release_id, configuration.name)
    if not _write_and_serve(workspace, seen, release):
        return None
    keep_decision(workspace, decision, release.release_id)
    return release


def _new_release(
    workspace: Workspace,
    configuration: Configuration,
    reasons: Sequence[str],
    decision: Decision,
    previous: str | None,
) -> Release:
    note = RUN.note(workspace, configuration.name)
    pinned = Pinned(**note["pinned"])
    if changed := _changed_documents(workspace, pinned):
        documents = counted(len(changed), "document")
        reason = f"{documents} changed during its run ({', '.join(changed[:5])})"
        corpus, name = workspace.config.corpus, configuration.name
        raise CheckFailedError(f"{corpus}: {name} is not released: {reason}; run again")
    rows = load_leaderboard(workspace).configurations
    notes = [left_out(workspace), missing_documents(workspace, configuration)]
    calibration = load_calibration(workspace, configuration.name)
    return Release(
        release_id=next_id(workspace),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=configuration.name,
        settings={**settings_of(workspace, configuration), "calibration": asdict(calibration)},
        run_digest=note["digest"],
        pinned=pinned,
        metrics=next(asdict(r)["metrics"] for r in rows if r.name == configuration.name),
        reasons=tuple(filter(None, [*reasons, *notes])),
        previous=previous,
        gate=asdict(decision),
        files=hash_files(workspace, pinned),
    )


def _write_and_serve(workspace: Workspace, seen: Pointer, release: Release) -> bool:
    """Write and serve a release. If another process makes one at the same time, return False."""
    # Pin before writing the manifest, because a cleanup may remove unpinned tables.
    _pin(workspace, release)
    file = manifest_file(release.release_id)
    written = workspace.store.write_json_if(file, asdict(release), None)
    # If another process took the same id, pin the tables of its manifest again.
    _pin(workspace, release if written else load(workspace, release.release_id))
    if not written:
        return False
    if _move_pointer(workspace, seen, release.release_id):
        return True
    workspace.store.remove_file(file)
    for table, _ in pinned_tables(workspace, release.pinned):
        table.unpin(release.release_id)
    return False


def _changed_documents(workspace: Workspace, pinned: Pinned) -> list[str]:
    """Return the ids of documents with pinned vectors of another text than the pinned text."""
    documents = workspace.documents().state(pinned.documents_version)
    vectors = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    return [
        i
        for i, state in vectors.state(pinned.vector_version).items()
        if i not in documents or documents[i].content_hash != state.content_hash
    ]


def _refusal(workspace: Workspace, decision: Decision, notes: Sequence[str]) -> str:
    reasons = "\n  ".join((*decision.reasons, *notes))
    return (
        f"{workspace.config.corpus}: {decision.candidate} is not released, against "
        f"{decision.against or 'no release'}:\n  {reasons}\nSee `rag compare` and `rag explain`; "
        f"to serve it anyway, set gate.metrics to [] in {workspace.config.where}"
    )


def roll_back(workspace: Workspace, release_id: str | None = None) -> Release:
    """Serve and return an earlier release, by default the release before the served release.

    Later runs publish no build of the present documents and settings. The newest release is no
    rollback, so only the build that it replaces is held back.
    """
    corpus, seen = workspace.config.corpus, _seen(workspace)
    serving = current(workspace)
    target = release_id or serving.previous
    if target is None:
        first = f"{serving.release_id} is the first release; there is none before it"
        raise NotReleasedError(f"{corpus}: {first}")
    release = load(workspace, target)
    is_newest = target == names(workspace)[-1]
    present = present_builds(workspace).values()
    replaced, own = (released_build(workspace, each) for each in (serving, release))
    held = held_builds(workspace).difference(present if is_newest else ())
    moved = {
        "release_id": target,
        "held_back": sorted(held.union([replaced], () if is_newest else present) - {own}),
        "rolled_back": None if is_newest else datetime.now(UTC).isoformat(timespec="seconds"),
        "serve": workspace.config.serve,
        "lacks_newer": _lacks_documents(workspace, release),
        "made": made(workspace),
    }
    if not workspace.store.write_json_if(CURRENT, moved, seen[1]):
        reason = "another process changed the served release, so nothing was rolled back"
        raise StoreError(f"{corpus}: {reason}; see `rag releases` and try again")
    if workspace.store.read_json(manifest_file(target)) is None:  # `forget` has just removed it
        serve(workspace, serving.release_id)
        return load(workspace, target)  # raises NotReleasedError
    return release


def _lacks_documents(workspace: Workspace, release: Release) -> bool:
    """Return whether the store has documents that a release lacks or has with another text."""
    with suppress(RagPipelineError), blaming(release.release_id):
        version = release.pinned.documents_version
        own = {i: s.content_hash for i, s in workspace.documents().state(version).items()}
        return any(own.get(i) != s.content_hash for i, s in workspace.documents().state().items())
    return True


def serve(workspace: Workspace, release_id: str) -> None:
    """Serve a release unconditionally, to replace an unusable served release."""
    load(workspace, release_id)
    try:
        held_back, number = pointer(workspace).get("held_back", []), made(workspace)
    except StoreError:
        held_back, number = [], 0
    record = {"release_id": release_id, "held_back": held_back, "made": number}
    workspace.store.write_json(CURRENT, record)


def serve_imported(workspace: Workspace, made: Release, scores: bytes | None) -> Release:
    """Serve a release of another store under a new id. This store must have its builds."""
    seen = _seen(workspace)
    release = replace(
        made,
        release_id=next_id(workspace),
        previous=seen[0].get("release_id"),
        reasons=(*made.reasons, f"imported: {made.release_id}, made {made.created}"),
        files=hash_files(workspace, made.pinned),
    )
    if scores is not None:
        workspace.store.write_bytes(kept_file(release.release_id), scores)
    if not _write_and_serve(workspace, seen, release):
        corpus = workspace.config.corpus
        raise StoreError(f"{corpus}: another process changed the served release; import again")
    return release


def forget(workspace: Workspace, release: Release) -> bool:
    """Remove a release that is not served. Return False if another process begins to serve it.

    `roll_back` moves the pointer and then reads the manifest. This function removes the manifest
    and then reads the pointer. So at least one of two concurrent calls sees the other's change.
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
    """Delete a release's manifest, and its scores if it is not the reference. Keep its pins."""
    workspace.store.remove_file(manifest_file(release_id))
    if release_id != reference_id(workspace):
        workspace.store.remove_file(kept_file(release_id))


def _move_pointer(workspace: Workspace, seen: Pointer, release_id: str) -> bool:
    """Serve a new release. If the pointer changed since `seen`, do nothing and return False."""
    record, tag = seen
    moved = {**record, "release_id": release_id, "rolled_back": None, "made": made(workspace)}
    return workspace.store.write_json_if(CURRENT, moved, tag)


def _seen(workspace: Workspace) -> Pointer:
    content, tag = workspace.store.read_tagged_json(CURRENT)
    return checked_pointer(content), tag


def _pin(workspace: Workspace, release: Release) -> None:
    for table, version in pinned_tables(workspace, release.pinned):
        table.pin(release.release_id, version)
