"""Say which files a search leaves out because they are unreadable or excluded."""

import re
from collections.abc import Sequence

from rag_pipeline.search.tokenization import default_tokenizer
from rag_pipeline.workspace import Workspace

UNREADABLE = "not searched, because unreadable: {0}"
EXCLUDED = "not searched, because excluded: {0}"


def not_searched(workspace: Workspace, query: str, is_found: bool) -> list[str]:
    """Return a sentence about the unreadable files, and if nothing is found, the excluded ones.

    A sentence names the 2 files or patterns whose names share most words with the query. If no name
    shares a word, the sentence is left out. If nothing is found, it then names at most 2 files, or
    gives their number.
    """
    unread = [
        row["document_id"] for row in workspace.quarantine("documents").read_rows(["document_id"])
    ]
    aside: dict[str, Sequence[str]] = {UNREADABLE: unread}
    if not is_found:
        aside[EXCLUDED] = workspace.config.documents.exclude
    asked, told = _words(query), []
    for sentence, names in aside.items():
        alike = {name: n for name in names if (n := len(asked & _words(name)))}
        best = sorted(alike or names, key=lambda name: (-alike.get(name, 0), name))[:2]
        if best and (alike or not is_found):
            is_few = alike or len(names) <= len(best)
            told.append(sentence.format(", ".join(best) if is_few else f"{len(names):,} files"))
    return told


def _words(text: str) -> frozenset[str]:
    return frozenset(default_tokenizer().tokenize(re.sub(r"[\W_]+", " ", text)))
