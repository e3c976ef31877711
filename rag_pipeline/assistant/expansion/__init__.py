"""Find documents outside the corpus for a question, and keep, index and search these documents.

`sources` searches outside. `kept` stores the found documents in a separate store. `corpus` searches
them with the released configuration. The corpus, its evaluation and its leaderboard ignore them.
"""

from rag_pipeline.assistant.expansion.corpus import ExpandedCorpus as ExpandedCorpus
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments as ExpandedDocuments
