"""Documents from outside the corpus: found for a question, kept, indexed and marked.

`sources` look outside, `kept` keeps the found documents in a store of their own, `corpus` searches
them with the released configuration. The corpus, its evaluation and its leaderboard ignore them.
"""

from rag_pipeline.assistant.expansion.corpus import ExpandedCorpus as ExpandedCorpus
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments as ExpandedDocuments
from rag_pipeline.assistant.expansion.kept import Kept as Kept
from rag_pipeline.assistant.expansion.kept import is_expanded as is_expanded
from rag_pipeline.assistant.expansion.sources import Outside as Outside
from rag_pipeline.assistant.expansion.sources import OutsideSource as OutsideSource
from rag_pipeline.assistant.expansion.sources import open_source as open_source
