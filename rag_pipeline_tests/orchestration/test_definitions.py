import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.observe import observe

import rag_pipeline.definitions
from rag_pipeline.config import load_config
from rag_pipeline.config.evaluation import ExtractiveAnswers
from rag_pipeline.config.retrievers import Lexical
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.leaderboard import LEADERBOARD_VERSION
from rag_pipeline.orchestration import observing
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.events import metadata_of
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.pipeline import updates
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import rule, write_corpus, write_file
from rag_pipeline_tests.testing.dagster_projects import command

ROOT = Path(rag_pipeline.definitions.__file__).parents[1]
CHUNKINGS = ["sentences_600", "semantic_1_5", "semantic_2_0", "recursive_500"]
HYBRID = [f"{c}.{n}" for c in [*CHUNKINGS[1:], CHUNKINGS[0]] for n in ("none", "structural")]
CONTEXTS = [HYBRID[-1], *HYBRID[:-1]]  # "default" is the first of the file
VECTORS = [f"{context}.minilm" for context in CONTEXTS]
CONFIGURATIONS = ["default", *(f"{c}.minilm.hybrid.none" for c in HYBRID), "baseline"]
KEYS = {
    None: None,
    "chunking": CHUNKINGS,
    "contextualizer": CONTEXTS,
    "embedding": VECTORS,
    "configuration": CONFIGURATIONS,
}
MADE = [row for row in ASSETS.values() if not row.on_demand and row.name != "relevance_labels"]
"""Without a judge, which the sample has none of."""
PARTITIONS = {row.name: KEYS[row.partitioned_by] for row in MADE}
CHECKS = {(row.name, check.name, check.blocking) for row in MADE for check in row.checks}

# Dagster says this of its own code; the project's definitions module silences it for users.
pytestmark = pytest.mark.filterwarnings("ignore:Parameter `execution_type` of function")


@pytest.fixture(scope="module")
def definitions():
    return rag_pipeline.definitions.defs()


@pytest.fixture(scope="module")
def graph(definitions):
    return definitions.resolve_asset_graph()


# --- the shipped project ---


def test_the_assets_of_the_sample_their_partitions_and_what_they_read(graph):
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"sample"}
    made = {key.path[-1] for key in graph.materializable_asset_keys}
    (inputs,) = graph.observable_asset_keys
    assert made == set(PARTITIONS)
    every = [f"{n}.{key}" if key else n for n, keys in PARTITIONS.items() for key in keys or [""]]
    assert graph.get(inputs).partitions_def.get_partition_keys() == every
    for name, keys in PARTITIONS.items():
        node = graph.get(dg.AssetKey(["sample", name]))
        partitions = node.partitions_def
        assert (partitions.get_partition_keys() if partitions else None) == keys, name
        assert {parent.path[-1] for parent in node.parent_keys} == {
            "inputs",
            *(b for b in ASSETS[name].reads if b in PARTITIONS),
        }
        for key in keys or [None]:
            read = graph.get_parent_partition_keys_for_child(key, inputs, node.key)
            own = f"{name}.{key}" if key else name
            assert list(read.partitions_subset.get_partition_keys()) == [own]


def test_the_checks_and_which_of_them_block(graph):
    nodes = [graph.get(key) for key in graph.asset_check_keys]
    assert {(n.key.asset_key.path[1], n.key.name, n.blocking) for n in nodes} == CHECKS
    about = {node.key.name: node.description for node in nodes}
    assert all(about.values())
    assert about["chunks_is_sound"] == (
        "Expect unique chunk ids, valid offsets, and the document's text at these offsets."
    )


def test_the_jobs_schedules_and_sensors(definitions):
    repository = definitions.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert jobs == {"sample__bring_up_to_date", *(f"sample__update_{n}" for n in PARTITIONS)}
    assert repository.schedule_defs == [], "nothing starts unasked in a fresh checkout"
    assert {s.name: s.default_status.value for s in repository.sensor_defs} == {
        "sample__changed_documents": "STOPPED",
        "sample__observed_inputs": "RUNNING",
        "sample__stale_partitions": "STOPPED",
    }
    assert all(sensor.description for sensor in repository.sensor_defs)


def test_what_dagster_is_told_by_the_workspace_file_is_valid(tmp_path):
    result = subprocess.run(
        command("dagster", "definitions", "validate", "-w", ROOT / "workspace.yaml"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "All code locations passed validation" in result.stdout + result.stderr


def test_loading_the_project_imports_nothing_heavy(tmp_path):
    heavy = (
        "great_expectations markitdown bm25s onnxruntime tokenizers openai lancedb pandas boto3 "
        "dagster_aws httpx jsonschema markdown_it pyarrow.compute pypdfium2 email.policy"
    ).split()
    code = (
        "import gc, sys, rag_pipeline; before = gc.get_stats(); "
        "import rag_pipeline.definitions as d; d.defs(); "
        "of = lambda stats: sum(each['collections'] for each in stats); "
        f"print([name for name in {heavy} if name in sys.modules], gc.isenabled()); "
        "print(gc.get_freeze_count()); "
        "print(of(gc.get_stats()) - of(before))"
    )
    result = subprocess.run(
        command("python", "-c", code), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found, frozen, collections = result.stdout.splitlines()
    assert found == "[] True"
    assert int(frozen) > 100_000
    assert int(collections) < 50, "what was loaded was looked through for garbage"
    assert result.stderr == "", "a user's terminal stays clean"


def test_a_scaffolded_python_file_beside_the_corpora_is_loaded(tmp_path):
    package = tmp_path / "rag_pipeline"
    (package / "defs/ours").mkdir(parents=True)
    (package / "defs/empty").mkdir()
    (package / "defs/ours/site.py").write_text("import dagster as dg\n@dg.asset\ndef site(): ...\n")
    for source in (ROOT / "pyproject.toml", *(ROOT / "rag_pipeline").glob("[!_]*")):
        if source.name != "defs":
            (tmp_path / source.relative_to(ROOT)).symlink_to(source)
    shutil.copy(ROOT / "rag_pipeline/__init__.py", package)
    code = (
        "from rag_pipeline.definitions import defs; "
        "print(*(spec.key.path for spec in defs().resolve_all_asset_specs()))"
    )
    line = command("python", "-W", "ignore", "-c", code)
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(line, cwd=tmp_path, env=there, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['site']"


# --- one corpus ---


def test_a_schedule_brings_the_corpus_up_to_date(tmp_path):
    file = write_corpus(tmp_path, schedule="0 3 * * *", deps=["raw/files"])
    repository = build_definitions(load_config(file)).get_repository_def()
    (schedule,) = repository.schedule_defs
    assert (schedule.name, schedule.cron_schedule) == ("tiny__reindex", "0 3 * * *")
    assert schedule.job_name == "tiny__bring_up_to_date"
    on = {s.name for s in repository.sensor_defs if s.default_status.value == "RUNNING"}
    assert on == {f"tiny__{n}" for n in ("observed_inputs", "stale_partitions", "freshness")}
    with dg.build_schedule_context(scheduled_execution_time=datetime.now(UTC)) as context:
        assert len(schedule.evaluate_tick(context).run_requests) == 1
        shutil.rmtree(tmp_path / "documents")
        told = schedule.evaluate_tick(context).skip_message
    assert told.endswith(f"no such file or folder: {tmp_path}/documents; waiting for raw/files")


def test_keys_owners_tags_and_groups_follow_the_corpus_file(tmp_path):
    translation = {
        "group_name": "search",
        "key": "{{ spec.key.path[-2] }}/v1_{{ spec.key.path[-1] }}",
    }
    changes = {"key_prefix": ["acme"], "tags": {"tier": "gold"}, "translation": translation}
    config = load_config(write_corpus(tmp_path, **changes, owners=["team:search"]))
    graph = build_definitions(config).resolve_asset_graph()
    made = {key.to_user_string() for key in graph.materializable_asset_keys}
    assert "tiny/v1_documents" in made
    for name in ("v1_chunks", "v1_inputs"):
        node = graph.get(dg.AssetKey(["tiny", name]))
        told = node.group_name, node.owners, node.tags["tier"]
        assert told == ("search", ["team:search"], "gold")
    node = graph.get(dg.AssetKey(["tiny", "v1_chunks"]))
    assert {key.to_user_string() for key in node.parent_keys} == {
        "tiny/v1_documents",
        "tiny/v1_inputs",
    }
    wrong = load_config(write_file(tmp_path, translation={"grup_name": "search"}))
    with pytest.raises(ConfigError, match=r"(?s)tiny\.yaml: translation: .*grup_name"):
        build_definitions(wrong)


def test_the_code_version_names_what_makes_all_partitions_of_an_asset(tmp_path):
    config = load_config(write_corpus(tmp_path))
    graph = build_definitions(config).resolve_asset_graph()
    found = {r.name: graph.get(asset_key(config, r.name)).code_version for r in MADE}
    by_method = {"chunks", "contextualized_chunks", "retrieval_run"}
    assert {name for name, version in found.items() if version is None} == by_method
    assert found["leaderboard"] == f"leaderboard {LEADERBOARD_VERSION}"
    assert found["lexical_index"] == f"Lexical {Lexical.code_version}"
    assert found["answers"] == f"ExtractiveAnswers {ExtractiveAnswers.code_version}"


def test_a_backfill_of_partitions_side_by_side_is_one_run(config):
    for one_run in (True, False):
        graph = build_definitions(config, one_run=one_run).resolve_asset_graph()
        for name, row in ASSETS.items():
            key = asset_key(config, name)
            if key in graph.materializable_asset_keys:
                single = one_run and row.partitioned_by is not None
                expected = dg.BackfillPolicy.single_run() if single else None
                assert graph.get(key).backfill_policy == expected, name


def test_a_corpus_without_bm25_has_no_lexical_index(tmp_path):
    config = load_config(write_corpus(tmp_path, configurations=[rule("one", "markdown")]))
    graph = build_definitions(config).resolve_asset_graph()
    assert not graph.has(asset_key(config, "lexical_index"))


def test_the_assistants_prompts_are_an_asset_where_it_has_a_model(tmp_path):
    chat = {"provider": "openai", "model": "m"}
    file = write_corpus(tmp_path, chats={"small": chat}, assistant={"chat": "small"})
    definitions = build_definitions(load_config(file))
    graph = definitions.resolve_asset_graph()
    node = graph.get(dg.AssetKey(["tiny", "assistant_prompts"]))
    assert node.partitions_def is None
    assert {parent.path[1] for parent in node.parent_keys} == {"queries", "release"}
    targets = [job.asset_layer.selected_asset_keys for job in named_jobs(definitions)]
    assert targets and not any(node.key in keys for keys in targets), "nothing starts it by itself"


def named_jobs(definitions: dg.Definitions) -> list[dg.JobDefinition]:
    jobs = definitions.get_repository_def().get_all_jobs()
    return [job for job in jobs if not job.name.startswith("__")]


def test_three_corpora_live_side_by_side(tmp_path):
    every = []
    for name in ("left-hand", "right", "third"):
        (tmp_path / name).mkdir()
        every.append(build_definitions(load_config(write_corpus(tmp_path / name, corpus=name))))
    merged = dg.Definitions.merge(*every)
    dg.Definitions.validate_loadable(merged)
    graph = merged.resolve_asset_graph()
    groups = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        groups.setdefault(node.group_name, set()).add(key.path[-1])
        assert {parent.path[0] for parent in node.parent_keys} <= {key.path[0]}, "a graph apart"
        assert node.is_external == (key.path[-1] == "inputs"), "the only one that is not made"
    shown = {*PARTITIONS, "inputs"}
    assert groups == {"left_hand": shown, "right": shown, "third": shown}


# --- the UI ---


def test_the_jobs_bring_the_executor_with_them(config, monkeypatch):
    monkeypatch.setenv("RAG_EXECUTOR", "multiprocess")
    jobs = {j.name: j.executor_def for j in named_jobs(build_definitions(config))}
    assert jobs["tiny__update_chunks"].name == "multiprocess"
    assert jobs["tiny__bring_up_to_date"].name == "in_process"
    monkeypatch.delenv("RAG_EXECUTOR")
    job = build_definitions(config).resolve_job_def("tiny__update_chunks")
    assert job.executor_def is dg.in_process_executor


def test_materializations_name_table_columns_address_and_the_same_numbers(tmp_path, instance):
    config = load_config(write_corpus(tmp_path, schedule="0 3 * * *"))
    job = build_definitions(config).resolve_job_def("tiny__bring_up_to_date")
    assert job.execute_in_process(instance=instance).success

    def latest(name):
        event = instance.get_latest_materialization_event(asset_key(config, name))
        return event.asset_materialization.metadata

    numbers = {"seconds", "cost_usd", "calls_made", "calls_saved"}
    for name in PARTITIONS:
        assert numbers <= set(latest(name)), name
    chunks = latest("chunks")
    assert chunks["dagster/table_name"].value == "tiny.chunks.recursive_150"
    assert chunks["dagster/uri"].value.endswith("store/tiny/tables/chunks.recursive_150.lance")
    assert chunks["preview"].value["rows"][0].keys() == {"document_id", "start", "end", "text"}
    metrics = latest("answer_presence")["metrics"].value.splitlines()
    assert metrics[:2] == ["metric|mean|n|missing|low|high|groups", "---|---|---|---|---|---|---"]
    report = latest("leaderboard")["report"]
    assert isinstance(report, dg.PathMetadataValue)
    assert Path(report.value).read_text().startswith("<!doctype html>")
    address = "https://search.example/report.html"
    elsewhere = Workspace(config.model_copy(update={"report_url": address}))
    link = metadata_of(updates.leaderboard(elsewhere, {}).metadata)["report"]
    assert link == dg.MetadataValue.url(address)
    verdicts = {
        record.data["vs baseline"] for record in latest("leaderboard")["leaderboard"].records
    }
    assert verdicts == {"", "cannot\N{NO-BREAK SPACE}tell"}, "on one line"
    charted = {n: v.value for n, v in latest("leaderboard").items() if n.startswith("AnswerP")}
    assert charted == {"AnswerPresence@5 · default": 1.0, "AnswerPresence@5 · plain": 1.0}
    served = latest("release")
    assert served["AnswerPresence@5"].value == 1.0
    assert served["documents"].value == 4
    (check,) = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(asset_key(config, "leaderboard"), "gate_lets_it_through"), limit=5
    )
    evaluation = check.event.asset_check_evaluation
    assert evaluation.passed
    assert evaluation.description.startswith(served["configuration"].value)

    assert job.execute_in_process(instance=instance).success
    released = instance.fetch_materializations(asset_key(config, "release"), limit=5).records
    assert len(released) == 1, "or what waits for a release would start"
    watched = {"documents", "leaderboard", "release"}
    looked = {
        n for n in PARTITIONS if instance.fetch_observations(asset_key(config, n), limit=1).records
    }
    assert looked == watched
    graph = build_definitions(config).resolve_asset_graph()
    schema = graph.get(asset_key(config, "chunks")).metadata["dagster/column_schema"]
    assert {c.name: c.type for c in schema.columns}["start"] == "int64"
    aging = {c.asset_key for c in graph.asset_check_keys if c.name == "freshness_check"}
    assert aging == {asset_key(config, n) for n in watched}


def test_an_observation_by_hand_goes_on_to_the_end_and_tells_its_progress(
    tmp_path, instance, monkeypatch
):
    file = write_corpus(tmp_path, configurations=[rule("one", "recursive_150")])
    monkeypatch.setattr(observing, "MOST_SECONDS", -1.0)
    (inputs, *_) = build_definitions(load_config(file), one_run=True).assets
    assert isinstance(inputs, dg.AssetsDefinition)
    ran = observe([inputs], instance=instance)
    key, kind = dg.AssetKey(["tiny", "inputs"]), dg.DagsterEventType.ASSET_OBSERVATION
    shown = instance.event_log_storage.get_latest_storage_id_by_partition(key, kind)
    every = {step.store_name for step in steps(load_config(file))}
    assert shown.keys() == every
    told = [entry.user_message for entry in instance.all_logs(ran.run_id)]
    stale = f"{len(every)} partitions are stale"
    assert f"{stale}; the UI shows 1 of {len(every)} partitions so far" in told
    assert stale in told
    assert ran.asset_observations_for_node("tiny__inputs") == [], "each event has its partition"
