"""Hold back the builds that a rollback replaced, until their documents or settings change."""

from contextlib import suppress
from typing import Any

from rag_pipeline.config import Configuration, fingerprint
from rag_pipeline.errors import ConfigError, RagPipelineError, UnexpectedError, blaming
from rag_pipeline.evaluation.runs import pinned_of, retriever_of, run_is_current
from rag_pipeline.release.manifest import (
    Release,
    ReleaseSettings,
    current,
    names,
    pointer,
    read_settings,
    readable,
    record_chats,
)
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.store.states import state_digest
from rag_pipeline.workspace import Workspace


def kept_release(workspace: Workspace) -> str:
    """Return a sentence if a rollback holds back every build that a run could release, or "".

    A named `serve` is held back only if the corpus file had it when the release was rolled back.
    """
    content, config = pointer(workspace), workspace.config
    held = held_builds(workspace)
    if not held or config.serve not in ("best", content.get("serve", config.serve)):
        return ""
    back, again = "", ""
    if since := content.get("rolled_back"):
        back = f" (rolled back to on {since[:10]})"
        held.add(released_build(workspace, current(workspace)))
    builds = present_builds(workspace)
    wanted = builds if config.serve == "best" else {config.serve}
    if not builds or any(builds.get(name) not in held for name in wanted):
        return ""
    if content["release_id"] != (newest := names(workspace)[-1]):
        again = f"; to serve the newest release again: rag rollback {newest} {config.where}"
    return (
        f"{content['release_id']}{back} is kept: the builds of the present documents and settings "
        f"were rolled back, and a run releases none of them until one changes{again}"
    )


def held_builds(workspace: Workspace) -> set[str]:
    """Return the hashes of the builds that rollbacks hold back."""
    content = pointer(workspace)
    held = {*content.get("held_back", ())}
    if held and "serve" not in content:  # an earlier version recorded digests of releases
        held |= {released_build(workspace, r) for r in readable(workspace) if r.digest in held}
    return held


def present_builds(workspace: Workspace) -> dict[str, str]:
    """Return the hash of each configuration's last build, without builds of earlier settings."""
    found = {}
    for name, configuration in workspace.config.all_configurations.items():
        pinned = pinned_of(workspace, name)
        with suppress(UnexpectedError, ConfigError), blaming(name):
            if pinned and run_is_current(workspace, configuration):
                settings = read_settings(settings_of(workspace, configuration), name)
                found[name] = _build(workspace, settings, pinned)
    return found


def released_build(workspace: Workspace, release: Release) -> str:
    """Return the hash of a release's build, as `present_builds` does."""
    with suppress(RagPipelineError), blaming(release.release_id):
        return _build(workspace, release.typed_settings(), release.pinned)
    return release.digest  # a method is not installed, or the tables are damaged


def _build(workspace: Workspace, settings: ReleaseSettings, pinned: Pinned) -> str:
    """Hash the settings and the rows of a build. Questions are no part of a build."""
    vectors = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    fields = [f for f in ReleaseSettings.model_fields if f not in ("calibration", "access")]
    parts = [fingerprint(getattr(settings, field)) for field in fields]
    return fingerprint(*parts, state_digest(vectors.state(pinned.vector_version)))


def settings_of(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Return a configuration's settings as JSON values, for a manifest."""
    config = workspace.config
    stages = ("chunking", "contextualizer", "embedding", "reranker")
    answers = config.evaluation.answers
    return {
        **{s: config.chosen(configuration, s).model_dump(mode="json") for s in stages},
        "retriever": retriever_of(workspace, configuration).model_dump(mode="json"),
        "reranker_chats": record_chats(config.rerankers[configuration.reranker], config),
        "answers": answers.model_dump(mode="json"),
        "answers_chats": record_chats(answers, config),
        "names": configuration.model_dump(exclude={"name"}),
    }
