"""The wheel works where there is no checkout: command line, sample corpus, Dagster definitions.

Its demo answers questions of the README without a model.
"""

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, open_assistant
from rag_pipeline_tests.testing.checkout import ROOT, copy_of_checkout
from rag_pipeline_tests.testing.guides import blocks, prints

PARTS = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "constraints.txt", "README.md", "LICENSE"),
    *("rag_pipeline", "data"),
)
HALVORSK = "agreements/nda/halvorsk-brennwater-mutual-nda-2023.md"
KESTREL = "agreements/leases/Kestrel House Level 3 Lease.docx"
EMPLOYED = (
    "agreements/employment/Marchetti_Employment_Agreement.docx",
    "agreements/employment/okonjo-reyes-contract.pdf",
    "agreements/employment/lindqvar-contract-2022.txt",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a source archive, unpacked, that is built of this checkout's files."""
    folder = tmp_path_factory.mktemp("source")
    copy_of_checkout(folder, *PARTS)
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist('dist')"
    subprocess.run([sys.executable, "-c", build], check=True, capture_output=True, cwd=folder)
    (archive,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """Return a wheel that is built of the source archive, without a network."""
    folder = source
    # A table that was built must not be packed with the documents.
    (folder / "data/store").mkdir()
    (folder / "data/store/built").touch()
    offline = ("--no-deps", "--no-build-isolation", "--quiet")
    pip = (sys.executable, "-m", "pip", "wheel", *offline, "-w", str(folder / "dist"), str(folder))
    subprocess.run(pip, check=True, capture_output=True, cwd=folder)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of a new environment with the wheel; the rest is this environment's."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # After the wheel's own folder, and without the checkout that this environment may point to.
    shared = [entry for entry in sys.path if "site-packages" in entry]
    (site / "shared.pth").write_text("\n".join(shared) + "\n")
    script = folder / "bin" / "rag"
    script.write_text(f"#!{folder / 'bin' / 'python'}\nfrom rag_pipeline.cli import main\nmain()\n")
    script.chmod(0o755)
    return script.parent


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """Run a program of the new environment in a folder; return what it prints."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "RAG_CORPUS", "DAGSTER_HOME", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [str(installed / arguments[0]), *arguments[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_holds_the_sample_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    documents = {
        f"rag_pipeline/sample/documents/{path.relative_to(ROOT / 'data/documents').as_posix()}"
        for path in (ROOT / "data/documents").rglob("*")
        if path.is_file()
    }
    assert documents < names
    assert "rag_pipeline/sample/queries.jsonl" in names
    assert "rag_pipeline/py.typed" in names
    assert not [name for name in names if "store/built" in name or "_tests" in name]
    assert {name.split("/")[0] for name in names} == {
        "rag_pipeline",
        next(name.split("/")[0] for name in names if ".dist-info/" in name),
    }


def test_a_corpus_of_an_empty_folder_is_one_of_dagster(installed: Path, tmp_path: Path) -> None:
    where = run(installed, tmp_path, "python", "-c", "import rag_pipeline as r; print(r.__file__)")
    assert where.startswith(str(installed.parent)), "not the checkout"
    version = run(installed, tmp_path, "rag", "--version").split()
    assert version[0] == "rag_pipeline"
    assert list(tmp_path.iterdir()) == []

    Path(tmp_path, "documents").mkdir()
    Path(tmp_path, "documents/leave.md").write_text("# Leave\n\nA doctor's note is needed.\n")
    run(installed, tmp_path, "rag", "init", "mine", "--documents", "documents")
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["documents", "mine.yaml", "rag-store"]

    code = (
        "from rag_pipeline.definitions import defs; "
        "print(sorted({key.path[0] for key in defs().resolve_all_asset_keys()}))"
    )
    assert "['mine']" in run(installed, tmp_path, "python", "-c", code)


@pytest.fixture(scope="module")
def demo(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder where the demo was made, and what it showed."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run(installed, folder, "rag", "demo", "a demo")


@pytest.mark.long
def test_the_demo(demo: tuple[Path, str]) -> None:
    folder, shown = demo
    assert [path.name for path in folder.iterdir()] == ["a demo"]
    assert "default" in shown
    asked = shown.partition("Next:")[0].rpartition(" ask ")[2]
    assert "halvorsk" in asked.lower()
    assert "[1]" in asked, "an answer with its source"


@pytest.mark.long
def test_the_readme_shows_what_the_sample_answers(installed: Path, demo: tuple[Path, str]) -> None:
    asked = [b for b in blocks([ROOT / "README.md"]) if "rag ask" in b.text and "sample" in b.text]
    (block,) = asked
    for line in (one for one in block.lines if one.startswith("rag ")):
        arguments = shlex.split(line, comments=True)
        printed = run(installed, demo[0] / "a demo", "rag", *arguments[1:])
    assert prints(block.output, printed), printed
    assert (demo[0] / "a demo" / "sample.html").is_file()


ONLY = """
import json, sys
from pathlib import Path

class Refuse:
    blocked = set(json.loads(Path("blocked.json").read_text()))

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from rag_pipeline.cli import main
main()
"""


def _with_requirements(names: set[NormalizedName]) -> set[NormalizedName]:
    """Return the normalized names of these distributions and of all that they require."""
    found: set[NormalizedName] = set()
    while names:
        found |= names
        required = [Requirement(r) for n in names for r in importlib.metadata.requires(n) or ()]
        needed = [r for r in required if r.marker is None or r.marker.evaluate({"extra": ""})]
        names = {canonicalize_name(r.name) for r in needed} - found
    return found


@pytest.mark.long
def test_a_bundle_is_served_with_the_packages_for_searching_alone(
    installed: Path, demo: tuple[Path, str], tmp_path: Path
) -> None:
    lines = (ROOT / "deploy/search.txt").read_text().splitlines()
    names = {canonicalize_name(line) for line in lines if not line.startswith("#")}
    allowed = _with_requirements(names) | {canonicalize_name("rag_pipeline")}
    owners = importlib.metadata.packages_distributions()
    blocked = [m for m, own in owners.items() if not allowed & {canonicalize_name(o) for o in own}]
    assert {"dagster", "pandas", "scipy", "openai", "great_expectations"} < set(blocked)
    (tmp_path / "blocked.json").write_text(json.dumps(blocked))
    bundle, corpus = str(tmp_path / "b.zip"), "a demo/sample.yaml"
    run(installed, demo[0], "rag", "export", "current", bundle, corpus)

    only = ("python", "-c", ONLY)
    run(installed, tmp_path, *only, "import-release", bundle)
    answer = run(installed, tmp_path, *only, "ask", "How long does confidentiality last?", "sample")
    assert "[1]" in answer
    with pytest.raises(AssertionError, match="error: dagster is missing; install all"):
        run(installed, tmp_path, *only, "run", "sample")


@pytest.fixture(scope="module")
def assistant(demo: tuple[Path, str]) -> Assistant:
    return open_assistant([Corpus.load(demo[0] / "a demo" / "sample.yaml")])


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "document_id", "words"),
    [
        (
            "How long does confidentiality last under the Halvorsk NDA?",
            HALVORSK,
            "The obligations of confidence survive for three (3) years after expiry or termination",
        ),
        (
            "What is the monthly rent for Level 3 of Kestrel House?",
            KESTREL,
            "Base rent is USD 31,250 a month",
        ),
        (
            "What notice period does Tessavine's Head of Clinical Data owe?",
            EMPLOYED[2],
            "two (2) months’ written notice",
        ),
        (
            "Can the tenant of Kestrel House end the lease early?",
            KESTREL,
            "The Tenant may end this Lease at any time after the forty-eighth (48th) month",
        ),
    ],
)
def test_the_sentence_that_says_it_is_quoted(
    assistant: Assistant, question: str, document_id: str, words: str
) -> None:
    made = assistant.ask(question)
    assert made.answered
    assert len(made.sources) <= 3
    assert all(source.verified for source in made.sources)
    quoted = [s for s in made.sources if words in " ".join(s.text.split())]
    assert [s.document_id for s in quoted] == [document_id]


@pytest.mark.long
def test_notice_periods_are_compared_a_row_a_document(assistant: Assistant) -> None:
    made = assistant.ask("Compare the notice periods of the employment agreements.")
    said = {row.document_id: row.text for row in made.table}
    assert "thirty (30) days" in said[EMPLOYED[0]]
    assert "three (3) months" in said[EMPLOYED[1]]
    assert "two (2) months" in said[EMPLOYED[2]]
