"""Assets of others around a corpus: makers of its files, and readers of its release."""

import os
import shutil

import boto3
import dagster as dg
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.internals import unstable
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.staleness import Statuses
from rag_pipeline.pipeline.driver import passed
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    attributes,
    rule,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.dagster_projects import ask, execute, seen


def bring_up_to_date(file, home):
    assert execute(file, home, dg.RunRequest(job_name="tiny__bring_up_to_date"))


def looks(instance):
    """Return a function that evaluates conditions of automation, from its last call on."""
    cursor = None

    def look(definitions):
        nonlocal cursor
        with unstable():
            found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        cursor = found.cursor
        return found

    return look


def release_of(file):
    return Corpus.load(file).release().release_id


def test_a_neighbour_is_asked_for_exactly_when_the_release_changes(tmp_path, instance):
    settings = {
        "configurations": [rule("one", "recursive_150"), rule("two", "markdown")],
        "serve": "one",
        "schedule": "0 3 * * *",
    }
    file = write_corpus(tmp_path, **settings)

    @dg.asset(
        deps=[dg.AssetKey(["tiny", "release"])],
        automation_condition=dg.AutomationCondition.eager(),
    )
    def site():
        pass

    look = looks(instance)

    def asked():
        definitions = dg.Definitions.merge(
            build_definitions(load_config(file), one_run=True), dg.Definitions(assets=[site])
        )
        return look(definitions).total_requested

    asked()
    bring_up_to_date(file, instance)
    assert asked() == 1
    instance.report_runless_asset_event(dg.AssetMaterialization("site"))
    assert asked() == 0

    before = made_at(instance, "release")
    bring_up_to_date(file, instance)
    assert asked() == 0, "the run found everything current"
    assert made_at(instance, "release") == before
    (looked,) = instance.fetch_observations(dg.AssetKey(["tiny", "release"]), limit=1).records
    assert looked.timestamp > before, "which the check of freshness reads"

    released = release_of(file)
    chunkings = attributes()["chunkings"]
    chunkings["markdown"]["max_characters"] = 90
    write_file(tmp_path, **settings, chunkings=chunkings)
    bring_up_to_date(file, instance)
    assert made_at(instance, "leaderboard") > before
    assert (asked(), release_of(file)) == (0, released), "another configuration changed"
    assert seen(file, instance) == []

    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    bring_up_to_date(file, instance)
    assert release_of(file) != released
    assert asked() == 1
    instance.report_runless_asset_event(dg.AssetMaterialization("site"))
    assert asked() == 0
    observer, context = Observer(Workspace(load_config(file))), dg.build_sensor_context(instance)
    for _ in range(2):
        assert observer.observe_at_rest(context) == ("everything is current", 0)
    Corpus.load(file).roll_back()
    observer.observe_at_rest(context)
    assert (asked(), release_of(file)) == (1, released)


@pytest.mark.parametrize("executor", ["in_process", "multiprocess"])
def test_a_load_that_changes_nothing_asks_for_no_neighbour(
    tmp_path, instance, monkeypatch, executor
):
    monkeypatch.setenv("RAG_EXECUTOR", executor)
    file = write_corpus(tmp_path, configurations=[rule("one", "recursive_150")])
    key = dg.AssetKey(["tiny", "documents"])

    @dg.asset(deps=[key], automation_condition=dg.AutomationCondition.eager())
    def site():
        pass

    definitions = dg.Definitions.merge(
        build_definitions(load_config(file)), dg.Definitions(assets=[site])
    )
    look = looks(instance)

    def asked():
        return look(definitions).total_requested

    def night():
        assert execute(file, instance, dg.RunRequest(job_name="tiny__update_documents"))
        found = asked()
        instance.report_runless_asset_event(dg.AssetMaterialization("site"))
        return found + asked()

    asked()
    assert [night(), night(), night()] == [1, 0, 0]
    write_documents(tmp_path / "documents", {"new.txt": "The fee is 12 euros."})
    assert [night(), night()] == [1, 0]
    workspace = Workspace(load_config(file))
    workspace.store.remove_file("checks/documents.json")
    assert night() == 1, "its check has no result yet"
    assert passed(workspace, Step("documents"))


def test_the_same_files_made_again_change_nothing_behind_the_release(tmp_path, instance):
    changes = {"configurations": [rule("one", "recursive_150")], "deps": ["raw/files"]}
    file = write_corpus(tmp_path, **changes)
    maker = dg.AssetKey(["raw", "files"])

    @dg.asset(key=maker)
    def files():
        pass

    def behind(name):
        condition = dg.AutomationCondition.eager()

        @dg.asset(
            name=f"after_{name}", deps=[dg.AssetKey(["tiny", name])], automation_condition=condition
        )
        def site():
            pass

        return site

    names = ("documents", "release")
    definitions = dg.Definitions.merge(
        build_definitions(load_config(file), one_run=True),
        dg.Definitions(assets=[files, *map(behind, names)]),
    )
    look = looks(instance)

    def asked():
        found = look(definitions)
        requested = [
            name for name in names if found.get_num_requested(dg.AssetKey(f"after_{name}"))
        ]
        for name in requested:
            instance.report_runless_asset_event(dg.AssetMaterialization(f"after_{name}"))
        return requested

    def observed():
        assert ask(file, instance, "observed_inputs", one_run=True)[1] == "everything is current"
        assert seen(file, instance) == []

    asked()
    instance.report_runless_asset_event(dg.AssetMaterialization(maker))
    bring_up_to_date(file, instance)
    assert asked() == [*names]
    os.utime(tmp_path / "documents" / "policy" / "travel.md", (1, 1))
    assert len(ask(file, instance, "changed_documents", one_run=True)[0]) == 1
    ask(file, instance, "observed_inputs", one_run=True)
    bring_up_to_date(file, instance)
    observed()
    assert asked() == [], "a touched file"
    made_again = dg.AssetMaterialization(maker, tags={"dagster/data_version": "2"})
    instance.report_runless_asset_event(made_again)
    observed()
    assert asked() == ["documents"], "whose staleness ends in Dagster by such an event alone"
    assert asked() == []


def made_at(instance, name):
    return instance.get_latest_materialization_event(dg.AssetKey(["tiny", name])).timestamp


@pytest.mark.parametrize("place", ["here", "elsewhere", "bucket"])
def test_the_assets_that_make_the_files_come_first_and_are_inputs(
    tmp_path, instance, place, request
):
    settings = {"configurations": [rule("one", "recursive_150")], "deps": ["raw/files"]}
    waits = f"documents.path: no such file or folder: {tmp_path}/documents; waiting for raw/files"
    if place == "bucket":
        request.getfixturevalue("bucket")
        settings["documents"] = {"s3": "s3://bucket/raw"}
        nothing = "no documents in s3://bucket/raw: no object has this prefix"
        waits = f"documents.s3: {nothing}; waiting for raw/files"
    file = write_corpus(tmp_path, **settings)
    maker = dg.AssetKey(["raw", "files"])
    documents = {**DOCUMENTS, "new.txt": "The fee is 12 euros."}

    @dg.asset(key=maker)
    def files():
        if place != "bucket":
            write_documents(tmp_path / "documents", documents)
        for name, text in documents.items() if place == "bucket" else ():
            boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}", Body=text.encode())
        return dg.MaterializeResult(data_version=dg.DataVersion("1"))

    shutil.rmtree(tmp_path / "documents")
    for sensor in ("observed_inputs", "changed_documents", "stale_partitions"):
        assert ask(file, instance, sensor) == ([], waits)

    definitions = build_definitions(load_config(file), one_run=True)
    if place == "elsewhere":  # in another code location, whose events are in the same instance
        dg.materialize([files], instance=instance)
    else:
        definitions = dg.Definitions.merge(definitions, dg.Definitions(assets=[files]))
        job = definitions.resolve_implicit_global_asset_job_def()
        made = [maker, dg.AssetKey(["tiny", "documents"])]
        chosen = job.get_subset(asset_selection={*made})
        result = chosen.execute_in_process(instance=instance)
        assert made == [e.asset_key for e in result.all_events if e.is_step_materialization]
    bring_up_to_date(file, instance)
    assert "new.txt" in Workspace(load_config(file)).documents().state()
    assert seen(file, instance) == []
    resolver = Statuses(instance, definitions.resolve_asset_graph())
    assert resolver.is_fresh(dg.AssetKey(["tiny", "documents"]), None)

    again = dg.AssetMaterialization(maker, tags={"dagster/data_version": "2"})
    instance.report_runless_asset_event(again)
    stale = [Step("documents"), Step("queries")]
    assert seen(file, instance) == stale, "as Dagster tells of any new input"
    ask(file, instance, "observed_inputs")
    assert seen(file, instance) == [], "and the same files need no load"


def test_an_asset_whose_inputs_a_project_has_replaced_gets_no_event_at_each_tick(
    tmp_path, instance
):
    file = write_corpus(tmp_path, configurations=[rule("one", "recursive_150")])
    build(file)
    theirs = dg.AssetKey("files")
    with unstable():
        definitions = build_definitions(load_config(file), one_run=True)
        definitions = definitions.permissive_map_resolved_asset_specs(
            lambda spec: spec.replace_attributes(deps=[theirs]), selection="key:tiny/documents"
        )
    repository = definitions.get_repository_def()
    observer = Observer(Workspace(load_config(file)))
    context = dg.build_sensor_context(instance, repository_def=repository)

    def events():
        observer.observe(context)
        return instance.event_log_storage.get_maximum_record_id()

    events()
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    assert events() == events()
    assert execute(file, instance, dg.RunRequest(job_name="tiny__update_documents"))
    assert events() == events()
