"""Ask for the cells of tables: a row's name and a column's heading give the question.

Tables are CSV files, and the Markdown tables that parsers make from sheets and Office files.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import PurePosixPath
from typing import NamedTuple

from rag_pipeline.answering.quantities.values import quantities
from rag_pipeline.datamodels import Document
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.questions.words import either, word_list

_MOST = 3
"""Maximum number of questions about the tables of a document."""
_LONGEST_HEAD = 5
"""Maximum number of words of a column's heading."""
_LONGEST = 60
"""Maximum characters of a cell in a question or an answer."""
_RULE = re.compile(r"\|(?:\s*:?-{3,}:?\s*\|)+")
_NUMBER = re.compile(r"[\s\d.,:%/+-]*(?:[€$£]|[A-Z]{3})?[\s\d.,:%/+-]+(?:[€$£]|[A-Z]{3})?")
_UNIT = re.compile(r"\s*(?:[(\[][^()\[\]]*[)\]]|\b(?:usd|eur|gbp|chf|kg|km|pct))$|\s*:$", re.I)
_MEASURE = re.compile(rf"(?:[€$£]|EUR|Euro|GBP|USD|CHF)(?:\b.*)?|{either('measures')}")
SHEETS = (".csv", ".tsv", ".xlsx", ".ods")
"""Suffixes of files that hold tables and little other text."""
_PLACE = re.compile(r"(?:.* )?(?:where|place|location|room|site|building)", re.I)
_UNITS = re.compile(r"units?|uom|einheit(?:en)?", re.I)
_EACH = re.compile(r"each|ea|pieces?|pcs?|units?|items?|stück|stk|pauschal|flat|total", re.I)
_DATE = re.compile(r"date|day|datum|tag|time|arrival|departure|ankunft", re.I)
_DULL = re.compile(rf"(?:{either('dull_heads')})\W*", re.I)
_SUM = re.compile(r"(?:grand |sub)?total|sum|summe|gesamt\w*|all|alle|n/?a", re.I)
_PLAIN = re.compile(r"value|wert|betrag(?P<rate> (?:im|pro|je) \w+)?", re.I)
_SIZES = re.compile(rf"(?:{either('german_sizes')})\b", re.I)
_PERSON = re.compile(r"(?:[A-ZÄÖÜ][\w.’'-]*\s?){2,4}")
_NAMES = re.compile(r"(?:.* )?(?:name|employee|person|member|contact|mitarbeiter\w*|vorname)", re.I)
_DOER, _OF, _FOR, _MANY = (
    frozenset(word_list(name)) for name in ("doers", "nouns_of", "nouns_for", "nouns_of_counts")
)
"""Nouns that head columns: `_DOER` of persons, `_MANY` of counts, the others by preposition."""
_PERSONAL = re.compile(rf".*\b(?:{either('of_persons')}|start date)")
_CURRENCY = re.compile(r"[€$£]|EUR|Euro|GBP|USD|CHF")
_ARTICLES = {article: tuple(word_list(f"{article}_ends")) for article in ("die", "der", "das")}
"""Last parts of German nouns by their article."""


class Row(NamedTuple):
    """A row of a table: its span in the text and its cells."""

    start: int
    end: int
    cells: list[str]


class Cell(NamedTuple):
    """A cell that a question asks for. `question` has no question mark."""

    row: Row
    said: str
    question: str
    language: str


def asked_cells(document: Document) -> Iterator[Cell]:
    """Yield some cells of a document's tables with their questions, from all columns in turn."""
    found = [list(_of_table(rows, document)) for rows in _tables(document)]
    turns = ([one[n] for one in found if n < len(one)] for n in range(_MOST))
    yield from islice((cell for turn in turns for cell in turn), _MOST)


def _tables(document: Document) -> Iterator[list[Row]]:
    if document.media_type in ("text/csv", "text/tab-separated-values"):
        head = document.text.partition("\n")[0]
        mark = max(",;\t|", key=head.count)
        every = list(_lines(document.text))
        rows = [Row(start, end, next(csv.reader([line], delimiter=mark), []))
                for start, end, line in every if line.count('"') % 2 == 0]  # fmt: skip
        yield rows if len(rows) == len(every) else []
        return
    for is_row, lines in groupby(_lines(document.text), lambda line: line[2].startswith("|")):
        every = list(lines) if is_row else []
        rows = [Row(start, end, [unmarked(c) for c in re.split(r"(?<!\\)\|", line)[1:-1]])
                for start, end, line in every if not _RULE.fullmatch(line.strip())]  # fmt: skip
        # Without a rule, the lines go on with a table whose head stands elsewhere.
        if len(rows) < len(every):
            yield rows


def unmarked(text: str) -> str:
    """Return a cell or row without marks of code and stress, escapes and brackets of a link."""
    plain = re.sub(r"`|\\(?=[_*|])|(?<!\w)\*{1,3}(?=\w)|(?<=[\w.)])\*{1,3}(?!\w)", "", text).strip()
    return re.sub(r"^\[([^\[\]]+)\]$", r"\1", plain)


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    for found in re.finditer(r"[^\n]*\S[^\n]*", text):
        yield *found.span(), found[0].rstrip("\r")


def _of_table(rows: Sequence[Row], document: Document) -> Iterator[Cell]:
    """Yield questions about a table whose first full row is its head."""
    at = next((n for n, row in enumerate(rows) if _is_head(row.cells)), None)
    if at is None or len(rows) - at < 3:
        return
    head, body = rows[at].cells, [r for r in rows[at + 1 :] if len(r.cells) <= len(rows[at].cells)]
    columns = [[r.cells[n].strip() if n < len(r.cells) else "" for r in body]
               for n in range(len(head))]  # fmt: skip
    # Layout alone tells the cells of a PDF. A split row has gaps, and a head is certain only above
    # figures: the first row of words may be a part of the table before.
    has_figures = any(all(re.search(r"\d", cell) for cell in c) for c in columns[1:])
    is_certain = document.media_type != "application/pdf" or (
        all(map(all, columns)) and has_figures
    )
    if not is_certain or any(len(cell.split()) > _LONGEST_HEAD for cell in head):
        return
    named = 1 if all(re.fullmatch(r"\S*\d\S*|", cell) for cell in columns[0]) else 0
    # A row of a log has a date and no name: "Rolo, 7 January".
    is_log = any(_DATE.fullmatch(h) for h in head) or head[named].lower() in _DOER
    names = {cell for cell in columns[named] if _is_name(cell)}
    if is_log or len(names) < 0.8 * len(columns[named]):
        return
    text = document.text
    language = _language(head, document)
    # A size beside the name of a place is not the place's.
    if language not in _WORDS or (language == "en" and _PLACE.fullmatch(head[named])):
        return
    words = _WORDS[language]
    often = Counter(name.casefold() for name in columns[named])
    rich = (n for n, column in enumerate(columns) if len({*column}) > len(column) / 3)
    asked = [n for n in rich if n != named and not _DULL.fullmatch(head[n])]
    units = next((n for n, h in enumerate(head) if _UNITS.fullmatch(h.strip())), None)
    is_person = bool(_NAMES.fullmatch(head[named]))
    for turn, number in enumerate(sorted(range(len(body)), key=lambda n: f"{n:b}"[::-1])):
        name = columns[named][number]
        is_odd = re.search(either("leaning_rows"), name, re.I) or not (_is_name(name) and asked)
        if often[name.casefold()] > 1 or text.count(name) > 1 or is_odd:
            continue
        unit = columns[units][number] if units is not None else ""
        for column in (asked * 2)[turn % len(asked) :][: len(asked)]:
            said = columns[column][number].strip("*_` ")
            question = words(head[column], name, said, is_person, unit)
            if re.search(r"\w", said) and "![" not in said and len(said) <= _LONGEST and question:
                yield Cell(body[number], said, question, language)
                break


def _is_head(cells: Sequence[str]) -> bool:
    words = [c.strip() for c in cells]
    is_full = len(words) > 1 and all(words) and len({*words}) == len(words)
    numbers = [w for w in words if _NUMBER.fullmatch(w)]
    is_prose = not any(re.search(r"\d\.\d|\(\)|\d.* -?\d", word) for word in words)
    return is_full and is_prose and all(re.fullmatch(r"\d{4}", number) for number in numbers)


def _is_name(cell: str) -> bool:
    plain = (
        cell not in dictionary("en")
        and re.search(r"[^\W\d_]{3}", cell)
        and not re.search(r"[\"“”„|@:(]|!\[|^[/.-]", cell)
    )
    return bool(plain) and len(cell) <= _LONGEST and not (_SUM.fullmatch(cell) or quantities(cell))


def _language(head: Sequence[str], document: Document) -> str:
    """Return the language of a table: of its headings in a sheet, or else of the text.

    The text of a sheet has few words beside names, so that its language is uncertain.
    """
    words = re.findall(r"[^\W\d_]{3,}", " ".join(head).casefold())
    of_text = language_of(document.text)
    german = sum(w in dictionary("de") or _article(w) != "" for w in words)
    english = sum(w in dictionary("en") for w in words)
    is_known = max(german, english) >= max(len(words), 3)
    if of_text and not (_is_sheet(document) and (is_known or of_text in _WORDS)):
        return of_text
    return "de" if german > english or (german == english and of_text == "de") else "en"


def _is_sheet(document: Document) -> bool:
    return PurePosixPath(document.document_id).suffix in SHEETS


def english(heading: str, name: str, said: str, is_person: bool, unit: str = "") -> str:
    """Return the English question for a cell, without question mark, or "" for an unfit heading.

    `unit` is the unit that another column gives for quantities.
    """
    if _CURRENCY.fullmatch(heading.strip()):
        return f"what is the amount in {heading.strip()} for “{name}”"
    words = [
        w if w.isupper() or re.search(r"[\d_]|[a-z][A-Z]", w) else w.lower()
        for w in _heading(heading)
    ]
    words = words[-1:] + words[:-1] if re.fullmatch(r".+ (?:19|20)\d\d", " ".join(words)) else words
    last, shown = (words[-1].lower() if words else ""), " ".join(words)
    called = name if is_person and _PERSON.fullmatch(name) else f"“{name}”"
    if is_person and not _PERSONAL.match(shown):
        return ""
    if re.fullmatch(r"(?:due|due date|due by)", shown):
        return f"what is the due date for {called}" if re.search(r"\d", said) else ""
    if not words or len(words) > 4:
        return ""
    if last in _DOER:
        of = "for" if last in ("contact", "assignee", "supplier") else "of"
        return f"who is the {shown} {of} {called}" if re.match(r"[A-ZÄÖÜ]\D+$", said) else ""
    if last in _MANY and re.fullmatch(r"\d+", said):
        return f"how many {shown} are listed for {called}"
    if re.fullmatch(r"q[1-4]|(?:19|20)\d\d", last) and _NUMBER.fullmatch(said):
        return f"what is the {shown} figure for {called}"
    # "Number" may number the row or count its things, and "In stock (kg)" is no noun.
    if re.fullmatch(r"number|no\.?|(?:at|by|from|in|on|per|to) .*", shown):
        return ""
    if _PLAIN.fullmatch(shown):
        return f"what is the {name.lower()}" if name.lower().split()[-1] in _OF | _FOR else ""
    is_noun = last in _OF | _FOR or re.fullmatch(r"\w+ (?:date|time|period|level)", shown)
    shown += " number" if last in ("phone", "telephone") else ""
    if is_noun or is_person:
        shown += _in_unit(heading, said, unit)
        return f"what is the {shown} {'of' if last in _OF or is_person else 'for'} {called}"
    return ""


def german(heading: str, name: str, said: str, is_person: bool, unit: str = "") -> str:
    """Return the German question for a cell, without question mark, or "". See `english`."""
    if _CURRENCY.fullmatch(heading.strip()):
        return f"welcher Betrag steht bei „{name}“ unter „{heading.strip()}“"
    number = r"(?<=[a-zäöüß]{3})[- ]?(?:Nr\.?|Nummer)$|(?<=^Telefon)$"
    shown = re.sub(number, "nummer", " ".join(_heading(heading)))
    if plain := _PLAIN.fullmatch(shown):
        article = _article(name.casefold()) if re.match(r"\d", said) and _SIZES.search(name) else ""
        return f"wie hoch ist {article} {name}{plain['rate'] or ''}" if article else ""
    article = _article(shown.casefold())
    if not article or shown.islower() or re.fullmatch("Anzahl|Zahl|Stückzahl", shown):
        return ""
    is_one = shown.endswith(("er", "ant", "eiterin")) and re.match(r"[A-ZÄÖÜ]\D+$", said)
    asks = "wer ist" if is_one else "wie lautet"
    asks = "wie hoch ist" if _SIZES.search(shown) and re.search(r"\d", said) else asks
    of = f"von {name}" if is_person and _PERSON.fullmatch(name) else f"für „{name}“"
    return f"{asks} {article} {shown}{_in_unit(heading, said, unit)} {of}"


_WORDS = {"en": english, "de": german}


def _in_unit(heading: str, said: str, unit: str) -> str:
    """Return " in GBP per hour" by the heading and by the column of units, or ""."""
    unit = re.sub(r"^(?:per|pro|je|an?) ", "", unit, flags=re.I)
    own = _UNIT.search(heading.replace("_", " "))
    is_counted = re.search(r"(?:quantity|amount|stock|menge|anzahl|bestand)\s*$", heading, re.I)
    shown = own[0].strip(" ()[]:") if own else ""
    if not _MEASURE.fullmatch(shown):
        shown = unit if is_counted and re.fullmatch(r"[^\W\d_]{1,14}[²³%]?", unit) else ""
    shown = shown.upper() if shown in ("eur", "gbp", "usd", "chf") else shown
    in_unit = f" in {shown}" if shown and re.fullmatch(r"[\d.,' ]+", said) else ""
    price = re.search(r"price|cost|rate|fee|(preis|kosten|gebühr)", heading, re.I)
    if price and re.fullmatch(r"[^\W\d_][^\W_ ]*(?: [^\W_]+)?", unit) and not _EACH.fullmatch(unit):
        return f"{in_unit} {'pro' if price[1] else 'per'} {unit}"
    return in_unit


def _heading(heading: str) -> list[str]:
    words = re.sub(r"[_\s]+", " ", heading).strip()
    return _UNIT.sub("", words).split()


def _article(words: str) -> str:
    head = re.split(r" (?:der|des|von|für|in|im|auf) ", words)[0]
    last = re.sub(r"\W*(?:netto|brutto|gesamt|(?:19|20)\d\d)$", "", head)
    return next((article for article, ends in _ARTICLES.items() if last.endswith(ends)), "")
