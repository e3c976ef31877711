"""A bucket behind a proxy that cuts connections, and the daily work on a store in it."""

import json
import os
from collections import Counter
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
import yaml

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus, indexing
from rag_pipeline.calls.database import cache_folder
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.store import Store
from rag_pipeline.store.s3 import browser_address
from rag_pipeline.store.schemas import QUARANTINE_SCHEMA, rows_of
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.bucket_proxy import Fault
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.model_server import serving


def every(nth: int, what: str) -> Fault:
    return lambda number, line: what if number % nth == 0 else ""


@pytest.mark.parametrize("fault", [every(3, "slow"), every(3, "cut")])
def test_passing_faults_are_retried(behind, bucket, of_objects, fault):
    for name in "abcdef":
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text " * 50)
    with behind(fault):
        store = Store(bucket, "tiny")
        for number in range(3):
            assert store.write_json_if("a.json", number, store.read_tagged_json("a.json")[1])
        assert store.read_json("a.json") == 2
        folder = store.files.new_folder("lexical/x")
        (folder / "index").write_text("index" * 100)
        store.publish_folder(folder, "lexical/x")
        assert (store.local_folder("lexical/x") / "index").read_text() == "index" * 100
        assert indexing.update_documents(of_objects).documents == 6


def test_tables_are_read_and_written_through_passing_faults(behind, bucket):
    columns = {name: ["x"] for name in QUARANTINE_SCHEMA.names}
    with behind(every(4, "slow")):
        table = Store(bucket, "tiny").table("quarantine.x", QUARANTINE_SCHEMA)
        table.ensure()
        for _ in range(3):
            table.replace(["x"], [rows_of(columns, QUARANTINE_SCHEMA)])
        assert table.count() == 1
        assert isinstance(table.open().to_arrow(), pa.Table)


def test_a_lasting_refusal_is_one_line(behind, bucket, of_objects, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with behind(every(1, "slow")):
        with pytest.raises(StoreError, match=r"^documents.s3: s3://bucket/raw: .*SlowDown") as told:
            indexing.update_documents(of_objects)
        assert "\n" not in str(told.value)
        with pytest.raises(StoreError, match=r"cannot read a\.json"):
            Store(bucket, "tiny").read_json("a.json")
    with behind(every(1, "denied")):
        with pytest.raises(ConfigError, match=r"AccessDenied.*allow this action"):
            indexing.update_documents(of_objects)
        with pytest.raises(ConfigError, match=r"^s3://bucket/prefix/tiny/a.json: .*AccessDenied"):
            Store(bucket, "tiny").write_json_if("a.json", 1, None)


def test_one_object_that_may_not_be_read_is_quarantined(behind, of_objects):
    for name in ("good", "secret"):
        boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{name}.txt", Body=b"text")

    def secret(number: int, line: str) -> str:
        return "denied" if "secret" in line else ""

    with behind(secret):
        report = indexing.update_documents(of_objects)
    assert report.documents == 1
    assert report.quarantined == {"secret.txt": "cannot read the object: 403"}
    assert indexing.update_documents(of_objects).documents == 1, "it is tried again"
    assert of_objects.quarantine("documents").count() == 0


QUESTION = "fee of contract 0"


def write_paid(folder: Path, store: str, url: str) -> Path:
    """Write a corpus of three documents whose contexts a model is paid for."""
    file = write_cycling(folder, 3)
    content = yaml.safe_load(file.read_text())
    attributes = content["attributes"]
    del attributes["queries"]
    attributes |= {
        "store": store,
        "chats": {"small": {"provider": "openai", "model": "m", "base_url": url}},
        "contextualizers": {"said": {"method": "llm", "chat": "small"}},
    }
    attributes["configurations"][0]["contextualizer"] = "said"
    file.write_text(yaml.safe_dump(content))
    return file


def from_the_first_write_of(place: str, what: str, reads_too: bool) -> Fault:
    """Return a fault that strikes once a run has come so far as to write below `place`."""
    struck = False

    def fault(number: int, line: str) -> str:
        nonlocal struck
        writes = not line.startswith(("GET", "HEAD"))
        struck = struck or (writes and place in line)
        return what if struck and (writes or reads_too) else ""

    return fault


@pytest.mark.long
def test_a_bucket_that_refuses_on_the_way_costs_one_error_and_no_call(
    behind, bucket, tmp_path, monkeypatch
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with serving(lambda body: "It is a contract.") as server:
        file = write_paid(tmp_path, bucket, server.url)
        reindex(Workspace(load_config(file)))
        assert len(server.requests) == 3
        served = Corpus.load(file)
        before = served.search(QUESTION, k=1)
        edit(tmp_path, 0, 101)

        # The call has been paid, and its reply can't be written.
        with behind(from_the_first_write_of("tables/contextualized_chunks", "denied", False)):
            outcome = rag("run", file, "--quiet")
            assert outcome.code == 1
            (line,) = outcome.err.splitlines()
            assert line.startswith("error: contextualized_chunks fixed.said: ")
            assert "AccessDenied" in line and "cannot write" in line
            assert Corpus.load(file).search(QUESTION, k=1) == before
            assert served.search(QUESTION, k=1) == before
        assert len(server.requests) == 4

        # The vectors exist, and nothing can be read any more.
        with behind(from_the_first_write_of("tables/vector_index", "slow", True)):
            refused = r"^vector_index\.fixed\.said\.minilm: cannot write: .*SlowDown"
            with pytest.raises(StoreError, match=refused) as told:
                reindex(Workspace(load_config(file)))
            assert "\n" not in str(told.value)
        assert served.search(QUESTION, k=1) == before

        workspace = Workspace(load_config(file))
        reindex(workspace)
        assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
        assert inspect(workspace) == []
        assert "is 101 euros" in Corpus.load(file).search(QUESTION, k=1)[0].text
        served.reopen()
        assert "is 101 euros" in served.search(QUESTION, k=1)[0].text
        asked = Counter(json.dumps(request) for request in server.bodies)
        assert set(asked.values()) == {1} and len(asked) == 4


@pytest.fixture
def workspace(bucket, tmp_path) -> Workspace:
    """Return a corpus of one release, without queries, that keeps one."""
    file = write_cycling(tmp_path, 2)
    content = yaml.safe_load(file.read_text())
    del content["attributes"]["queries"]
    content["attributes"] |= {"store": bucket}
    content["attributes"]["retention"]["keep_releases"] = 1
    file.write_text(yaml.safe_dump(content))
    workspace = Workspace(load_config(file))
    reindex(workspace)
    return workspace


def keys(part: str) -> list[str]:
    listed = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="prefix/")["Contents"]
    return [entry["Key"] for entry in listed if part in entry["Key"]]


def copies() -> int:
    return len(list((cache_folder() / "folders").iterdir()))


def test_what_is_past_its_time_is_freed_in_the_bucket_and_on_this_machine(workspace, tmp_path):
    file = tmp_path / "cycling.yaml"
    for fee in (7, 8):
        edit(tmp_path, 0, fee)
        reindex(workspace)
    assert "is 8 euros" in Corpus.load(file).search(QUESTION)[0].text
    before = copies()

    def freed(*options: str) -> dict[str, str]:
        outcome = rag("gc", "-c", file, "--json", *options)
        assert outcome.code == 0, outcome.err
        return {row["what"]: row["name"] for row in json.loads(outcome.out)}

    there = keys("")
    told = freed("--dry-run")
    assert keys("") == there
    assert copies() == before
    done = freed()
    assert done.pop("versions", None)  # let go by the release that has just been freed
    assert done == told
    assert {"release", "lexical index", "copy"} <= set(told)
    # The served release and the previous one, for a roll-back.
    assert len(keys("releases/release-")) == len(keys("FILES.json")) == 2
    assert copies() <= 2
    assert freed() == {}
    assert "is 8 euros" in Corpus.load(file).search(QUESTION)[0].text
    # Three texts of contract 0 were embedded; the steps have freed those that are not current.
    assert len(workspace.cache) == 2


def test_a_release_goes_from_bucket_to_bucket_and_is_mended_where_it_is_torn(
    workspace, tmp_path, monkeypatch
):
    file, bundle, there = (tmp_path / n for n in ("cycling.yaml", "release.zip", "there"))
    assert rag("export", "current", bundle, "-c", file).code == 0
    there.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(there)
        elsewhere.setenv("XDG_CACHE_HOME", str(there / "cache"))
        outcome = rag("import-release", bundle, "--store", "s3://bucket/other")
        assert outcome.code == 0, outcome.err
        imported = Corpus.load(there / "cycling.yaml").search(QUESTION)
    assert imported == Corpus.load(file).search(QUESTION) != []

    # This machine keeps a whole copy of the index.
    s3 = boto3.client("s3")
    for key in keys("/chunks.arrow"):
        s3.put_object(Bucket="bucket", Key=key, Body=b"torn")
    for key in keys("tables/chunks.fixed.lance/data/"):
        s3.delete_object(Bucket="bucket", Key=key)
    said = rag("doctor", "-c", file)
    assert said.code == 1
    assert f"{workspace.config.store_url}: objects can be written and deleted" in said.out
    assert "/chunks.arrow: incomplete or altered: its size differs from the list" in said.out
    assert "store chunks.fixed: incomplete" in said.out
    assert keys(".doctor") == []
    for finding in inspect(workspace):
        assert finding.mend
        finding.mend()
    reindex(workspace)
    assert inspect(workspace) == []
    assert "is 0 euros" in Corpus.load(file).search(QUESTION)[0].text


def test_altered_bytes_of_the_same_size_and_a_lost_list_are_found_beside_a_whole_copy(bucket):
    store, s3 = Store(bucket, "tiny"), boto3.client("s3")
    folder = store.files.new_folder("lexical/x")
    (folder / "index").write_text("whole")
    store.publish_folder(folder, "lexical/x")
    assert store.local_folder("lexical/x")
    store.files.verify_folder("lexical/x")
    s3.put_object(Bucket="bucket", Key=keys("lexical/x/index")[0], Body=b"wrong")
    with pytest.raises(StoreError, match="incomplete or altered"):
        store.files.verify_folder("lexical/x")
    s3.delete_object(Bucket="bucket", Key=keys("lexical/x/FILES.json")[0])
    with pytest.raises(StoreError, match=r"lexical/x/FILES\.json is gone"):
        store.files.verify_folder("lexical/x")


def test_a_browser_opens_an_object_on_its_server_or_in_the_console(bucket, monkeypatch):
    address = f"{bucket}/tiny/report.html"
    path = "bucket/prefix/tiny/report.html"
    assert browser_address(address) == f"{os.environ['AWS_ENDPOINT_URL']}/{path}"
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert browser_address(address) == (
        "https://s3.console.aws.amazon.com/s3/object/bucket?prefix=prefix/tiny/report.html"
    )
