"""Knowledge that grows: what a question lacks is looked for outside, kept, indexed and marked.

`sources` look outside, `kept` keeps what was found in a store of its own, `dataset` searches it
with the released configuration. The corpus, its evaluation and its leaderboard see none of it.
"""

from rag_pipeline.assistant.expansion.dataset import ExpandedDataset as ExpandedDataset
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments as ExpandedDocuments
from rag_pipeline.assistant.expansion.kept import Kept as Kept
from rag_pipeline.assistant.expansion.kept import is_expanded as is_expanded
from rag_pipeline.assistant.expansion.sources import Outside as Outside
from rag_pipeline.assistant.expansion.sources import OutsideSource as OutsideSource
from rag_pipeline.assistant.expansion.sources import open_source as open_source
