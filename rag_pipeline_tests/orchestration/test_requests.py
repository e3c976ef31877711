"""The mappings of partitions, and the partitions that sensors request."""

import dagster as dg
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError, ProviderError
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration.names import asset_key, job_name, mapping_between, partitions_of
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    rule,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.dagster_projects import ask, execute, named, seen

SEMANTIC = {"method": "semantic", "threshold": 1.0, "min_characters": 20}


def settings(threshold=1.0, **changes):
    return {
        "chunkings": {
            "short": {"method": "recursive", "max_characters": 150},
            "semantic": {**SEMANTIC, "threshold": threshold},
        },
        "configurations": [rule("one", "short", retriever="hybrid"), rule("two", "semantic")],
        **changes,
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    build(write_corpus(folder, **settings()))
    return folder


# --- mappings ---


@pytest.fixture
def four(tmp_path):
    configurations = [
        rule("a", "short", "none", "minilm", "hybrid"),
        rule("b", "short", "structural", "minilm", "dense"),
        rule("c", "short", "structural", "other", "hybrid"),
        rule("d", "semantic", "none", "other", "dense"),
    ]
    embeddings = {"minilm": {"provider": "minilm"}, "other": {"provider": "minilm"}}
    changes = settings(configurations=configurations, embeddings=embeddings)
    return load_config(write_corpus(tmp_path, **changes))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "chunks",
            "contextualized_chunks",
            {"short": {"short.none", "short.structural"}, "semantic": {"semantic.none"}},
        ),
        (
            "contextualized_chunks",
            "vector_index",
            {
                "short.none": {"short.none.minilm"},
                "short.structural": {"short.structural.minilm", "short.structural.other"},
                "semantic.none": {"semantic.none.other"},
            },
        ),
        (
            "contextualized_chunks",
            "lexical_index",
            {"short.none": {"short.none"}, "short.structural": {"short.structural"}},
        ),
        (
            "vector_index",
            "retrieval_run",
            {
                "short.none.minilm": {"a"},
                "short.structural.minilm": {"b"},
                "short.structural.other": {"c"},
                "semantic.none.other": {"d"},
            },
        ),
        ("lexical_index", "retrieval_run", {"short.none": {"a"}, "short.structural": {"c"}}),
        ("retrieval_run", "answer_presence", {name: {name} for name in "abcd"}),
        ("answers", "context_scores", {name: {name} for name in "abcd"}),
    ],
)
def test_a_partition_is_mapped_to_those_that_are_made_from_it(four, before, after, expected):
    mapping = mapping_between(four, before, after)
    assert isinstance(mapping, dg.StaticPartitionMapping)
    ups, downs = partitions_of(four, before), partitions_of(four, after)
    found = {
        up: set(
            mapping.get_downstream_partitions_for_partitions(
                upstream_partitions_subset=ups.subset_with_partition_keys([up]),
                upstream_partitions_def=ups,
                downstream_partitions_def=downs,
            ).get_partition_keys()
        )
        for up in ups.get_partition_keys()
    }
    assert {up: set(keys) for up, keys in found.items() if keys} == expected


def test_an_asset_without_partitions_reads_from_all(four):
    assert mapping_between(four, "documents", "chunks") is None
    assert mapping_between(four, "answer_presence", "leaderboard") is None


# --- the requests of the sensor ---


def test_an_empty_store_is_built_upstream_first(tmp_path, settle):
    file = write_corpus(tmp_path, configurations=[rule("one", "recursive_150")])
    assert settle(file) == [
        ("documents", None),
        ("queries", None),
        ("chunks", "recursive_150"),
        ("contextualized_chunks", "recursive_150.none"),
        ("vector_index", "recursive_150.none.minilm"),
        ("retrieval_run", "one"),
        ("answer_presence", "one"),
        ("answers", "one"),
        ("leaderboard", None),
        ("release", None),
    ]


def test_what_runs_and_what_follows_it_is_not_asked_for(tmp_path, built, instance):
    write_file(tmp_path, **settings(threshold=0.5))
    (request,), _ = ask(built, instance)
    assert named(request) == ("chunks", "semantic")
    config = load_config(built)
    run = instance.add_run(
        dg.DagsterRun(
            job_name=job_name(config, "chunks"),
            tags=dict(request.tags),
            status=dg.DagsterRunStatus.STARTED,
        )
    )
    requests, reason = ask(built, instance)
    assert requests == []
    assert reason is not None
    assert reason.startswith("in progress: chunks semantic, contextualized_chunks semantic.none")
    instance.delete_run(run.run_id)

    # The same from an asset's page in the UI, whose runs belong to no job of ours.
    instance.add_run(
        dg.DagsterRun(
            job_name="__ASSET_JOB",
            asset_selection={asset_key(config, "chunks")},
            tags={"dagster/partition": "semantic"},
            status=dg.DagsterRunStatus.STARTING,
        )
    )
    requests, reason = ask(built, instance)
    assert requests == []


def test_a_failed_partition_holds_back_itself_alone_until_something_changes(
    tmp_path, built, settle, instance, monkeypatch
):
    real = vars(tables)["build_vectors"]

    def out_of_order(workspace, partition, ids, report):
        if partition.startswith("semantic"):
            raise ProviderError("the model is out of order")
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(tables, "build_vectors", out_of_order)
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    write_file(tmp_path, **settings(serve="one"))
    load_documents(built, instance)
    asked = settle(built)
    assert asked.count(("vector_index", "semantic.none.minilm")) == 1
    assert len(asked) == len(set(asked)), "nothing is asked for twice"
    assert {("leaderboard", None), ("release", None)} < set(asked)
    assert ("retrieval_run", "two") not in asked
    assert "250 euros" in Corpus.load(built).search("price of a hotel", k=1)[0].text
    _, reason = ask(built, instance)
    assert reason == (
        "nothing to do before something changes; stuck: vector_index semantic.none.minilm, and 5 "
        "steps that read it: its last run with these inputs did not make it; the run's log has "
        "the reason"
    )

    monkeypatch.undo()
    assert settle(built) == [], "still nothing has changed"
    load_documents(built, instance)
    assert settle(built) == [
        ("vector_index", "semantic.none.minilm"),
        ("retrieval_run", "two"),
        ("answer_presence", "two"),
        ("answers", "two"),
        ("leaderboard", None),
    ]


def test_a_refused_release_is_asked_for_once(tmp_path, settle, instance):
    file = write_corpus(tmp_path, configurations=[rule("one", "recursive_150")])
    build(file)
    documents = tmp_path / "documents"
    text = DOCUMENTS["policy/travel.md"]
    write_documents(documents, {"policy/travel.md": text.replace("180 euros", "250 euros")})
    build(file)
    Corpus.load(file).roll_back()  # the only build is held back: there is nothing to release
    assert settle(file) == []
    write_documents(documents, {"policy/travel.md": text.replace("180 euros", "300 euros")})
    write_file(tmp_path, configurations=[rule("one", "recursive_150")], gate={"minimum_queries": 9})
    load_documents(file, instance)
    assert settle(file)[-1] == ("release", None)
    assert settle(file) == [], "the gate refuses the same build again"
    assert "180 euros" in Corpus.load(file).search("price of a hotel", k=1)[0].text
    write_file(tmp_path, configurations=[rule("one", "recursive_150")])
    assert settle(file) == [("release", None)]
    assert "300 euros" in Corpus.load(file).search("price of a hotel", k=1)[0].text


def test_a_table_that_fails_its_check_holds_back_what_follows(
    tmp_path, built, settle, run_dagster, instance
):
    config = load_config(built)
    table = Workspace(config).chunks("short").open()
    table.update(where="document_id = 'nda/acme.txt'", values={"text": "something else"})
    for _ in range(2):  # not the first time only
        with pytest.raises(CheckFailedError, match=r"text_differs in 1 of 4: nda/acme.txt"):
            run_dagster(built)
    assert settle(built) == []
    _, reason = ask(built, instance)
    assert "stuck: chunks short, and 8 steps that read it: check chunks_is_sound failed" in reason
    assert reason.endswith("`rag doctor --repair tiny` repairs it")

    (finding,) = inspect(Workspace(config))
    finding.mend()
    assert settle(built) == [("chunks", "short")]
    assert not any(result.ran for result in run_dagster(built))


def test_a_table_that_was_altered_after_its_check_is_checked_once(
    tmp_path, built, settle, instance
):
    changed = settings()
    changed["chunkings"]["short"]["max_characters"] = 151
    write_file(tmp_path, **changed)
    assert settle(built)[0] == ("chunks", "short")
    table = Workspace(load_config(built)).chunks("short").open()
    table.update(where="document_id = 'nda/acme.txt'", values={"text": "something else"})
    assert settle(built) == [("chunks", "short")]
    assert settle(built) == []
    _, reason = ask(built, instance)
    assert "stuck: chunks short, and 8 steps that read it: check chunks_is_sound failed" in reason

    (finding,) = inspect(Workspace(load_config(built)))
    finding.mend()
    assert settle(built) == [("chunks", "short")]


def test_a_load_that_changes_nothing_keeps_the_release_fresh(tmp_path, built, instance):
    write_file(tmp_path, **settings(schedule="0 3 * * *"))
    execute(built, instance, dg.RunRequest(job_name="tiny__update_documents"))
    assert ask(built, instance) == ([], "everything is current")
    assert ask(built, instance, "observed_inputs") == ([], "everything is current")
    names = ("documents", "leaderboard", "release")
    made = [instance.get_latest_materialization_event(dg.AssetKey(["tiny", n])) for n in names]
    looks = [looked_at(instance, name) for name in names]
    assert ask(built, instance) == ([], "everything is current")
    assert [looked_at(instance, name) for name in names] == looks, "nobody has loaded since"
    execute(built, instance, dg.RunRequest(job_name="tiny__update_documents"))
    for _ in range(2):
        assert ask(built, instance) == ([], "everything is current")
        assert [looked_at(instance, name) for name in names] == [n + 1 for n in looks]
    assert seen(built, instance) == []
    now = [instance.get_latest_materialization_event(dg.AssetKey(["tiny", n])) for n in names]
    assert now == made, "so nothing behind them is asked for"


def looked_at(instance, name):
    """Return how often an asset was found current."""
    return len(instance.fetch_observations(dg.AssetKey(["tiny", name]), limit=9).records)


def load_documents(file, instance):
    config = load_config(file)
    assert execute(file, instance, dg.RunRequest(job_name=job_name(config, "documents")))
