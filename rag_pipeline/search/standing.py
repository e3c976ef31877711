"""Recognize drafts, copies, old versions, superseded and amended documents by their names."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from rag_pipeline.datamodels import Document, ScoredChunk

_WORD = re.compile(r"[^\W_]+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_NAMED_VERSION = re.compile(r"(?:v|ver|version|rev|revision)\d{1,3}", re.I)
_KINDS = {
    "superseded": "superseded obsolete outdated replaced withdrawn deprecated invalid expired old "
    "archive archived veraltet ersetzt überholt ungültig alt abgelöst archiv obsolète remplacé "
    "ancien obsoleto sustituido antiguo superato vervallen",
    "draft": "draft drafts entwurf entwürfe brouillon borrador bozza",
    "copy": "copy kopie copie copia",
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_FINAL = frozenset("final signed endgültig endfassung unterzeichnet définitif definitivo".split())
"""Words after a name that mark a document in force, such as `guide_final`."""
_AMENDING = frozenset(
    "amendment amendments amending addendum addenda corrigendum erratum rider nachtrag änderung "
    "änderungsvertrag änderungsvereinbarung ergänzung ergänzungsvereinbarung zusatzvereinbarung "
    "avenant adenda enmienda".split()
)
_SMALL_WORDS = frozenset(
    "the a an of to no nr and for between der die das des dem zu zum zur und vom von für "
    "au à la le les de du et n el los y".split()
)
_ASKS_FOR_OLD = _KIND_OF.keys() | frozenset(
    "original originally ursprünglich ursprüngliche ursprünglichen previous previously former "
    "formerly earlier before past version versions history historical "
    "früher frühere früheren vorher vorherige vorherigen alte alten alter damals précédent "
    "précédente anterior anteriores".split()
)
_NOT_OLD = re.compile(
    r"(?i)\b(?:(?:how|years?|months?|weeks?|days?)[ -]old|"
    r"(?:wie|jahren?|monate?|wochen?|tage?) alt|(?:earlier|früher) (?:than|als)|"
    r"(?:copy|copie|copia|kopie)|(?<!than )before(?!\W*$)|"
    r"vorher(?!\W*$)|(?:is|are|was|were|be|been|gets?|has|have|had|wird|werden|wurden?|ist|sind|est|"
    r"sont) (?:\w+ ){0,3}(?:replaced|expired|withdrawn|archived|invalid|ersetzt|abgelöst|ungültig|"
    r"remplacé))\b"
)
"""Other uses of these words, such as "how old", "two days before the start" and "is replaced"."""


class _Name(NamedTuple):
    folders: tuple[str, ...]
    words: tuple[str, ...]
    """The words of the file name without its suffix, kinds, years, versions and `_FINAL`."""
    marks: tuple[str, ...]
    """The years and versions of the file name."""
    kind: str | None
    """The kind that the file name names."""
    in_folder: str | None
    """The kind that the folders name."""


def standings(document_ids: Iterable[str]) -> dict[str, str]:
    """Map the ids of documents that may not be in force to the reason, such as `draft`.

    A document is an old version if its folder has the same name with a later version or year. A
    later draft does not count. A name with a full date belongs to a series and has no versions. A
    document in a folder such as `archive` is superseded only if a document elsewhere has the same
    name.
    """
    found: dict[str, str] = {}
    names = set[tuple[str, ...]]()
    in_folders: list[tuple[str, tuple[str, ...]]] = []
    versions: defaultdict[tuple[object, ...], list[tuple[tuple[int, ...], str]]]
    versions = defaultdict(list)
    for document_id in document_ids:
        folders, words, marks, kind, in_folder = _parts(document_id)
        if kind := kind or (in_folder if in_folder != "superseded" else None):
            found[document_id] = kind
        elif in_folder:
            in_folders.append((document_id, words))
        else:
            names.add(words)
        if marks and words and not any(map(str.isdigit, words)):
            value = tuple(int(re.sub(r"\D", "", mark)) for mark in marks)
            are_years = tuple(_YEAR.fullmatch(mark) is not None for mark in marks)
            versions[folders, are_years, words].append((value, document_id))
    found.update((d, "superseded") for d, words in in_folders if words in names)
    for group in versions.values():
        latest = max((value for value, d in group if d not in found), default=())
        for value, document_id in group:
            if value < latest:
                found.setdefault(document_id, "old version")
    return found


def not_in_force(document_ids: Collection[str]) -> dict[str, str]:
    """Map the ids of superseded and replaced documents, and of drafts, to the reason."""
    replaced = lost("", document_ids)
    return {
        d: kind
        for d, kind in standings(document_ids).items()
        if d in replaced or kind == "superseded" or _parts(d).kind == "draft"
    }


def is_marked(document_id: str) -> bool:
    """Return whether an id has a word for a draft, a superseded document or a copy."""
    parts = _parts(document_id)
    return (parts.kind or parts.in_folder) is not None


def are_versions(one: str, other: str) -> bool:
    """Return whether two file names differ only in years, versions and words such as `draft`."""
    return _parts(one).words == _parts(other).words


def lost(question: str, document_ids: Collection[str]) -> dict[str, str]:
    """Map the ids of replaced documents to the ids of the documents that replace them.

    Both ids are among `document_ids`. Their file names differ only in years, versions and words
    such as `draft`. Documents that the question asks for (`asks_for`) are left out. A year does not
    ask for a draft or a copy if an issued version has the same year.
    """
    standing = standings(document_ids)
    holding = {_parts(d).words: d for d in sorted(document_ids) if d not in standing}
    names = (_parts(d) for d in document_ids if not is_marked(d))
    issued = {(name.words, mark) for name in names for mark in name.marks}

    def is_asked(d: str) -> bool:
        words, marks = _parts(d).words, _parts(d).marks
        has_issued = any(_YEAR.fullmatch(m) and (words, m) in issued for m in marks)
        return asks_for(_YEAR.sub("", question) if has_issued and is_marked(d) else question, d)

    return {
        d: other
        for d in sorted(standing)
        if (other := holding.get(_parts(d).words)) and not is_asked(d)
    }


def in_force(question: str, chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Return the chunks of documents that no other document of these chunks replaces."""
    outdated = lost(question, {chunk.document_id for chunk in chunks})
    return [chunk for chunk in chunks if chunk.document_id not in outdated]


def asks_for(question: str, document_id: str) -> bool:
    """Return whether a question asks for old documents, drafts or copies.

    Also return True if the question names several years, or a year or version of the id.
    """
    words = _words_of(question)
    named = {*_YEAR.findall(document_id), *_parts(document_id).marks}
    years = [word for word in words if _YEAR.fullmatch(word)]
    return len(years) > 1 or not words.isdisjoint(_ASKS_FOR_OLD | named)


def amendments(
    chunks: Iterable[ScoredChunk | Document], are_all: bool = False
) -> dict[str, set[str]]:
    """Map the ids of amended documents of `chunks` to the ids of the documents that amend them.

    The name or title of an amending document contains a word such as `amendment` and the name or
    title of the amended document. For example, `Amendment 1 Lease.docx` amends `Lease.pdf`. If
    `chunks` are all documents of a corpus (`are_all`), it also amends `Lease Unit 5.pdf`, unless
    another document in its folder is called a lease.
    """
    titles = {chunk.document_id: chunk.title for chunk in chunks}
    names = {d: _naming(d.rpartition("/")[2].rpartition(".")[0]) for d in titles}
    headed = {d: _naming(title) for d, title in titles.items()}
    amending = {d for d in titles if not _AMENDING.isdisjoint(names[d] | headed[d])}
    found: dict[str, set[str]] = {}
    for one in amending:
        name, whole = names[one] - _AMENDING, (names[one] | headed[one]) - _AMENDING
        for base in titles.keys() - amending:
            its_name, its_title = names[base], headed[base]
            pairs = ((its_name, whole), (its_title, whole), (name, its_name | its_title))
            if name == its_name or any(len(a) > 1 and a <= b for a, b in pairs):
                found.setdefault(base, set()).add(one)
        if are_all and len(name) == 1 and not any(one in others for others in found.values()):
            folder = one.rpartition("/")[0]
            beside = [d for d in titles.keys() - amending if d.rpartition("/")[0] == folder]
            called = [d for d in beside if name <= names[d] | headed[d]]
            if len(called) == 1:
                found.setdefault(called[0], set()).add(one)
    return found


def _naming(name: str) -> frozenset[str]:
    words = frozenset(word.lower() for word in _WORD.findall(unquote(name)))
    return frozenset(w for w in words - _SMALL_WORDS if not w.isdigit())


@lru_cache(maxsize=64)
def _words_of(question: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(_NOT_OLD.sub(" ", question)))


@lru_cache(maxsize=10_000)
def _parts(document_id: str) -> _Name:
    folder, _, file = unquote(document_id).lower().rpartition("/")
    folders, words = _WORD.findall(folder), _WORD.findall(file.rpartition(".")[0] or file)
    marks = tuple(w for w in words if _YEAR.fullmatch(w) or _NAMED_VERSION.fullmatch(w))
    own, above = ([_KIND_OF[w] for w in part if w in _KIND_OF] for part in (words, folders))
    name = [w for w in words if w not in marks and w not in _KIND_OF]
    name = name[:1] + [w for w in name[1:] if w not in _FINAL]
    kinds = (part[-1] if part else None for part in (own, above))
    return _Name(tuple(folders), tuple(name), marks, *kinds)
