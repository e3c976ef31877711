"""Name documents in questions by owner and kind ("Acme’s lease"), or else by title."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, takewhile
from pathlib import PurePosixPath

from rag_pipeline.datamodels import Document
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.questions.cells import SHEETS
from rag_pipeline.questions.facts import COMPANY
from rag_pipeline.questions.sections import EMPTY_HEADINGS, lacks_ligature, plain
from rag_pipeline.questions.words import word_list
from rag_pipeline.search.lexical_index.documents import readable_name

_HEAD = 3_000
"""Number of first characters that are searched for names of companies."""
_OFTEN = 0.4
"""A name in more than this share of the documents identifies none of them."""
_MOST_WORDS = 11
_SAYING = 4
"""Minimum number of words of a title that may say more than owner and kind."""
_COMPANY = re.compile(
    r"\b(?P<name>[A-Z][\w’'-]+(?:,?\s(?:(?:&|of|and)\s)?[A-Z][\w’'-]+){0,4}),?\s"
    rf"(?P<form>{COMPANY})\b"
)
_LEGAL_FORMS = frozenset(COMPANY.partition("|Company")[0].split("|"))
_WORD = re.compile(r"[^\W\d_]{4,}")
_FORM = re.compile(r"\b(?:e\. ?V|Inc|Ltd|Co|Nr|No)\.$")
"""A last word that ends with a full stop."""
_SITE = re.compile(r"\s[|–—-]\s|:\s")
"""The separator between a title and the site's name or a subtitle."""
_REPLY = re.compile(r"^(?:(?:re|fwd?|aw|wg|antw)\s*:\s*)+", re.IGNORECASE)
_COMMAND = re.compile(
    r"\A(?:\s*(?:(?P<page>\S+\(\w+\))|\S)[^\n]*\(\w+\))?\s*(?:NAME|BEZEICHNUNG)\n+"
    r"[ \t]+(?P<name>\S[^\n,]*?)(?:(?P<more>,)|\s{1,99}[-–—] )", re.I
)  # fmt: skip
"""The start of a manual page up to the command: "LS(1)   User Commands   LS(1)", "NAME", "ls"."""
_NO_TITLE = re.compile(
    r"(?:exhibit|annex|appendix|attachment|schedule)\b|\W|\S*\(\w+\)$|.*\b(?:title|name|number|"
    r"date|and|as|for|of|on|the|to|with|in|by|from|or|der|die|das|von|für|und)$|"
    r"loading required|.*[ ,](?:Inc|Ltd|LLC|LLP|PLC|GmbH|Corp|Pty)\.?$|"
    r".*\b(?:click here|journal of|this)\b|copyright\b|these\b|(?:\w+ )?\d{1,2}(?:, | \w+ )\d{4}$",
    re.IGNORECASE,
)
"""A title of an attachment or a journal, a mark, a company, output, a cut line, or a date."""
_SLOGAN = re.compile(
    r"^(?:read ?me(?: for|:)|welcome to|(?:notes|frequently asked questions) about)(?: the)? |"
    r"(?<=\w) (?:project|release|read ?me)$", re.I
)  # fmt: skip
"""Words around the name of a program in a title: "Welcome to the Lumen project"."""
_NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|kapitel|abschnitt|teil)\s)?(?:[A-Z]\.)?\d+(?:\.\d+)*[.:)]?\s+(?=\D)",
    re.I,
)
"""The number of a section at the start of its page: "8.2. Names"."""
_PERSON = re.compile(r"[A-Z][\w’-]+(?: [A-Z]\.)+(?: [A-Z][\w’-]+){1,2}")
_PART = re.compile(
    r"[A-Z]?[^\W\d_A-Z]+|(?:[A-Z][a-z]{2,}){2,3}|[A-Z]{2,6}|(?:19|20)\d\d|[A-Z]?[^\W\d_A-Z]+-[^\W\d_]+|&"
)
"""A part of a file's name that people say, unlike "NDAwritableV2" or "0001140361"."""
_KINDS = frozenset(word_list("document_kinds"))

_NO_PART = frozenset("a an and as for of on the to".split())


def names_of(documents: Sequence[Document]) -> dict[str, list[str]]:
    """Return the names of each document by document id. A list of names may be empty.

    A name consists of up to two proper names that few other documents have, and of the kind of
    document. The title or the file name tells the kind. A name that fits two documents is left out.
    A document without such a name, or not in English, is named by its unique title or file name.
    """
    small = {word for d in documents for word in re.findall(r"\b[a-z]{4,}\b", d.text)}
    proper = {d.document_id: list(dict.fromkeys(_proper(d, small))) for d in documents}
    held = Counter(chain.from_iterable(proper.values()))
    most = max(1.0, _OFTEN * len(documents))
    titled: defaultdict[str, set[str]] = defaultdict(set)
    for document in documents:
        for word in _words(document.title):
            titled[word].add(document.document_id)
    kinds = [(_kind(document, []).split()[-1:], document) for document in documents]

    def is_own(title: str) -> bool:
        """Return whether a title is unique and not a kind with words of other titles alone."""
        words = _words(title)
        is_shared = all(len(titled[w]) > 1 for w in words if w == "a" or w not in _NO_PART)
        return len(having(title)) <= 1 and not (is_shared and not _KINDS.isdisjoint(words))

    def having(title: str) -> set[str]:
        """Return the ids of the documents whose titles have all words of this title."""
        return set.intersection(*([titled[word] for word in _words(title)] or [set()]))

    found = {}
    for document in documents:
        owners = [name for name in proper[document.document_id] if held[name] <= most][:2]
        kind = _kind(document, owners)
        alike = (d for last, d in kinds if d is not document and last == kind.split()[-1:])
        is_english = document.metadata.get("language", "en") == "en"
        written = f"{document.title} {readable_name(document.document_id)}".casefold()
        # "Acme’s manual" says less than the title "Health and Safety Manual".
        tells_kind = " " in kind or any(name.casefold() in written for name in owners[:1])
        # A title without the kind, which is of the file's name, says more if it is unique.
        has_kind = kind.rpartition(" ")[2].casefold() in document.title.casefold()
        fits_title = tells_kind and (has_kind or len(having(document.title)) > 1)
        is_owned = (
            owners
            and kind
            and (fits_title or len(_words(document.title)) < _SAYING or not is_own(document.title))
            and all(owners[0] not in d.text for d in alike)
        )
        if is_owned and is_english and not _COMMAND.match(document.text):
            first, short = owners[0], kind.split()[-1]
            names = [f"{first}’{'' if first.endswith('s') else 's'} {kind}", f"the {first} {short}"]
            is_of_two = len(owners) == 2 and short in ("agreement", "contract", "lease", "NDA")
            names += [f"the {'–'.join(owners)} {short}"] if is_of_two else []
        else:
            # The title "Lease" does not identify a document beside "Lease of a House".
            names = _titles(document, is_own)
        if document.media_type == "message/rfc822":
            names = [f"the mail {name}" for name in names if name[0] == "“"]
        elif PurePosixPath(document.document_id).suffix in SHEETS:
            quoted = [name.removeprefix("the file ") for name in names]
            names = [f"the table {name}" for name in quoted if name[0] == "“"] or names
        found[document.document_id] = [n for n in names if len(n.split()) <= _MOST_WORDS + 2]
    called = Counter(name.casefold() for names in found.values() for name in {*names})
    return {d: [n for n in names if called[n.casefold()] == 1] for d, names in found.items()}


def _proper(document: Document, small: set[str]) -> Iterator[str]:
    """Yield the proper names of title and file name that the text holds, and then company names."""
    known = dictionary("en")
    for word in _WORD.findall(f"{document.title} {readable_name(document.document_id)}"):
        if word.lower() not in known and word.lower() not in small:
            # A long word that is only in capitals is usually a misspelt heading, not a name.
            shown = (word.capitalize(), word) if len(word) <= 7 else (word.capitalize(),)
            shown = shown if word.isupper() else (word.capitalize(), word)
            written = (n for n in shown if not n.islower())
            defined = rf"(\b(?:{COMPANY})\b[^\"“]{{,60}})?[\"“]{word}[\"”]"
            if word.isupper() and (short := re.search(defined, document.text)):
                if short[1]:  # The text calls the company by it.
                    yield word
                    return
                continue  # an abbreviation that the document defines
            # At the start of a line, any word has a capital.
            inside = (n for n in written if re.search(rf"(?<=[\w,;] ){n}\b", document.text))
            yield from islice(inside, 1)
    for company in _COMPANY.finditer(document.text[:_HEAD]):
        words = re.sub(rf",|[’'](?:s\b|(?!\w))|\b(?:{COMPANY})\b", "", company["name"]).split()
        if any(word.lower() in _KINDS for word in words):
            continue
        spoken = [word for word in words if word[0].isalpha()]  # not "&"
        rare = next((w for w in spoken if not known.issuperset(w.lower().split("-"))), None)
        # No part of "South African Bankers Association" is a name.
        if rare or (len(spoken) == 2 and company["form"] in _LEGAL_FORMS):
            yield rare or " ".join(words)


def _kind(document: Document, owners: Sequence[str]) -> str:
    """Return the kind of document with up to two words before it ("time off policy"), or ""."""
    known = dictionary("en")
    no_part = _NO_PART.union(" ".join(owners).casefold().split())
    for text in (_SITE.split(document.title)[0], readable_name(document.document_id)):
        words = [word.casefold() for word in re.findall(r"[^\W\d_][\w-]*", text)]
        kinds = [i for i, word in enumerate(words) if word in _KINDS]
        # "Writing Code in Compiled Languages" is no code.
        at = next((i for i in reversed(kinds) if words[i + 1 : i + 2] != ["in"]), None)
        if at is not None:
            before = [*takewhile(lambda w: w in known and w not in no_part, reversed(words[:at]))]
            # "Board of Governors Confidentiality Agreement": the words before may be half a name.
            is_whole = len(before) <= 2 and words[at - len(before) - 1] not in _NO_PART
            kind = " ".join((*reversed(before), words[at])) if is_whole else words[at]
            return re.sub(r"\b(?:nda|faq|eula)\b", lambda found: found.group().upper(), kind)
    return ""


def _words(title: str) -> list[str]:
    # "Non-Disclosure Agreement" does not differ from "Nondisclosure Agreement".
    return re.findall(r"\w+", re.sub(r"(?<=\w)[-‐](?=\w)|(?<=\bnon) ", "", title.casefold()))


def _in_small_letters(word: str) -> str:
    """Return "Non-Disclosure" for "NON-DISCLOSURE". A name such as "GNU" or "QA-POL-014" stays."""
    is_code = "-" in word or len(word) <= 5  # Long unknown words are usually no abbreviations.
    is_known = dictionary("en").issuperset(word.casefold().split("-"))
    return word if is_code and not is_known else word.title()


def _own_name(document: Document, title: str) -> str:
    """Return the name of a program that its README's title, such as a slogan, lacks, or ""."""
    path = PurePosixPath(document.document_id)
    name = readable_name(path.parent.name if path.stem.casefold() == "readme" else path.name)
    is_known = dictionary("en").issuperset(name.casefold().split())
    if is_known or (title and path.suffix not in (".md", ".rst")):
        return ""
    spelt = "[ _-]".join(map(re.escape, name.split()))
    if re.search(spelt, title, re.IGNORECASE):
        return ""
    used = Counter(re.findall(rf"(?<![\w./-]){spelt}(?![\w/-])", document.text, re.IGNORECASE))
    return max(used, key=lambda word: used[word]) if used.total() > 2 else ""


def _titles(document: Document, is_own: Callable[[str], bool]) -> list[str]:
    shown = re.split(r" ?(?:\[!?\[|<\w)", document.title)[0]
    shown = plain(re.sub(r"!?\[[^\]]*\]\([^)]*\)", "", shown))
    shown = re.sub(r"^\W*title:\s+", "", shown, flags=re.IGNORECASE)
    shown = re.sub(r"[“”„\"]|\|[\w-]+\|", "", _REPLY.sub("", shown))
    shown = "".join(letter for letter in shown if unicodedata.category(letter) != "So")  # 🚀
    whole = " ".join(shown.split(" | ")[0].split())
    # "Vehicle Check – VW Caddy": a subtitle may tell the document from others.
    parts = [whole, *(" ".join(part.split()) for part in _SITE.split(shown))]
    name = readable_name(document.document_id)
    if not dictionary("en").issuperset(name.casefold().split()):
        # "yq: a processor of YAML" in the file yq.md is called "yq".
        own = re.sub(r"[\W_]+", r"[\\W_]?", name)
        parts.sort(key=lambda part: not re.fullmatch(own, part, re.IGNORECASE))
    if command := _COMMAND.match(document.text):
        page = (command["page"] or "") if command["more"] else ""  # of several: "syslog(3)"
        page = (page.lower() if page.isupper() else page) or command["name"]
        return [f"“{page}”"] if is_own(page) else []
    fitting = [part.rstrip(":") for part in parts if part and len(part.split()) <= _MOST_WORDS]
    title = _SLOGAN.sub("", next(filter(is_own, fitting), ""))
    words = re.findall(r"[^\W\d_]{2,}", title.casefold())
    language = document.metadata.get("language", "en")
    known = [dictionary(language)] * (language in ("en", "de")) + [{*name.casefold().split()}]
    title = "" if any(lacks_ligature(w, listed) for w in words for listed in known) else title
    if title.isupper() and (" " in title or title.casefold() in dictionary("en")):
        small = r"\b(?<!^)(?:A|An|And|At|By|For|In|Of|On|Or|The|To|With)\b"
        titled = re.sub(r"[^\W_]+(?:-[^\W_]+)*", lambda word: _in_small_letters(word[0]), title)
        title = re.sub(small, lambda found: found[0].lower(), titled)
        title = title if " " in title else ""
    title = _NUMBER.sub("", title)
    if document.media_type == "text/html" and title and " " not in title:
        return []  # "Fotokopie" does not tell its program.
    is_first = re.match("(?i:start(en|ing)|installing|getting started|erste schritte)", title)
    title = "" if is_first and document.text.count("\n## ") > 3 else title
    is_empty = EMPTY_HEADINGS.issuperset(title.casefold().split()) or _NO_TITLE.match(title)
    by = rf"(?:\bby|\bauthors?:?)\s+{re.escape(title)}$"
    is_signed = re.search(by, document.text[:_HEAD], re.IGNORECASE | re.MULTILINE)
    is_person = is_signed or title == document.metadata.get("author") or _PERSON.fullmatch(title)
    if own := _own_name(document, "" if is_person else title):
        return [f"“{own}”"]
    if title and not is_person and (title[-1] not in ".!?" or _FORM.search(title)) and not is_empty:
        return [f"“{title}”"]
    if own := _own_name(document, ""):
        return [f"“{own}”"]
    is_same = name.casefold() == title.casefold()
    # A part that the text holds is a word that people say: "QuickBooks".
    held = {*re.findall(r"[^\W\d_]+", document.text)} | dictionary("en")
    odd = {p for p in name.split() if p.islower() and p != name} - held  # "surf alggeo"
    is_spoken = all(_PART.fullmatch(p) or p in held for p in name.split()) and not odd
    return [f"the file “{name}”"] if is_spoken and not is_same and is_own(name) else []
