from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import Field

from rag_pipeline.config import Settings, load_config
from rag_pipeline.errors import InputError
from rag_pipeline.models.providers.fastembed_models import FastEmbedEmbedding
from rag_pipeline.models.providers.openai import OpenAIEmbedding
from rag_pipeline.models.providers.voyage import VoyageEmbedding
from rag_pipeline.release import bundle
from rag_pipeline.release.trust import foreign_settings
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.command_line import rag, said
from rag_pipeline_tests.testing.corpora import rule, write_corpus
from rag_pipeline_tests.testing.model_server import serving


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """Return a bundle whose embedding sends a variable of the importer to a server."""
    folder = tmp_path_factory.mktemp("evil")
    with serving() as server:
        yield server, exported(folder, server.url, "VICTIM_DB_PASSWORD")


def exported(folder, url, variable):
    file = corpus(folder, url, variable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, "of the attacker")
        for _ in run(load_config(file)):
            pass
    bundle.export(Workspace(load_config(file)), "release-000001", folder / "evil.zip")
    return folder / "evil.zip"


def corpus(folder, url, variable):
    remote = {"provider": "openai", "model": "m", "dimensions": 8, "base_url": url}
    return write_corpus(
        folder,
        embeddings={"remote": {**remote, "api_key_env": variable}},
        configurations=[rule("default", embedding="remote", retriever="dense")],
        serve="default",
    )


def test_a_bundle_cannot_choose_where_questions_and_keys_go(evil, tmp_path, monkeypatch):
    server, file = evil
    own = Workspace(load_config(write_corpus(tmp_path)))
    with pytest.raises(InputError, match="--trust-endpoints") as told:
        bundle.import_release(own, file)
    assert f"base_url {server.url}" in str(told.value)
    assert "api_key_env VICTIM_DB_PASSWORD" in str(told.value)
    assert not own.store.tables()
    assert bundle.foreign_endpoints(file, None) == bundle.foreign_endpoints(file, own.config)
    monkeypatch.setenv("RAG_ALLOWED_KEYS", "OTHER, VICTIM_DB_PASSWORD")
    assert all(
        "base_url" in line and "_env" not in line for line in bundle.foreign_endpoints(file, None)
    )
    assert bundle.import_release(own, file, trust_endpoints=True).release_id == "release-000001"


def test_what_the_own_corpus_file_names_together_is_trusted(evil, tmp_path):
    server, file = evil
    same = load_config(corpus(tmp_path, server.url, "VICTIM_DB_PASSWORD"))
    assert bundle.foreign_endpoints(file, same) == []
    apart = {
        "a": {"provider": "openai", "base_url": server.url, "model": "text-embedding-3-small"},
        "b": {"provider": "openai", "api_key_env": "VICTIM_DB_PASSWORD"},
    }
    one = [rule("default", embedding="a", retriever="dense")]
    own = load_config(write_corpus(tmp_path / "apart", embeddings=apart, configurations=one))
    assert bundle.foreign_endpoints(file, own)


def test_a_key_is_trusted_for_the_provider_and_address_that_the_own_file_gives_it(tmp_path):
    own = load_config(corpus(tmp_path, "https://intern.example/v1", "INTERN_KEY"))
    openai = {"provider": "openai", "model": "m", "dimensions": 8}
    keyed, at = {"api_key_env": "INTERN_KEY"}, {"base_url": "https://intern.example/v1"}
    cases = [
        (OpenAIEmbedding(**openai, **keyed, **at), []),
        (OpenAIEmbedding(**openai), []),
        (OpenAIEmbedding(**openai, **keyed), ["x: api_key_env INTERN_KEY"]),
        (OpenAIEmbedding(**openai, **at), ["x: base_url https://intern.example/v1"]),
        (VoyageEmbedding(provider="voyage", **keyed), ["x: api_key_env INTERN_KEY"]),
        (
            VoyageEmbedding(provider="voyage", **keyed, **at),
            ["x: base_url https://intern.example/v1, api_key_env INTERN_KEY"],
        ),
    ]
    for made, lines in cases:
        assert foreign_settings({"x": made}, dict(own)) == lines


class Place(Settings):
    """A part of the settings of a plugin."""

    provider: str = "plugin"
    endpoint: str | None = None
    token_env: str = "PLUGIN_KEY"


class Plugin(Settings):
    """Settings that a plugin may have."""

    method: str = "plugin"
    first: Place = Place()
    second: Place = Place()
    servers: Mapping[str, str] = Field(default={})
    mirrors: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    weights: str = ""
    cache: Path = Path("cache")
    template: str = ""
    separators: tuple[str, ...] = ("\n\n", ". ")


@pytest.mark.parametrize(
    ("foreign", "named"),
    [
        (OpenAIEmbedding(provider="openai", tokenizer="/dev/zero"), "tokenizer /dev/zero"),
        (FastEmbedEmbedding(provider="fastembed", model_file="../a.onnx"), "model_file ../a.onnx"),
        (Plugin(command=("sh", "-c", "id")), "command sh -c id"),
        (Plugin(weights="~/.ssh/id_rsa"), "weights ~/.ssh/id_rsa"),
        (Plugin(cache=Path("/etc")), "cache /etc"),
        (Plugin(servers={"eu": "evil.example:443"}), "servers.eu evil.example:443"),
        (Plugin(mirrors=("b", "https://evil.example")), "mirrors b https://evil.example"),
        (Plugin(template="Answer from {passages} / {query}", separators=("\n", "/ ")), None),
        (OpenAIEmbedding(provider="openai", model="BAAI/bge-small"), None),
    ],
)
def test_every_path_and_command_needs_trust(foreign, named):
    assert foreign_settings({"x": foreign}, {}) == ([f"x: {named}"] if named else [])


def test_values_of_inner_models_are_trusted_together():
    def plugin(*places):
        first, second = (Place(endpoint=f"{where}:1", token_env=key) for where, key in places)
        return {"x": Plugin(first=first, second=second)}

    own = plugin(("a", "A_KEY"), ("b", "B_KEY"))
    assert foreign_settings(plugin(("a", "A_KEY"), ("b", "B_KEY")), own) == []
    assert foreign_settings(plugin(("a", "A_KEY"), ("a", "A_KEY")), own) != []
    other = {"x": Plugin(first=Place(provider="another", token_env="A_KEY"))}
    mine = {"x": Plugin(first=Place(token_env="A_KEY"))}
    assert foreign_settings(mine, mine) == []
    assert foreign_settings(other, mine) == ["x: first.token_env A_KEY"]
    split = {"x": Plugin(first=Place(endpoint="a:1"), second=Place(token_env="A_KEY"))}
    assert foreign_settings(split, own)[0] == "x: first.endpoint a:1, second.token_env A_KEY"


def test_a_bundle_of_packaged_models_needs_no_trust(tmp_path, run_all):
    file = write_corpus(tmp_path, serve="default")
    run_all(file)
    bundle.export(Workspace(load_config(file)), "release-000001", tmp_path / "r.zip")
    assert bundle.foreign_endpoints(tmp_path / "r.zip", None) == []


def test_a_corpus_file_that_is_named_must_exist(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = rag("import-release", evil[1], "other.yaml", "--trust-endpoints")
    assert refused.code == 2
    assert "cannot read the corpus file" in refused.err
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_nothing_before_the_endpoints_are_trusted(evil, tmp_path, monkeypatch):
    server, file = evil
    monkeypatch.chdir(tmp_path)
    refused = rag("import-release", file)
    assert refused.code == 2
    assert f"base_url {server.url}" in refused.err
    assert list(tmp_path.iterdir()) == []
    assert f"base_url {server.url}" in said("import-release", file, "--trust-endpoints")
    served = said("import-release", file)
    assert served.startswith("serving release-000001, here release-000002"), "in the own file"
