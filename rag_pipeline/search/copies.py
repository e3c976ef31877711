"""Find documents with the same text. The index holds one of them, and citations name all."""

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa

from rag_pipeline.search.standing import is_marked
from rag_pipeline.search.vector_index import reading
from rag_pipeline.search.views import document_labels
from rag_pipeline.store.lance import id_filter
from rag_pipeline.workspace import Workspace

Copies = Mapping[str, str]
"""The id of the indexed document, by the id of each copy."""
_ASIDE = frozenset({"backup", "backups", "bak", "sicherung", "tmp", "temp"})
"""Names of folders for backups and temporary files. The index prefers copies in other folders."""
_OF_CHUNKS = ("`chunk_id`", "`context`", "`start`", "`end`")


def find_copies(workspace: Workspace, version: int | None = None) -> Copies:
    """Return the copies in a version of the documents table, by default in the newest version.

    Copies have the same text and the same readers. The index holds one document of each group. Ids
    with a word such as `draft` or a folder such as `backup` come last. Among the other ids, ids
    with fewer folders come first, then shorter ids. Return {} if there is no table.
    """
    documents = workspace.documents()
    if not documents.exists():
        return {}
    table = documents.dataset(version)
    key = documents.identity, int(table.version)
    if workspace.copies[0] != key:
        with reading(table):
            rows = table.to_table(["document_id", "text_hash"])
        workspace.copies = key, _found(workspace, rows, key[1])
    return workspace.copies[1]


def _found(workspace: Workspace, rows: pa.Table, version: int) -> Copies:
    import pyarrow.compute as pc  # slow to import

    counts = rows.group_by("text_hash").aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))["text_hash"]
    alike = rows.filter(pc.is_in(rows["text_hash"], value_set=repeated.combine_chunks()))
    access, ids = workspace.config.access, alike["document_id"].to_pylist()
    readers = document_labels(workspace, access, version, ids) if access and ids else {}
    groups: defaultdict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for row in alike.to_pylist():
        document_id = row["document_id"]
        groups[row["text_hash"], readers.get(document_id, frozenset())].append(document_id)
    copies = {}
    for group in groups.values():
        first, *others = sorted(group, key=_order)
        copies.update(dict.fromkeys(others, first))
    return copies


def _order(document_id: str) -> tuple[bool, int, int, str]:
    *folders, _ = document_id.lower().split("/")
    is_aside = is_marked(document_id) or not _ASIDE.isdisjoint(folders)
    return is_aside, len(folders), len(document_id), document_id


def copies_matching(workspace: Workspace, version: int, copies: Copies, where: str) -> set[str]:
    """Return the ids of the copies that match a filter in LanceDB's SQL.

    A copy has no chunks, so a filter with a column of chunks, such as `start`, matches no copy.
    """
    if any(column in where for column in _OF_CHUNKS):
        return set()
    condition = f"({where}) AND {id_filter('document_id', copies)}"
    table = workspace.documents().dataset(version)
    try:
        return set(table.to_table(["document_id"], condition).column("document_id").to_pylist())
    except (RuntimeError, ValueError, OSError):  # the filter fails on a value of a copy
        return set()
