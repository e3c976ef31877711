"""Rules of access by builds, bundles and the command line, which a server may answer."""

import json
import tempfile
from contextlib import ExitStack

import pytest
import yaml

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.datamodels import ANYBODY, Caller
from rag_pipeline.models.providers.minilm import MiniLM
from rag_pipeline.release import bundle
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.local import listening_to_user
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline_tests.testing.app_server import Running
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.command_line import said
from rag_pipeline_tests.testing.corpora import copy_corpus
from rag_pipeline_tests.testing.labelled import ACCESS, LABELS, seen_with
from rag_pipeline_tests.testing.servers import free_port


def changed(corpus, folder, access=None):
    """Return a copy of the corpus, with other rules of access if they are given."""
    copy_corpus(corpus.config.file.parent, folder)
    file = folder / corpus.config.file.name
    content = yaml.safe_load(file.read_text())
    content["attributes"]["access"] = access or ACCESS
    file.write_text(yaml.safe_dump(content))
    return Corpus.load(file)


def seen_in(corpus, caller):
    return {chunk.document_id for chunk in corpus.search("agreement", k=100, caller=caller)}


def test_a_rule_takes_effect_without_a_build(corpus, tmp_path):
    rules = [{"match": "open/nutmeg.txt", "labels": ["hr"]}]
    closed = changed(corpus, tmp_path, {"default": [], "rules": rules})
    assert seen_in(closed, ANYBODY) == set()
    assert seen_in(closed, Caller(frozenset({"hr"}))) == {"open/nutmeg.txt"}
    assert not any(done.ran for done in run(closed.config))
    assert [release.release_id for release in closed.releases()] == ["release-000001"]


def test_a_label_of_the_sidecar_takes_effect_with_a_release_and_without_a_model(
    corpus, tmp_path, monkeypatch
):
    copy = changed(corpus, tmp_path)
    sidecar = tmp_path / "about.jsonl"
    said = sidecar.read_text().replace('"budget": "14"', '"budget": "14", "access": "board"')
    sidecar.write_text(said)
    assert "open/lighthouse.txt" in seen_in(copy, ANYBODY)
    monkeypatch.setattr(MiniLM, "_run", None)  # called by no step
    list(run(copy.config))
    assert copy.reopen().release_id == "release-000002"
    monkeypatch.undo()
    assert seen_in(copy, ANYBODY) == seen_with(()) - {"open/lighthouse.txt"}
    assert "open/lighthouse.txt" in seen_in(copy, Caller(frozenset({"board"})))


def test_a_bundle_carries_its_rules_until_the_importer_has_own_ones(corpus, tmp_path):
    bundle.export(corpus.workspace, "release-000001", tmp_path / "release.zip")
    there = tmp_path / "there"
    there.mkdir()
    content = bundle.minimal_config(tmp_path / "release.zip", "store")
    file = there / "tiny.yaml"
    file.write_text(yaml.safe_dump({"type": "rag_pipeline.RagPipeline", "attributes": content}))
    imported = Corpus.load(file)
    bundle.import_release(imported.workspace, tmp_path / "release.zip")
    hr = Caller(frozenset({"hr"}))
    assert seen_in(imported, ANYBODY) == seen_with(())
    assert seen_in(imported, hr) == seen_with({"hr"})
    opened = changed(imported, tmp_path / "opened", {"default": "public"})
    assert seen_in(opened, ANYBODY) == set(LABELS)


@pytest.mark.parametrize("by_server", [False, True])
def test_the_command_line_shows_what_labels_see(corpus, by_server, monkeypatch):
    with ExitStack() as running:
        # A socket's path has at most 107 bytes.
        short = running.enter_context(tempfile.TemporaryDirectory())
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        if by_server:
            settings = ServerSettings(port=free_port())
            app = build_app(open_assistant([corpus]), settings)
            sockets = running.enter_context(listening_to_user([corpus]))
            running.enter_context(Running(app, settings, sockets))
            running.enter_context(monkeypatch.context()).delattr(Corpus, "load")
        check_the_command_line(corpus)


def check_the_command_line(corpus):
    def sources(*more):
        asked = ("agreement", corpus.config.file, "-k", 100, "--json", *more)
        found = json.loads(said("search", *asked))
        return {chunk["document_id"] for chunk in found}

    assert sources() == sources("--as", "*") == set(LABELS)
    assert sources("--as", "public") == seen_with(())
    assert sources("--as", "hr, finance") == seen_with({"hr", "finance"})
    question = "How long does the periwinkle agreement last?"
    for labels, is_told in (("hr", False), ("board", True)):
        shown = said("ask", question, corpus.config.file, "--as", labels, "--trace")
        assert ("13 years" in shown) is is_told
