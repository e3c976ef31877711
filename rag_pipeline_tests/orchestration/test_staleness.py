"""Dagster's own staleness beside `rag plan`'s, over every kind of change."""

import shutil

import dagster as dg
import pytest

from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import load_config
from rag_pipeline.evaluation import quality
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration import observing
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.requests import survey
from rag_pipeline.orchestration.staleness import ShownState, Statuses
from rag_pipeline.pipeline.dry_run import plan_run
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.dagster_projects import ask, execute, seen
from rag_pipeline_tests.testing.webhooks import VARIABLE

MADE = [row for row in ASSETS.values() if not row.on_demand and row.name != "relevance_labels"]
MEASURED = [row.name for row in MADE if row.partitioned_by == "configuration"]
EMBEDDINGS = {"minilm": {"provider": "minilm"}}


def settings(maximum=150, **changes):
    return {
        "chunkings": {
            "short": {"method": "recursive", "max_characters": maximum},
            "markdown": {"method": "markdown"},
        },
        "configurations": [
            {"name": "one", "chunking": "short", "embedding": "minilm", "retriever": "hybrid"},
            {"name": "two", "chunking": "markdown", "embedding": "minilm", "retriever": "dense"},
        ],
        "embeddings": EMBEDDINGS,
        **changes,
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with a corpus that is current."""
    folder = tmp_path_factory.mktemp("built")
    build(write_corpus(folder, **settings()))
    return folder


@pytest.fixture
def home(built, instance):
    """Return an instance in memory, several times faster than files, that has found the corpus."""
    assert observe(built, instance) == []
    return instance


def planned(file):
    workspace = Workspace(load_config(file))
    return [f.step for f in plan_run(workspace) if f.runs]


def observe(file, home):
    context = dg.build_sensor_context(instance=home)
    return Observer(Workspace(load_config(file))).observe(context)


def edit(folder):
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(folder / "documents", {"policy/travel.md": text})


def threshold(folder):
    write_file(folder, **settings(120))


def query(folder):
    file = folder / "queries.jsonl"
    file.write_text(file.read_text().replace("How expensive may", "How costly can"))


KEYS = {
    None: None,
    "chunking": "short",
    "contextualizer": "short.none",
    "embedding": "short.none.minilm",
    "configuration": "one",
}
EVERYTHING_AFTER_CHUNKS_SHORT = [
    Step(row.name, KEYS[row.partitioned_by])
    for row in MADE
    if row.name not in ("documents", "queries")
]


def wanted(file, home):
    """Return the steps that the sensors request or wait for, or a load of all files."""
    asked, _ = ask(file, home, "changed_documents", one_run=True)
    found = survey(Workspace(load_config(file)), home, one_run=True)
    return bool(asked), {*found.requests, *found.waiting, *found.stuck}


@pytest.mark.long
def test_dagster_calls_stale_what_a_run_would_make(tmp_path, built, home, monkeypatch):
    for change in (edit, threshold, query, None):
        with monkeypatch.context() as patch:
            if change is None:
                patch.setattr(RecursiveChunking, "code_version", 99)
            else:
                change(tmp_path)
            if change is edit:
                assert seen(built, home) == [], "nobody has looked yet"
            stale = planned(built)
            assert observe(built, home) == stale
            assert seen(built, home) == stale != []
            load = Step("documents") in stale
            asked, following = wanted(built, home)
            assert asked or not load
            assert following == (set() if load else set(stale))
            if change in (threshold, None):
                assert stale == EVERYTHING_AFTER_CHUNKS_SHORT
            if change is query:
                assert {step.asset for step in stale}.isdisjoint(("chunks", "vector_index"))
        restore(tmp_path)
        assert observe(built, home) == []
        if change is edit:
            assert planned(built) == seen(built, home) == [], "it was taken back"
        assert wanted(built, home)[1] == set()


def test_a_changed_code_version_shows_where_the_code_has_changed(built, home, monkeypatch):
    key, source = dg.AssetKey(["tiny", "chunks"]), dg.AssetKey(["tiny", "inputs"])
    monkeypatch.setattr(RecursiveChunking, "code_version", 99)
    assert seen(built, home) == [], "the code location was loaded again, and nobody has looked yet"
    assert observe(built, home) == seen(built, home) == EVERYTHING_AFTER_CHUNKS_SHORT
    assert causes(built, home, key, "short") == ["DATA has a new dependency data version"]
    (last,) = home.fetch_observations(
        dg.AssetRecordsFilter(source, asset_partitions=["chunks.short"]), limit=1
    ).records
    told = last.event_log_entry.asset_observation.description
    assert told == "Code version changed: RecursiveChunking 2 -> RecursiveChunking 99"
    bring_up_to_date(built, home)
    assert seen(built, home) == planned(built) == []

    monkeypatch.setattr(quality, "SCORES_VERSION", 99)
    measured = [Step("answer_presence", "one"), Step("answer_presence", "two")]
    assert seen(built, home) == measured, "of all partitions, before anybody has looked"
    for step in measured:
        (cause,) = causes(built, home, dg.AssetKey(["tiny", step.asset]), step.partition)
        assert cause == "CODE has a new code version"
    stale = [*measured, Step("leaderboard"), Step("release")]
    assert observe(built, home) == planned(built) == seen(built, home) == stale


def causes(file, home, key, partition):
    """Return why Dagster itself calls a partition stale."""
    graph = build_definitions(load_config(file)).resolve_asset_graph()
    found = Statuses(home, graph)._resolver.get_stale_causes(key, partition)
    return [f"{cause.category.name} {cause.reason}" for cause in found]


def test_dagster_is_asked_again_only_about_what_has_changed(tmp_path, built, home, monkeypatch):
    observer = Observer(Workspace(load_config(built)))
    context = dg.build_sensor_context(instance=home)
    asked = []
    real = ShownState._reconcile

    def noted(self, own, *more):
        asked.extend(own)
        return real(self, own, *more)

    monkeypatch.setattr(ShownState, "_reconcile", noted)
    assert observer.observe_at_rest(context) == ("everything is current", 0)
    assert asked == steps(load_config(built))
    asked.clear()
    assert observer.observe_at_rest(context) == ("everything is current", 0)
    assert asked == []
    with monkeypatch.context() as patch:
        patch.setattr(Statuses, "is_fresh", None)  # Dagster itself is not asked
        other = Observer(Workspace(load_config(built)))
        assert other.observe_at_rest(context) == ("everything is current", 0)
    assert asked == steps(load_config(built))
    asked.clear()
    home.report_runless_asset_event(dg.AssetMaterialization(["tiny", "chunks"], partition="short"))
    assert observer.observe_at_rest(context) == ("everything is current", 0)
    assert asked == [
        Step("chunks", "short"),
        Step("contextualized_chunks", "short.none"),
        Step("lexical_index", "short.none"),
        Step("vector_index", "short.none.minilm"),
    ]
    assert seen(built, home) == []


def test_a_long_observation_goes_on_at_the_next_tick(tmp_path, built, home, monkeypatch):
    monkeypatch.setattr(observing, "MOST_SECONDS", -1.0)
    threshold(tmp_path)
    edit(tmp_path)
    observer, left, told = Observer(Workspace(load_config(built))), 0, []
    context = dg.build_sensor_context(instance=home)
    while left or not told:
        said, left = observer.observe_at_rest(context, left)
        told.append(said)
    assert len(told) == len(MADE), "an asset a tick"
    count = len(planned(built))
    every = len(steps(load_config(built)))
    shown = f"the UI shows 1 of {every} partitions so far"
    assert told[0] == f"{count} partitions are stale; {shown}"
    assert told[-1] == f"{count} partitions are stale"
    assert seen(built, home) == planned(built)


def test_a_change_during_a_long_observation_is_shown_before_its_count_is_final(
    tmp_path, built, home, monkeypatch
):
    monkeypatch.setattr(observing, "MOST_SECONDS", -1.0)
    observer = Observer(Workspace(load_config(built)))
    context = dg.build_sensor_context(instance=home)
    edit(tmp_path)
    said, left = observer.observe_at_rest(context)
    for _ in range(3):
        said, left = observer.observe_at_rest(context, left)
    assert steps(load_config(built))[left].asset == "lexical_index"
    restore(tmp_path)
    threshold(tmp_path)
    while left:
        said, left = observer.observe_at_rest(context, left)
    assert said == f"{len(planned(built))} partitions are stale"
    assert seen(built, home) == planned(built) == EVERYTHING_AFTER_CHUNKS_SHORT


def test_all_sensors_tell_the_same_when_a_document_has_changed(tmp_path, built, home, webhook):
    write_file(tmp_path, **settings(schedule="0 3 * * *", alerts={"webhook_env": VARIABLE}))
    edit(tmp_path)
    sensors = build_definitions(load_config(built)).sensors
    told = {sensor.name: ask(built, home, sensor.name.removeprefix("tiny__")) for sensor in sensors}
    (load,), said = told.pop("tiny__changed_documents")
    assert (load.job_name, said) == ("tiny__update_documents", None)
    (first,), said = told.pop("tiny__freshness")  # no check has a result yet
    assert ({key.name for key in first.asset_check_keys}, said) == ({"freshness_check"}, None)
    stale = f"{len(planned(built))} partitions are stale"
    assert told == {
        "tiny__observed_inputs": ([], stale),
        "tiny__stale_partitions": ([], f"{stale}; tiny__reindex loads the changed files"),
        "tiny__failure_alerts": ([], "runs that fail from now on are posted"),
        "tiny__standstill_alerts": ([], "nothing has changed since the last alert"),
    }
    assert webhook.received == []


def restore(folder):
    shutil.rmtree(folder / "documents")
    write_corpus(folder, **settings())


def test_runs_of_single_partitions_leave_nothing_stale_behind(tmp_path, built, home):
    threshold(tmp_path)
    while requests := ask(built, home)[0]:
        for request in requests:
            execute(built, home, request)
    assert observe(built, home) == planned(built) == []
    assert seen(built, home) == []


def test_what_was_built_without_this_instance_is_reported_as_found(tmp_path, built):
    (tmp_path / "other").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "other")) as other:
        every = steps(load_config(built))
        assert seen(built, other) == every
        assert observe(built, other) == []
        assert seen(built, other) == []
        event, shown = newest(other, "release")
        assert event.asset_materialization.description.endswith("as by `rag run`.")
        assert shown["release"] == "release-000001"
        observe(built, other)
        assert newest(other, "release")[0].timestamp == event.timestamp, "once"
        shown = newest(other, "leaderboard")[1]
        assert {row.data["configuration"] for row in shown["leaderboard"]} == {"one", "two"}
        assert {"AnswerPresence@5 · one", "AnswerPresence@5 · two"} < shown.keys()
        assert shown["seconds"] > 0, "the time of the run elsewhere"
        assert any("data:image/svg" in str(value) for value in shown.values())
        assert shown["report"].endswith("evaluation/report.html")
        assert newest(other, "documents")[1]["documents_worked_on"] == 4


def newest(instance, asset):
    """Return an asset's newest materialization, and the values of its metadata."""
    event = instance.get_latest_materialization_event(dg.AssetKey(["tiny", asset]))
    metadata = event.asset_materialization.metadata
    return event, {
        name: value.records if isinstance(value, dg.TableMetadataValue) else value.value
        for name, value in metadata.items()
    }


def test_a_table_that_is_gone_is_stale_though_no_input_changed(built, home):
    Workspace(load_config(built)).store.drop_table("chunks.short")
    stale = planned(built)
    assert stale[0] == Step("chunks", "short")
    assert observe(built, home) == stale
    assert seen(built, home) == stale
    bring_up_to_date(built, home)
    assert planned(built) == seen(built, home) == []


# --- many partitions in one run ---


def test_each_partition_of_a_run_has_its_own_version_facts_and_checks(tmp_path, built, home):
    assert backfill(built, home, ["chunks"], "short", "markdown").success
    assert observe(built, home) == []
    before = versions(home, "chunks")
    threshold(tmp_path)
    assert observe(built, home) == EVERYTHING_AFTER_CHUNKS_SHORT
    result = backfill(built, home, ["chunks"], "short", "markdown")
    assert result.success
    now = versions(home, "chunks")
    assert now["short"] != before["short"]
    assert now["markdown"] == before["markdown"], "it was made again and is the same"
    assert seen(built, home) == EVERYTHING_AFTER_CHUNKS_SHORT[1:]
    checked = {(e.check_name, e.partition, e.passed) for e in result.get_asset_check_evaluations()}
    assert checked == {("chunks_is_sound", key, True) for key in ("short", "markdown")}
    rows = {m.partition: m.metadata["dagster/row_count"].value for m in latest(home, "chunks")}
    workspace = Workspace(load_config(built))
    assert rows == {key: workspace.chunks(key).count() for key in ("short", "markdown")}

    for names, ends in (
        (["contextualized_chunks"], ("short.none", "markdown.none")),
        (["lexical_index"], ("short.none", "short.none")),
        (["vector_index"], ("short.none.minilm", "markdown.none.minilm")),
        (MEASURED, ("one", "two")),
    ):
        assert backfill(built, home, names, *ends).success
    assert seen(built, home) == planned(built) == [Step("leaderboard"), Step("release")]


def test_a_partition_that_fails_in_a_run_of_several_leaves_the_others_made(
    tmp_path, built, home, monkeypatch
):
    real = vars(tables)["build_chunks"]

    def out_of_order(workspace, partition, ids, report):
        if partition == "short":
            raise KeyError("a bug")  # of a plugin
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(tables, "build_chunks", out_of_order)
    edit(tmp_path)
    execute(built, home, dg.RunRequest(job_name="tiny__update_documents"))
    twice = dg.RetryPolicy(max_retries=1)
    result = backfill(built, home, ["chunks"], "short", "markdown", retries=twice)
    assert not result.success
    (failure,) = [e for e in result.get_step_failure_events() if e.step_key == "tiny__chunks"]
    said = failure.step_failure_data.user_failure_data.description
    assert said.startswith("chunks short: KeyError: 'a bug' (File ")
    made = [e.materialization.partition for e in result.get_asset_materialization_events()]
    assert made == ["markdown"], "once"
    monkeypatch.undo()
    assert {step.partition for step in planned(built) if step.asset == "chunks"} == {"short"}


def backfill(file, home, names, start, end, retries=None):
    """Run some assets as Dagster's backfill of a range of partitions does."""
    config = load_config(file)
    definitions = build_definitions(config, retries, one_run=True)
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.get_subset(
        asset_selection={asset_key(config, name) for name in names}
    ).execute_in_process(
        instance=home,
        tags={
            "dagster/asset_partition_range_start": start,
            "dagster/asset_partition_range_end": end,
        },
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def latest(home, name):
    """Return the latest materialization of each partition."""
    key = dg.AssetKey(["tiny", name])
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    ids = home.event_log_storage.get_latest_storage_id_by_partition(key, kind)
    wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=list(ids.values()))
    records = home.fetch_materializations(wanted, limit=len(ids)).records
    return [record.asset_materialization for record in records]


def versions(home, name):
    return {m.partition: m.tags["dagster/data_version"] for m in latest(home, name)}


def bring_up_to_date(file, home):
    assert execute(file, home, dg.RunRequest(job_name="tiny__bring_up_to_date"))
