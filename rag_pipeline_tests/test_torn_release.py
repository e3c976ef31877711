"""A file of a released store is gone, cut or full of garbage: a search works or says so clearly."""

from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import RagPipelineError, StoreError
from rag_pipeline.serving.tools import health_of
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import copy_corpus, write_corpus

DAMAGES = {
    "gone": None,
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "garbage": lambda content: bytes((byte + 77) % 256 for byte in content),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = write_corpus(tmp_path_factory.mktemp("built"), serve="default")
    assert rag("run", file, "--quiet").code == 0
    return file


def _damage(file: Path, damage: str) -> None:
    change = DAMAGES[damage]
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    copy_corpus(built.parent, tmp_path)
    return tmp_path / built.name


def _vectors(file: Path) -> Path:
    (data,) = file.parent.glob("store/tiny/tables/vector_index*structural*/data/*.lance")
    return data


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_damaged_vector_table_is_named_with_what_to_do(copy, damage):
    _damage(_vectors(copy), damage)
    with pytest.raises(
        StoreError, match=r"vector_index\.recursive_150\.structural\.minilm, ver"
    ) as e:
        Corpus(load_config(copy)).search("How long is the notice?")
    assert "`rag doctor --full --repair` and `rag run` repair it" in str(e.value)


def test_the_advice_of_the_message_mends_the_table(copy):
    _damage(_vectors(copy), "garbage")
    assert rag("doctor", "--full", "--repair", "-c", copy).code == 0
    assert rag("run", copy, "--quiet").code == 0
    assert Corpus(load_config(copy)).search("How long is the notice?")


def test_a_file_damaged_during_searches_is_reported(copy):
    corpus = Corpus(load_config(copy))
    assert corpus.search("How long is the notice?")
    _vectors(copy).write_bytes(b"")
    with pytest.raises(StoreError, match="cannot search"):
        corpus.search("Who pays for repairs?")


def test_no_damaged_file_breaks_a_search_or_the_board(copy):
    """Each file by one damage, and each kind of file by several: there are many of a kind."""
    files = [
        path
        for path in sorted((copy.parent / "store" / "tiny").rglob("*"))
        if path.is_file() and "none" not in path.as_posix()
    ]
    assert len(files) > 50
    config = load_config(copy)
    told = 0
    for path, damage in zip(files, cycle(DAMAGES), strict=False):
        before = path.read_bytes()
        _damage(path, damage)
        corpus = Corpus(config)
        for ask in (partial(corpus.search, "notice", k=3), corpus.board):
            try:
                ask()
            except RagPipelineError:
                told += 1
        path.write_bytes(before)
    assert told > 10


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("current.json", "half"),
        ("current.json", b"[1]"),
        ("current.json", b"[" * 200_000),
        ("release-000001.json", b"[" * 200_000),
        ("current.json", b'{"release_id": 7}'),
        ("current.json", b'{"rolled_back": "2026-01-01"}'),
        ("release-000001.json", "gone"),
    ],
)
def test_a_torn_pointer_or_manifest_stops_no_open_release(copy, caplog, file, damage):
    assistant = open_assistant([Corpus.load(copy)])
    (dataset,) = assistant.corpora.values()
    assert isinstance(dataset, ReleasedCorpus)
    found = dataset.corpus.search("How long is the notice?")
    torn = copy.parent / "store/tiny/releases" / file
    before = torn.read_bytes()
    torn.write_bytes(damage) if isinstance(damage, bytes) else _damage(torn, damage)
    assert dataset.corpus.search("How long is the notice?") == found
    assert assistant.ask("How long is the notice?").answered
    health = health_of(assistant)
    assert health.status == "degraded"
    assert health.datasets[0]["release"] == "release-000001"
    assert "searches stay with release-000001" in health.datasets[0]["error"]
    torn.write_bytes(before)
    assert health_of(assistant).status == "ok"
