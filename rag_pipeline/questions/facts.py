"""Find facts by rules in English and German documents. Each fact comes with its sentence.

Facts are quantities, definitions, abbreviations, program options, sections with a heading,
and sentences of a known form (`forms`). Documents in other languages yield no facts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain

from rag_pipeline.answering.quantities.values import Quantity, quantities
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.loading.text import headings, headings_above
from rag_pipeline.questions.asking import asked_of, purpose_of
from rag_pipeline.questions.cells import asked_cells, unmarked
from rag_pipeline.questions.forms import is_vague
from rag_pipeline.questions.sections import (
    HEADING,
    OUTSIDE,
    asks_for,
    heading_of,
    is_about,
    is_said,
    plain,
    sections_of,
)
from rag_pipeline.questions.stated import FactKind, StatedFact
from rag_pipeline.questions.words import either, word_list

_SENTENCE = (20, 500)
"""Minimum and maximum characters of a sentence."""
_SHORT_TEXT = 2_500  # A text of at most this many characters has one referent for each noun.
_NUMBERING = re.compile(
    r"(?:#{1,6}\s+|>\s+|[-*•·]\s+|(?:section|article|clause|§)\s*(?=\d))?"
    r"(?:\(?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Z]|[ivxIVX]{1,4})[.)]\s+|\d{1,3}(?:\.\d{1,3})+\s+)?",
    re.IGNORECASE,
)
_RUN_IN = re.compile(r"(?:\*{2}|_)?[A-Z][^.!?;:,]{2,50}(?<!\d)[.:](?:\*{2}|_)?\s+(?=[A-Z])")
"""A heading on the same line as its clause: "Term. This Agreement …"."""
_CODE = re.compile(r"^(?P<fence>```|~~~)(?:.*\n)*?(?P=fence)|^(?:>>>|\.\.|\$) .*", re.MULTILINE)
"""A block of code between fences, or a line of a session or of reStructuredText markup."""
_INLINE = re.compile(r"`{1,2}[^`]+`{1,2}_{0,2}|https?://\S+")
_DEFINED = re.compile(
    r"(?:As used (?:herein|in the Agreement), |For (?:the )?purposes of the Agreement, )?"
    r"(?:[Tt]he terms? )?[“\"]([A-Z][A-Za-z-]+(?:\s[A-Z]?[A-Za-z-]+){0,3})[”\"]\s+"
    r"(?:means?|shall mean|refers? to)\b(?! that\b)"
)
COMPANY = (
    "Inc|Pty|Pte|Ltd|Limited|LLC|LLP|LP|PLC|plc|GmbH|AG|SE|SA|NV|BV|Oy|AB|ApS|DAC|Corp|Corporation|"
    "Company|Holdings|Partners|Bank|Trust|Foundation|University|Association"
)
"""Last words of the names of companies and institutions."""
_STEP = re.compile(
    r"(?<=[.;:] )(?:(?:\d{1,2}\.)+\d{0,2}|\(?[a-z][.)]) (?=[A-ZÄÖÜ])"
    r"(?!Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)"
)
"""The number of a step or clause inside a section, unless it is the day of a month."""
_ITEM = re.compile(r"\s*(?:[-*•◦▪·–—]\s|\(?[a-z]{1,4}[.)]\s)")
_UNENDED = re.compile(
    r"(?:\b[A-ZÄÖÜ]|\b\w{1,3}\.\w|\b(?:No|Nr|vs|cf|Fig|St|Dr|Mr|Ms|vgl|ca|bzw))\.$"
)
"""An initial or abbreviation at the end of a text. Its full stop does not end a sentence."""
_LIMITED = re.compile(
    r"\s*(?:However|Notwithstanding|Nevertheless|Except|Unless|This does not|Allerdings|Jedoch|"
    r"Dies gilt nicht|Ausgenommen)\b"
)
"""The start of a sentence that limits the sentence before it."""
_ENTRY = re.compile(
    r"^(?P<indent>[ \t]*)(?:[-*] )?`{0,2}(?P<names>(?:-\w[^\n,]{0,12}, )?"
    r"(?P<name>--\w[\w.-]{1,29}\w|[A-Z][A-Z\d]*(?:_[A-Z\d]+)+(?!_)|SIG[A-Z]+\d?(?:[+-]\d+)?|[A-Z][A-Za-z]{4,}=(?![^\s,]))[^\s`,]{0,20}"
    r"(?: [^\s`,]{1,20}){0,2})`{0,2}"
    r"(?:\n(?P=indent)[ \t]+|[ \t]{2,}|[ \t]+[-–—][ \t]+|:[ \t]+)"
    r"(?P<text>[^\W\d_]\w* [^\n]+(?:\n(?P=indent)[ \t]{2,}[^\s-][^\n]*)*)"
    r"(?=\n[ \t]*\n|\n(?P=indent)[-*`]|\s*\Z)",
    re.MULTILINE,
)
"""An entry of a list of options, variables or settings: "-a, --all" and its first paragraph."""
_OPTION = re.compile(
    r"^[ \t]*(?:-\w[^\n,]{0,12}, +)?(--\w[\w.-]{1,29}\w)(?:[=\[ ]\S+)?(?:[ \t]{2}|[ \t]*$)", re.M
)
"""The start of any entry of an option, in whatever form its text follows."""
_DEFAULT = re.compile(
    r"(?:\b(?:[Dd]efaults? (?:value )?(?:is|to)|[Dd]efault:|(?:Standard(?:wert)?|Voreinstellung|"
    r"Vorgabe) ist|Standardmäßig) |\([Dd]efault:? +)"
    r"(?P<value>(?!the same|wird|werden|sind|ist)[“\"'‘»„]?(?:[\w./*-]|,(?=\w))+?"
    r"(?: [\w./*-]+?){0,4}?[”\"'’«“]?)(?!, (?:[A-Z]|\S+(?:,|\.?$)|(?:or|oder|if|falls|unless)\b))"
    r"(?=[,;](?:\s|$)|\)|\.?$|\.\s)"
)
"""The statement of a default value in the text of an entry."""
_TERM = re.compile(
    r"^(?P<names>(?P<name>[A-ZÄÖÜ][^\n:.,!?*\[]{3,40}))\n:   "
    r"(?P<text>[^\n]+(?:\n    \S[^\n]*)*)(?=\n\s*\n(?!    )|\s*\Z)",
    re.MULTILINE,
)
"""A term of a definition list, and its only paragraph."""
_ASKS = re.compile(
    r"(?!.*\b(?:it|this|these|those|them|they|here|dies\w*|hier)\b)"
    r"(?:W\w+|How|Can|Do|Does|Is|Are|Should|Kann|Muss|Darf|Gibt|Soll|Ist|Sind) (?:\S+ ){2,}\S+\?",
    re.IGNORECASE,
)
"""A heading that is a question by itself."""
_OF_ITSELF = re.compile(
    r"\b([Tt])his (?:[A-Z][\w-]+ ){0,4}((?i:agreement|contract|lease|policy|undertaking))\b"
)
"""A document's reference to itself. A question says "the Agreement", not "this Agreement"."""
_LED = re.compile(
    r"^(?:(?:However|Furthermore|Moreover|Additionally|In addition), |(?:The |Each )?\w+(?: \w+)? "
    r"(?:(?:hereby|further|expressly) )?(?:acknowledges?|agrees?|understands?)"
    r"(?: and (?:acknowledges?|agrees?))? that (?!it\b|they\b|he\b))(\w)"
)
"""Words before a clause that is a sentence by itself: "However, …", "Each party agrees that …"."""
_SHORT = re.compile(r"(?P<long>(?:[\w’'-]+ ){2,9})\((?P<short>[A-Z][A-Za-z&-]{0,6}[A-Z])s?\)")
_ONE_OF_MANY = re.compile(
    r"\bthe ([\w-]+ (?:option|flag|parameter|argument|keyword|setting|field))\b"
)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_LINKS = {*"of the and for in to on a an with by der die das des und für von zur zum".split()}
_BEFORE_NAME = frozenset(word_list("before_names"))
READ = ("en", "de")
"""Languages that the rules read."""
_KIND_OF: dict[str, FactKind] = {"MONEY": "amount", "PERCENTAGE": "percentage"}
"""Kinds of facts by the kind of a quantity."""
_LEANS = re.compile(
    rf"(?:\S+ ){{0,2}}(?:{either('leaning')})\b|(?:like|see|siehe|wie|Nur diese|Only these)\b|"
    r".*\b(?:(?:as|like|to|wie|zu|mit) -[-\w]+\W*|the|an?|of|to|with|or|and|mit|zu|oder|und)$",
    re.I,
)
"""The text of an entry that another entry must complete, or that is cut off."""


def read_facts(document: Document) -> Iterator[StatedFact]:
    """Yield the facts of a document: of tables, of entries, then of sentences and sections."""
    language = language_of(document.text) or "en"
    for cell in asked_cells(document):
        row = unmarked(document.text[cell.row.start : cell.row.end])
        value = (at := row.find(cell.said), at + len(cell.said))
        place = document.document_id, cell.row.start, cell.row.end, row
        yield StatedFact("cell", *place, value, language=cell.language, question=cell.question)
    if language in READ:
        spans = sentence_spans(document.text)
        every = (_entries(document, language), _abbreviations(document, spans, language))
        for fact in (*chain(*every), *_said(document, language)):
            yield replace(fact, language=language)


def _said(document: Document, language: str) -> Iterator[StatedFact]:
    """Yield the facts that a document's sentences and sections state."""
    # Code keeps its place as blanks, so that no comment looks like a heading.
    text = _CODE.sub(lambda code: re.sub(r"\S", " ", code[0]), document.text)
    heading, is_listed, before = "", False, ""
    spans = sentence_spans(text)
    words = Counter(re.findall(r"\b[a-zäöüß]+\b", text))
    large = Counter(re.findall(r"(?<=[a-zäöüß,] )[A-ZÄÖÜ][a-zäöüß]*\b", text))
    proper = {word.lower() for word, n in large.items() if n > words[word.lower()]}
    vocabulary = dictionary("en") if language == "en" else frozenset(words)

    def is_small(word: str) -> bool:
        return word in vocabulary and word not in proper

    is_markdown = next(headings(text), None) is not None
    # A section that ends with code is not whole without it.
    sections = [s for s in sections_of(text, spans) if not _FENCE.match(document.text, s[2])]
    often = Counter([document.title, *(head for head, *_ in sections)])
    for head, begin, past, is_marked in sections:
        begin = past - len(text[begin:past].lstrip())
        if text[begin - 1] == "\n" and (numbering := _NUMBERING.match(text, begin, past)):
            begin = numbering.end()
        asking = head if _ASKS.fullmatch(head) else ""
        is_plain = language == "en" and all(map(is_small, head.lower().split()))
        topic = head.capitalize() if head.isupper() and is_plain else head
        body = _STEP.sub("", plain(document.text[begin:past]))
        prose = plain(_INLINE.sub("code", text[begin:past]))
        # One common word without a number, or capitals beside marked headings, are no topic.
        number = rf"{'#+ ' * is_markdown}\d[.):\d]*[*_ \t]+{re.escape(head)}"
        is_numbered = re.search(number, text[max(0, begin - len(head) - 20) : begin])
        is_common = is_plain and " " not in head and not is_numbered
        is_odd = is_common or (is_plain and head.islower()) or (is_markdown and head.isupper())
        is_odd = is_odd or (topic != head and head in body)  # a command in capitals
        is_code = len("".join(text[begin:past].split())) < 0.75 * len("".join(body.split()))
        is_topic = asking or (asks_for(topic, language) and not is_odd)
        # An indented heading is an entry, which ends at the next line with its indent.
        inset = _indent(text, text.rfind(head, 0, begin))
        if inset > 2 and re.search(rf"\n {{,{inset}}}\S", text[begin:past]):
            continue
        is_alone = often[head] == 1 and not is_code and is_topic and f"{head} {head}" not in body
        # A line of capitalized words may be an author, whom the text below does not name.
        is_titled = (
            language == "en" and not is_plain and re.fullmatch(r"(?:[A-Z][\w.’'-]*\s?){2,4}", topic)
        )
        if is_alone and is_about(topic if is_titled or not is_marked else "", prose, language):
            section = document.document_id, begin, past, body
            yield StatedFact("section", *section, (0, len(body)), subject=topic, question=asking)
    for start, end in spans:
        raw, last = text[start:end], before
        before = raw
        title = heading_of(text, start, raw)
        if title is not None:
            before = ""
            heading = title
            continue
        is_listed = last.endswith(":") or (is_listed and bool(_ITEM.match(raw)))
        if not _SENTENCE[0] <= end - start <= _SENTENCE[1] or (is_listed and _ITEM.match(raw)):
            continue
        # A sentence of a manual page, or of another indented text, belongs to an entry above it.
        if _indent(text, start) > 2:
            continue
        begin = start + _prefix(raw)
        sentence = _LED.sub(lambda led: led[1].upper(), plain(text[begin:end]))
        sentence = _OF_ITSELF.sub(lambda f: f"{f[1]}he {f[2].capitalize()}", sentence)
        sentence = re.sub(r"(?<=the date )hereof\b", "of the Agreement", sentence)
        is_new = "\n\n" in text[max(0, start - 80) : start].rstrip(" ") or not last
        if not is_new and (not re.search(r"[.!?:;][)”“\"’]?$", last) or _UNENDED.search(last)):
            continue
        # A fragment of a sentence, or of code, starts in lower case or has no full stop.
        if (
            not is_said(sentence, language)
            or not re.match(r"[“\"„]?[^\W\d_a-zäöü].*[.!?][)”“\"]?$", sentence)
            or _UNENDED.search(sentence)
            or re.search(r"\w{3}(?<!Inc|Ltd)[.!?] ", sentence)
            or re.match(r"\s*[a-zäöü]", text[end : end + 80])
            or _LIMITED.match(text, end)
        ):
            continue
        # A first word that the text has nowhere else may be an adverb: "Darin enthalten ist …".
        first = sentence.partition(" ")[0]
        if language == "de" and first.casefold() not in words and not large[first]:
            if re.match(r"(?:D(?:er|ie|as)|Eine?|[A-ZÄÖÜ]\w+e) [A-ZÄÖÜ]", sentence):
                sentence = sentence[:1].lower() + sentence[1:]
            elif first not in ("Herr", "Frau"):
                continue
        sentence = _small(sentence, is_small)
        found = document.document_id, begin, end, sentence
        about = f"{heading} {document.title}"
        own = _of_sentence(found, about, document, language)
        named = _section_at(document, begin) if is_markdown else heading
        yield from (replace(fact, section=named) for fact in own)


def _section_at(document: Document, start: int) -> str:
    """Return the Markdown heading above an offset without its number, or "" for the title."""
    above = headings_above(document.text, start)
    match = HEADING.fullmatch(above[-1]) if above else None
    section = plain(match[2]) if match else ""
    return "" if section.casefold() == document.title.casefold() else section


def _of_sentence(
    found: tuple[str, int, int, str], about: str, document: Document, language: str
) -> Iterator[StatedFact]:
    """Yield the facts of a sentence. `found` has its document, offsets and text."""
    sentence = found[3]
    known = f"{about} {document.text}" if len(document.text) <= _SHORT_TEXT else about
    quantities_said = list(_quantities(found, known))
    yield from quantities_said
    defined = _DEFINED.match(sentence)
    if defined and language == "en":
        meaning = (defined.end(), len(sentence))
        if re.match(rf" (?:(?:the|this|an?) )?{defined[1]}\b", sentence[defined.end() :], re.I):
            return  # "“Agreement” means this Agreement as amended"
        yield StatedFact("definition", *found, meaning, about, subject=defined[1])
    elif not quantities_said:
        asked = asked_of(sentence, language, about)
        option = _ONE_OF_MANY.search(asked.question) if asked else None
        is_one = not option or document.text.count(option[1]) < 2
        # A name that the document seldom uses is of something else: "Open Collective is …".
        name = re.match(r"what is ([A-Z].*)", asked.question) if asked else None
        is_one = is_one and not (name and document.text.count(name[1]) < 3)
        if asked and is_one and not (asked.kind == "rule" and is_vague(asked.question, known)):
            value = (asked.answer, len(sentence))
            yield StatedFact(asked.kind, *found, value, about, question=asked.question)


def _indent(text: str, at: int) -> int:
    line = text[text.rfind("\n", 0, at) + 1 : at + 1].expandtabs()
    return len(line) - len(line.lstrip())


def _entries(document: Document, language: str) -> Iterator[StatedFact]:
    """Yield the options and settings that the document describes once, if that is complete."""
    text = document.text
    entries, terms = list(_ENTRY.finditer(text)), list(_TERM.finditer(text))
    named = Counter(f["name"] for f in (*entries, *terms)) | Counter(_OPTION.findall(text))
    topics = (term for term in terms if asks_for(term["name"], language))
    title = f"{document.title} {document.document_id}".casefold()
    called = {*re.findall(r"\w{3,}", title)}
    blocks = [block for block in _CODE.finditer(text) if block["fence"]]
    for found in (*entries, *topics):
        name, said = found["name"], plain(found["text"])
        is_whole = is_said(said, language) and said[-1] != ":" and not OUTSIDE.search(said)
        if _LEANS.match(said) or (name[0] == "-" and _is_of_command(text, found.start("names"))):
            continue
        if found.re is _TERM and re.search(r"\b[Dd]ies\w* (?!Eigensch|Option|Einst|Funkt)", said):
            continue
        # Help that a block of code prints may be of another program.
        block = next((b[0] for b in blocks if b.start() < found.start() < b.end()), title)
        if called.isdisjoint(re.findall(r"\w{3,}", block.casefold())):
            continue
        # A further paragraph of the same entry is indented, too.
        more = re.match(r"[ \t]*\n[ \t]*\n[ \t]*(?=[^\s-])", text[found.end() :])
        if more and _indent(text, found.end() + more.end()) > _indent(text, found.start("names")):
            continue
        is_only = named[name] == 1 and len(said) <= _SENTENCE[1]
        is_new = len(said.split()) > 7 or name.rpartition("_")[2] not in said  # "RAW: is RAW"
        if is_only and is_whole and is_new and name not in ("--help", "--version"):
            is_coded = re.fullmatch(r"SIG[A-Z]+\d?(?:[+-]\d+)?|\w+=|[A-Z\d]+_[A-Z\d_]+", name)
            is_coded = is_coded and re.search(rf"\b(?:{either('purposes')})\b", said, re.I)
            kind: FactKind = "option" if name[0] == "-" else "variable" if is_coded else "term"
            whole = f"{name} {said}"
            place = document.document_id, found.start("names"), found.end("text"), whole
            yield StatedFact(kind, *place, (len(name) + 1, len(whole)), subject=name)
            if kind != "option":
                continue
            if asked := purpose_of(said, found["names"], language, title):
                yield StatedFact("purpose", *place, (0, len(name)), subject=name, question=asked)
            defaults = list(_DEFAULT.finditer(whole))
            if len(defaults) == 1:
                yield StatedFact("default", *place, defaults[0].span("value"), subject=name)


def _is_of_command(text: str, at: int) -> bool:
    """Return whether an option's entry belongs to one of several commands of a manual page."""
    section = re.split(r"\n(?=\S)", text[:at])[-1]
    command = rf"\n[ \t]*\n {{1,{max(1, _indent(text, at) - 1)}}}[a-z][\w-]* (?:[\[<]|\S+\.{{3}})"
    return re.search(command, section) is not None


def _abbreviations(
    document: Document, spans: Sequence[Span], language: str
) -> Iterator[StatedFact]:
    """Yield the abbreviations that a document defines as "long form (LF)", always by the same form.

    The letters must be the initials of the words before them. This is a strict case of Schwartz and
    Hearst, A simple algorithm for identifying abbreviation definitions in biomedical text, 2003.
    """
    defined: defaultdict[str, list[StatedFact]] = defaultdict(list)
    for start, end in spans:
        raw = document.text[start:end]
        sentence = plain(raw[_prefix(raw) :])
        is_prose = len(sentence.split()) > 5 and len(sentence) <= _SENTENCE[1] and "(" in sentence
        # A caption, a printed line, or an entry of a list of references is no sentence.
        is_odd = r"^[^A-ZÄÖÜ]|[^.!?:)”]$|^(?:Table|Figure|Tabelle) \d|\d:\s?\d|\bpp\.|\bdoi\b"
        is_prose = is_prose and not re.search(is_odd, sentence) and is_said(sentence, language)
        every = list(_SHORT.finditer(sentence)) if is_prose else []
        for said in every if len(every) <= 2 else ():
            if (value := _long_form(said)) and said["short"] not in word_list("known_short"):
                place = document.document_id, start, end, sentence
                # "abstract data types (ADTs)": one ADT is a type.
                is_one = re.search(rf"\b(?:{said['short']}s|an? {said['short']})\b", document.text)
                is_cut = is_one and re.search(r"[a-z]{2}[^s\W]s$", sentence[slice(*value)])
                value = value[0], value[1] - bool(is_cut)
                fact = StatedFact("abbreviation", *place, value, subject=said["short"])
                defined[fact.subject].append(fact)
    for facts in defined.values():
        if len({fact.said.casefold().rstrip("s") for fact in facts}) == 1:
            yield facts[0]


def _long_form(said: re.Match[str]) -> Span | None:
    """Return the span of the words whose initials an abbreviation is, or None."""
    letters = [c for c in said["short"] if c.isupper()]
    start = said.end("long")
    for word in reversed(list(re.finditer(r"[\w’']+", said["long"]))):
        is_link = word[0].lower() in _LINKS
        if letters and word[0][0].upper() == letters[-1] and not (is_link and len(letters) == 1):
            letters.pop()
            start = said.start() + word.start()
        elif not is_link or not letters:
            # "Business Confidential Information (CI)" lacks the first initial.
            is_part = not letters and not is_link and word[0][0].isupper()
            letters += "?" if is_part and said.string[start].isupper() else ""
            break
    return (start, said.end("long") - 1) if not letters and said["short"].isupper() else None


def _small(text: str, is_small: Callable[[str], bool]) -> str:
    """Return a text with its first word in lower case, unless the document capitalizes it."""
    first, _, rest = text.partition(" ")
    is_common = all(map(is_small, first.casefold().split("-"))) and not first[1:2].isupper()
    # "Ollie Sandercock moved": before a name, only an article or a preposition is no name.
    is_common = is_common and (not rest[:1].isupper() or len(first) < 4 or first in _BEFORE_NAME)
    is_common = is_common or first in ("The", "A", "An")
    return text[:1].lower() + text[1:] if is_common else text


def _quantities(found: tuple[str, int, int, str], about: str) -> Iterator[StatedFact]:
    every = quantities(found[3])
    for quantity in every:
        # A question about one of several sums in a sentence would be ambiguous.
        kind = _kind(quantity)
        if kind is not None and sum(_kind(q) == kind for q in every) == 1:
            yield StatedFact(kind, *found, (quantity.start, quantity.end), about, quantity)


def _kind(quantity: Quantity) -> FactKind | None:
    if "percent" in quantity.value and Decimal(quantity.value[1]) in (50, 25, 75):
        return None  # the question would often lack the whole
    if quantity.kind != "TIME":
        return _KIND_OF.get(quantity.kind)
    unit = str(quantity.value[0])
    if unit in ("date", "either date", "month"):
        return "date" if unit == "month" or len(quantity.value) == 4 else None
    return "duration" if unit in ("months", "seconds") or unit.startswith("working") else None


def _prefix(raw: str) -> int:
    numbering = _NUMBERING.match(raw)
    at = numbering.end() if numbering else 0
    run_in = _RUN_IN.match(raw, at)
    return run_in.end() if run_in else at
