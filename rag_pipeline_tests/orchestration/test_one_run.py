"""One run for all that is stale, where a run's steps share its process."""

import dagster as dg
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import ProviderError
from rag_pipeline.indexing import stages
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus, write_documents
from rag_pipeline_tests.testing.dagster_projects import ask, execute, named

WHOLE = ("bring_up_to_date", None)


def rule(name, chunking):
    return {"name": name, "chunking": chunking, "embedding": "minilm", "retriever": "dense"}


@pytest.fixture
def file(tmp_path):
    return write_corpus(
        tmp_path, configurations=[rule("one", "recursive_150"), rule("two", "markdown")]
    )


def asked(file, instance, name="stale_partitions"):
    return ask(file, instance, name, one_run=True)


def is_current(file):
    workspace = Workspace(load_config(file))
    return not any(plan_step(workspace, step).must_run for step in steps(workspace.config))


def test_an_empty_store_is_built_by_one_run(file, instance):
    (request,), _ = asked(file, instance)
    assert named(request) == WHOLE
    assert execute(file, instance, request)
    assert is_current(file)
    assert asked(file, instance) == ([], "everything is current")

    config = load_config(file)
    version = instance.get_latest_data_version_record(
        asset_key(config, "chunks"), False, "markdown"
    )
    assert version.asset_materialization.metadata["documents_worked_on"].value == len(DOCUMENTS)
    (evaluation,) = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(asset_key(config, "documents"), "documents_are_sound"), limit=5
    )
    assert evaluation.event.asset_check_evaluation.passed

    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(file.parent / "documents", {"policy/travel.md": text})
    (request,), _ = asked(file, instance, "changed_documents")
    assert named(request) == WHOLE
    assert execute(file, instance, request)
    assert asked(file, instance)[0] == asked(file, instance, "changed_documents")[0] == []
    assert "250 euros" in Corpus.load(file).search("price of a hotel a night", k=1)[0].text


def test_what_fails_holds_back_what_reads_it_and_is_not_asked_for_again(
    file, instance, monkeypatch
):
    real = vars(stages)["build_chunks"]

    def build(workspace, partition, ids, report):
        if str(partition) == "markdown":
            raise ProviderError("the model is out of order")
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(stages, "build_chunks", build)
    (request,), _ = asked(file, instance)
    assert not execute(file, instance, request)
    assert Corpus.load(file).release().configuration == "one"
    requests, reason = asked(file, instance)
    assert requests == []
    assert reason.startswith(
        "nothing to do before something changes; stuck: chunks markdown, contextualized_chunks"
    )

    monkeypatch.undo()
    write_documents(file.parent / "documents", {"new.txt": "The fee is 12 euros."})
    (request,), _ = asked(file, instance, "changed_documents")
    assert execute(file, instance, request), "the next load tries it again"
    assert is_current(file)


def test_a_run_that_is_canceled_is_asked_for_again_a_few_times(file, instance):
    job = dg.JobDefinition(graph_def=dg.GraphDefinition(name="x"), name="tiny__bring_up_to_date")
    for _ in range(3):
        (request,), _ = asked(file, instance)
        run = instance.create_run_for_job(
            job, status=dg.DagsterRunStatus.STARTED, tags=dict(request.tags)
        )
        assert asked(file, instance)[0] == []
        instance.report_run_canceled(run)
    assert asked(file, instance)[0] == []
