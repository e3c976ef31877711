"""Daily work on a store in a bucket: free, examine, repair, export and import."""

import json
from pathlib import Path

import boto3
import pytest
import yaml

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.calls.database import cache_folder
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag

QUESTION = "fee of contract 0"


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
    listed = boto3.client("s3").list_objects_v2(Bucket="bucket")["Contents"]
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


def test_what_is_torn_in_the_bucket_is_found_beside_a_whole_copy_and_mended(workspace, tmp_path):
    file = tmp_path / "cycling.yaml"
    assert Corpus.load(file).search(QUESTION)
    s3 = boto3.client("s3")
    for key in keys("/chunks.arrow"):
        s3.put_object(Bucket="bucket", Key=key, Body=b"torn")
    for key in keys("tables/chunks.fixed.lance/data/"):
        s3.delete_object(Bucket="bucket", Key=key)
    said = rag("doctor", "-c", file)
    assert said.code == 1
    assert f"{workspace.config.store_url}: objects can be written and deleted" in said.out
    assert "/chunks.arrow: torn: 4 bytes, and FILES.json says " in said.out
    assert "store chunks.fixed: torn" in said.out
    assert keys(".doctor") == []
    for finding in inspect(workspace):
        assert finding.mend
        finding.mend()
    reindex(workspace)
    assert inspect(workspace) == []
    assert "is 0 euros" in Corpus.load(file).search(QUESTION)[0].text


def test_a_release_goes_from_bucket_to_bucket(workspace, tmp_path, monkeypatch):
    bundle = tmp_path / "release.zip"
    assert rag("export", "current", bundle, "-c", tmp_path / "cycling.yaml").code == 0
    there = Path(tmp_path / "there")
    there.mkdir()
    monkeypatch.chdir(there)
    monkeypatch.setenv("XDG_CACHE_HOME", str(there / "cache"))
    outcome = rag("import-release", bundle, "--store", "s3://bucket/other")
    assert outcome.code == 0, outcome.err
    imported, original = (Corpus.load(d / "cycling.yaml") for d in (there, tmp_path))
    assert imported.search(QUESTION) == original.search(QUESTION)
