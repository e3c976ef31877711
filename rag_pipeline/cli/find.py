"""Which corpus file a command means when it is named by name, or not at all."""

from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.config import COMPONENT_TYPE, load_config
from rag_pipeline.errors import ConfigError, RagPipelineError


def find_corpus_file(wanted: str | None) -> Path:
    """Return the corpus file of this path or name; the only one there is if none is given.

    Looks at `*.yaml` in the working directory and at `rag_pipeline/defs/*/defs.yaml` below it.
    """
    if wanted and Path(wanted).suffix in (".yaml", ".yml"):
        return Path(wanted)
    found = dict(_corpora())
    if wanted:
        named = [file for file, name in found.items() if name == wanted]
        if len(named) == 1:
            return named[0]
        known = ", ".join(f"{name} ({file})" for file, name in found.items()) or "none"
        raise ConfigError(f"no single corpus is called {wanted!r}; found here: {known}")
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise ConfigError(
            f"no corpus file below {Path.cwd()}; name one with --corpus FILE, or make one with: "
            f"rag init NAME --documents DIR"
        )
    known = ", ".join(f"{name} ({file})" for file, name in found.items())
    raise ConfigError(f"which corpus? name one with --corpus: {known}")


def _corpora() -> Iterator[tuple[Path, str]]:
    here = Path.cwd()
    for file in sorted([*here.glob("*.yaml"), *here.glob("rag_pipeline/defs/*/defs.yaml")]):
        try:
            if COMPONENT_TYPE in file.read_text(encoding="utf-8"):
                yield file, load_config(file).corpus
        except (OSError, UnicodeDecodeError, RagPipelineError):
            continue
