"""A corpus with labels on documents, each with a word that no other document has."""

import json
import random
from collections.abc import Collection, Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from rag_pipeline import Corpus
from rag_pipeline.datamodels import Caller
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    question,
    rule,
    write_documents,
    write_file,
    write_questions,
)

ACCESS = {
    "default": "public",
    "metadata": "access",
    "rules": [
        {"match": "hr/**", "labels": ["hr"]},
        {"match": ["legal/**", "board/legal.txt"], "labels": ["legal", "board"]},
        {"match": "drafts/**", "labels": []},
    ],
}
LABELS: dict[str, tuple[str, set[str]]] = {
    "hr/zanzibar.txt": ("zanzibar", {"hr"}),
    "hr/pay/quillfeather.txt": ("quillfeather", {"hr"}),
    "hr/open/marmalade.md": ("marmalade", {"hr"}),  # says that it is public
    "legal/obsidian.txt": ("obsidian", {"legal", "board"}),
    "board/legal.txt": ("thistledown", {"legal", "board"}),
    "board/periwinkle.txt": ("periwinkle", {"board"}),  # by the sidecar
    "drafts/wolverine.txt": ("wolverine", set()),
    "notes/saffron.md": ("saffron", {"hr", "finance"}),  # by its own metadata
    "notes/cinnabar.md": ("cinnabar", set()),  # its metadata cannot be read
    "open/lighthouse.txt": ("lighthouse", {"public"}),
    "open/nutmeg.txt": ("nutmeg", {"public"}),
    "open/clarinet.md": ("clarinet", {"public"}),
}
"""The one word and the labels of each document. The word is part of its text, title and id."""
HEADS = {
    "hr/open/marmalade.md": "---\naccess: public\n---\n",
    "notes/saffron.md": "---\naccess: hr, finance\n---\n",
    "notes/cinnabar.md": '---\naccess: "[finance"\n---\n',
}
SIDECAR: list[dict[str, Any]] = [
    {"document_id": "board/periwinkle.txt", "access": ["board"], "budget": "periwinkle"},
    {"document_id": "open/nutmeg.txt", "access": "", "budget": "12"},
    {"document_id": "open/lighthouse.txt", "budget": "14"},
]
GROUPS = ("hr", "legal", "board", "finance")


def text_of(document_id: str, word: str) -> str:
    number = 3 + len(word)
    return (
        f"{HEADS.get(document_id, '')}# The {word} agreement\n\n"
        f"The {word} agreement lasts for {number} years from its date. Its notice period is "
        f"{number + 4} weeks.\n\n"
        f"A deposit of {number * 100} euros is paid under the agreement. The word of this house "
        f"is {word}, and {word} means a binding promise.\n"
    )


def seen_with(labels: Iterable[str]) -> set[str]:
    """Return the ids of the documents that a caller with these labels may see."""
    held = {"public", *labels}
    return {document for document, (_, needed) in LABELS.items() if needed & held}


def write_labelled(folder: Path, documents: Collection[str], **changes: Any) -> Path:
    """Write these documents with sidecar, questions and corpus file; return the file."""
    texts = {d: text_of(d, word) for d, (word, _) in LABELS.items() if d in documents}
    write_documents(folder / "documents", texts)
    lines = [json.dumps(line) for line in SIDECAR if line["document_id"] in documents]
    (folder / "about.jsonl").write_text("\n".join(lines))
    write_questions(
        folder,
        [
            {
                **question(
                    d, f"How long does the {w} agreement last?", d, f"The {w} agreement lasts"
                ),
                "synthetic": True,
                "answer": w,
            }
            for d, (w, _) in LABELS.items()
            if d in documents
        ],
    )
    settings: dict[str, Any] = {
        "documents": {"path": "documents", "metadata": "about.jsonl"},
        "chunkings": {"recursive_150": {"method": "recursive", "max_characters": 150}},
        "embeddings": {"minilm": {"provider": "minilm", "token_vectors": True}},
        "retrievers": {
            "staged": {
                "method": "context_aware",
                "over": {"method": "hybrid", "document_weight": 0.3, "split_query": True},
                "k": 20,
            }
        },
        "rerankers": {"maxsim": {"method": "maxsim"}},
        "configurations": [
            rule("served", contextualizer="structural", retriever="staged", reranker="maxsim")
        ],
    }
    return write_file(folder, **{**settings, "access": ACCESS, **changes})


def labelled_corpus(
    folder: Path, documents: Collection[str] = tuple(LABELS), **changes: Any
) -> Corpus:
    """Return a corpus of these documents with a release."""
    corpus = Corpus.load(write_labelled(folder, documents, **changes))
    list(run(corpus.config))
    return corpus


def random_caller(rng: random.Random) -> tuple[Caller, frozenset[str]]:
    """Return a caller and its labels. Some labels are of no document."""
    labels = frozenset(rng.sample([*GROUPS, "sales", "hr2", "*"], rng.randint(0, 3)))
    return Caller(labels), labels


def random_question(rng: random.Random, document_id: str) -> str:
    """Return a question about a document, with its word as it is or misspelt, or about all."""
    word = LABELS[document_id][0]
    wrong = word[:3] + word[4] + word[3] + word[5:]
    return rng.choice(
        [
            f"How long does the {word} agreement last?",
            f"What is {word}?",
            f'How long does it last, according to "{word}"?',
            f"{wrong} agreement: what is the notice period?",
            f"Consider the {word} agreement; how large is the deposit?",
            word,
            "How long do the agreements last?",
            "Compare the notice periods of all agreements",
            "List every deposit that is paid",
            "What does a promise mean?",
            document_id,
        ]
    )


def plain(value: Any) -> Any:
    """Return a result as plain values: scores to six digits, no times, no name of a release.

    The questions of a corpus are left out, because a corpus to compare with has none.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = {f: v for f, v in asdict(value).items() if f not in ("trace", "token_weights")}
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        leave = ("latency_ms", "milliseconds", "questions", "released", "seconds", "token_signs")
        return {str(k): plain(v) for k, v in value.items() if k not in leave}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value
