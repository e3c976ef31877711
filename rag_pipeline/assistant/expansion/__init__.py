"""Knowledge that grows: what a question lacks is looked for outside, kept, indexed and marked.

`sources` look outside, `kept` keeps what was found in a store of its own, `dataset` searches it
with the released configuration. The corpus, its evaluation and its leaderboard see none of it.
"""

from rag_pipeline.assistant.expansion.dataset import ExpandedDataset
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments, Kept, is_expanded
from rag_pipeline.assistant.expansion.sources import Outside, OutsideSource, open_source

__all__ = [
    "ExpandedDataset",
    "ExpandedDocuments",
    "Kept",
    "Outside",
    "OutsideSource",
    "is_expanded",
    "open_source",
]
