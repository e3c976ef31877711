"""Facts -> questions in several wordings, by reordering the sentence that states the fact."""

import re
from collections.abc import Iterator, Sequence
from random import Random

from rag_pipeline.questions.facts import StatedFact

_AUXILIARY = r"shall|must|will|may|can|should|is|are|was|were"
_LEADING = re.compile(
    r"(?:If|Where|When|Unless|Upon|After|Before|On|In|For|During|Except|Subject|With|Under|Within|"
    r"At|As|Notwithstanding|Following|By|From|Until|To)\b[^,]{3,120},\s*",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"(?:if|where|when|unless|upon|after|before|on|in|for|during|except|subject|with|under|within|"
    r"at|as|notwithstanding|following|by|from|until|to|up|while)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"\b(?:who|which|that|whose|where|if|when|unless|because)\b", re.IGNORECASE)
_PRONOUN = re.compile(
    r"(?:it|they|he|she|we|you|i|this|these|those|that|there|such|the (?:same|former|latter)|"
    r"no|nobody|none|nothing|neither|herein\w*|there\w+|please|both|all|some|others?|most|many|any|"
    r"and|or|but|then|also|\w+ly|further\w*|more\w*|however|again|failure|nor)\b",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?P<lead>(?:\b(?P<prep>for|within|in|on|by|of|upon|after|with|at|to|from|until|over|during|"
    r"every|as of|before|since)\s+)?"
    r"(?:(?:an?|the)\s+(?:(?:initial|further|fixed|minimum|maximum|total)\s+)?(?:period|sum|amount|"
    r"rate)\s+of\s+)?(?P<bound>(?:at (?:the )?(?:least|most|latest)|(?:not|no) (?:less|more|later|"
    r"longer|earlier) than|(?:less|more) than|up to|a (?:minimum|maximum) of|approximately|about|"
    r"around|only|the)\s+)?(?:[an]{1,2}\s+)?)$",
    re.IGNORECASE,
)
_ATTACHED = re.compile(
    r"(?:['’]s?)?((?:\s+(?:prior|previous|advance|written|paid|unpaid|notice|leave|warning|salary|"
    r"pay))+)\b",
    re.IGNORECASE,
)
_PERIOD_OF = re.compile(
    r"\b(?:an?|the|its|their|this|that)\s+(?P<noun>(?:[a-z-]+\s+){0,2}[a-z-]+)\s+of\s+"
    r"(?:(?:at least|at most|up to|(?:not|no) (?:less|more) than)\s+)?$"
)
_STOP = re.compile(
    r"\s*(?:[,;:—–]|\b(?:and|but|provided|unless|except|which|whichever|whereupon|or|although|"
    r"while|so)\b).*$"
)
_PROVISO = re.compile(
    r"(?:[;:—–]|,\s+(?:and|but|provided|unless|except|which|whichever|whereupon|although|so)\b|"
    r"\s(?:provided|unless|except|but)\b).*$"
)
_SECOND = re.compile(rf"\b(?:not|no|nor|(?:and|or|but) (?:{_AUXILIARY}|has|have))\b")
_POINTING = re.compile(
    r"\b(?:above|below|following|foregoing|aforementioned|herein\w*|thereof|therein|thereto|you|we|"
    r"they|it|now|here|however|hereby|therefore|thus|(?:this|these|those|such)(?! (?:"
    r"agreement|contract|lease|policy|licen[cs]e)))\b",
    re.IGNORECASE,
)
_VERBS = (
    "survive last continue remain apply expire end begin start run cost take lapse pay receive "
    "earn include amount bear cover require allow give provide keep retain hold run work weigh "
    "measure need contain own offer get open close lie stand reach grow fall rise"
).split()
_DO = re.compile(rf"\b(?P<verb>{'|'.join(_VERBS)}|ha(?:ve|s))(?P<s>e?s)?\b")
_CUT = re.compile(r"\s(?=(?:under|after|before|upon|without|during|if|when|unless|where)\s)")
_VERB = re.compile(rf"\b(?:{_AUXILIARY}|has|have|had|be|been|agrees?)\b")
_SAID = re.compile(
    r"(?P<who>.+?)\s(?P<verb>shall|must|may|will|can)\s+(?P<no>not\s|never\s)?(?P<what>\w.*)"
)
_MOST_WORDS = (14, 12, 30)
"""Maximum words of a subject, of the part after a value, and of a question."""

_PAIRS = """
    terminate: end; terminated: ended; commence: start; commences: starts; commenced: started;
    remuneration: pay; retain: keep; retained: kept; disclose: reveal; disclosed: revealed;
    obligations: duties; notify: tell; notified: told; employee: member of staff;
    employees: staff; invoice: bill; invoices: bills; obtain: get; additional: further;
    destroy: get rid of; destroyed: got rid of; agreement: contract; annual: yearly;
    founded: set up; established: set up; approximately: about; utilize: use; salary: pay;
    reimbursed: paid back; reimburse: pay back; erased: wiped; informed: told;
    submit: hand in; submitted: handed in; expire: run out; expires: runs out;
    vacation: time off; booked: reserved; premises: building; penalty: fine;
    customer: client; customers: clients; supplier: vendor; licensee: licence holder;
    permitted: allowed; prohibited: forbidden; renew: extend; renews: extends; begins: starts;
    begin: start; commencement: start; incident: event; incidents: events; children: kids;
    physician: doctor; vehicle: car; discover: find; discovered: found;
    prior written notice: notice in writing; in respect of: about; prior to: before;
    subsequent to: after; remain in force: stay valid
"""
_SYNONYMS = dict(pair.strip().split(": ") for pair in _PAIRS.split(";"))
"""Formal words and the words that people use instead, in the same form."""
_SYNONYM = re.compile(
    rf"\b(?:{'|'.join(map(re.escape, sorted(_SYNONYMS, key=len, reverse=True)))})\b"
)
_DURATION = {
    "within": ("within what time", "how soon", "how quickly"),
    "by": ("by when", "how soon"),
    "for": ("for how long", "how long"),
    "during": ("for how long",),
    "over": ("over what period",),
    "after": ("after what time", "how long after that"),
    "upon": ("after how long",),
    "every": ("how often",),
    "in": ("in what time", "how quickly"),
    "at": ("after what time",),
    "": ("how long", "what length of time"),
}
_AMOUNT = {"": ("how much", "what amount"), "at": ("at what price",), "for": ("for how much",)}
_DATE = {
    "on": ("when", "on what date"),
    "in": ("when",),
    "as of": ("as of when", "from when"),
    "": ("when", "on what date"),
}
_DEFINITION_FORMS = (
    "What does {} mean?",
    "What counts as {}?",
    "How is {} defined?",
    "What is meant by {}?",
)
_SECTION = "What is said about {}?"
_NAMED = (
    "{question}, according to {name}?",
    "According to {name}, {lower}?",
    "In {name}, {lower}?",
)
_GERMAN = {
    "section": "Was gilt zum Thema {}?",
    "duration": "Wie lang ist die {}?",
    "amount": "Wie hoch ist die {}?",
    "percentage": "Wie hoch ist die {}?",
}


def questions_of(fact: StatedFact, random: Random) -> Iterator[str]:
    """Yield questions that the fact answers in several wordings, without a document's name."""
    if fact.language == "de":
        yield _GERMAN[fact.kind].format(fact.subject)
        return
    by_kind = {"definition": _definition, "party": _party, "section": _section, "rule": _rule}
    for question in by_kind.get(fact.kind, _quantity)(fact, random):
        if 3 < len(question.split()) <= _MOST_WORDS[2]:
            # Synonyms first: a question that repeats the text favours BM25.
            yield from dict.fromkeys((_reworded(question), question))


def shorter(question: str) -> Iterator[str]:
    """Yield the question cut before a condition or time, the shortest first, then whole."""
    ends = [cut.start() for cut in _CUT.finditer(question)]
    for end in ends:
        words = question[:end].split()
        while words and words[-1].casefold() in _COMMON | _DULL:
            words.pop()
        if len(words) >= 5 and len(_keywords(" ".join(words))) >= 2:
            yield f"{' '.join(words)}?"
    yield question


def with_name(question: str, name: str, random: Random) -> str:
    """Return the question with the name of the document."""
    bare = question.rstrip("?").rstrip()
    if bare.startswith("What is said about "):
        verb = "do" if name.endswith(("terms", "rules", "guidelines", "minutes")) else "does"
        return f"What {verb} {name} say about {bare.removeprefix('What is said about ')}?"
    if bare.startswith(("Was gilt ", "Wie hoch ", "Wie lang ")):
        return f"{bare} laut {name}?"
    form = random.choice(_NAMED)
    return _capital(form.format(question=bare, lower=_lower(bare), name=name))


def _quantity(fact: StatedFact, random: Random) -> Iterator[str]:
    sentence, (start, end) = fact.sentence, fact.value
    before, after = sentence[:start], sentence[end:].rstrip(" .;")
    leading = _LEADING.match(before)
    lead = leading.group().rstrip(", ") if leading else ""
    clause = re.split(r"[;:]\s", before[leading.end() :] if leading else before)[-1]
    if turned := _turned(fact, clause, after, random):
        condition = f" {_lower(lead)}" if lead and len(lead.split()) <= 12 else ""
        yield _asked(f"{turned}{condition}")
    period = _PERIOD_OF.search(before)
    if period and period["noun"] != "period" and fact.kind in ("duration", "amount"):
        wh = "how long" if fact.kind == "duration" else "how much"
        about = _STOP.sub("", after).strip()
        yield _asked(f"{wh} is the {period['noun']} {about}")


def _turned(fact: StatedFact, clause: str, after: str, random: Random) -> str | None:
    """Return the main clause as a question for the value; None if the clause does not allow it."""
    lead = _BEFORE.search(clause)
    assert lead is not None
    kept = clause[: lead.start("lead")].rstrip()
    attached = _ATTACHED.match(after)
    noun = attached[1].strip() if attached else ""
    rest = _STOP.sub("", after[attached.end() :] if attached else after).strip()
    if len(rest.split()) > _MOST_WORDS[1]:
        return None
    asked = _question_words(fact, (lead["prep"] or "").casefold(), lead["bound"] or "", noun)
    if asked is None:
        return None
    word = random.choice(asked)
    found = re.search(rf"(?<=\s)({_AUXILIARY})(?:\s+|$)", kept)
    if found:
        subject, auxiliary, verb = kept[: found.start()], found[1], kept[found.end() :]
        if re.match(r"not\b|never\b", verb):
            if not re.fullmatch(r"not (?:\w+ly )?exceed", verb):
                return None
            word = {"amount": "what amount", "percentage": "what percentage"}.get(
                fact.kind, "what time"
            )
    else:
        found = _DO.search(kept)
        if found is None:
            return None
        subject, verb = kept[: found.start()], kept[found.end() :]
        plain = "have" if found["verb"] in ("has", "have") else found["verb"]
        auxiliary = "does" if found["s"] or found["verb"] == "has" else "do"
        verb = f"{plain} {verb}"
    subject = subject.strip(" ,")
    is_clause = not re.search(r"[,:“”\"]", f"{verb}{rest}") and not _RELATIVE.search(verb)
    if not _is_subject(subject) or not is_clause or len(verb.split()) > _MOST_WORDS[0]:
        return None
    if rest.startswith("of ") and fact.kind in ("percentage", "amount"):
        if len(rest.split()) > 6:
            return None
        word, rest = f"{word} {rest}", ""  # "What percentage of the price must …?"
    if fact.kind == "percentage" and not verb.strip():
        return None
    auxiliary = "must" if auxiliary == "shall" else auxiliary
    turned = " ".join(filter(None, (word, auxiliary, _lower(subject), verb.strip(), rest)))
    return turned if len(_keywords(turned)) >= 3 else None


def _question_words(fact: StatedFact, prep: str, bound: str, noun: str) -> tuple[str, ...] | None:
    if "later" in bound or "latest" in bound or "earlier" in bound:
        prep = "within" if fact.kind == "duration" else "by"
    if noun:
        start = f"{prep} " if prep in ("upon", "with", "after", "for", "to", "on", "at") else ""
        return (f"{start}how much {noun}",)
    if prep == "of":
        return None
    if fact.kind == "duration":
        return _DURATION.get(prep)
    if fact.kind == "date":
        return _DATE.get(prep, (f"{prep} what date", f"{prep} when"))
    if fact.kind == "amount":
        return _AMOUNT.get(prep, (f"{prep} what amount",))
    return (f"{prep} what percentage".strip(),)


def _definition(fact: StatedFact, random: Random) -> Iterator[str]:
    is_a = re.fullmatch(r"(.+?)\s+(is|are|was|were)\s+(?:an?|the|one\s+of)\s+\w+", fact.subject)
    if is_a:
        yield f"What {is_a[2]} {_lower(is_a[1])}?"
        return
    term = random.choice((fact.subject, f"“{fact.subject}”"))
    yield from _two_of(_DEFINITION_FORMS, term, random)


def _party(fact: StatedFact, random: Random) -> Iterator[str]:
    forms = ("Which companies are the parties?", "Between which companies was this agreed?")
    yield random.choice(forms)


def _section(fact: StatedFact, random: Random) -> Iterator[str]:
    if topic := _topic(fact.subject):
        yield _SECTION.format(topic)


def _two_of(forms: Sequence[str], subject: str, random: Random) -> list[str]:
    order = [form.format(subject) for form in forms]
    random.shuffle(order)
    return order[:2]


def _rule(fact: StatedFact, random: Random) -> Iterator[str]:
    said = _SAID.match(fact.sentence)
    what = _PROVISO.sub("", said["what"].rstrip(" .")).strip() if said else ""
    if not said or not _is_subject(said["who"]) or _VERB.search(said["who"]):
        return
    # A list or a reference to another sentence leaves no whole question.
    if re.search(
        r"[,;:“”\"()]|\b(?:of|to|for|in|on|with|by|from|the|an?)$", what
    ) or _POINTING.search(f"{said['who']} {what}"):
        return
    if 3 <= len(what.split()) <= _MOST_WORDS[1] and not _SECOND.search(what):
        is_barred = said["no"] and said["verb"] in ("shall", "must")
        verb = "may" if is_barred else {"shall": "must"}.get(said["verb"], said["verb"])
        yield _asked(f"{verb} {_lower(said['who'])} {what}")


def _is_subject(words: str) -> bool:
    return words[:1].isalpha() and not (
        len(words.split()) > _MOST_WORDS[0]
        or _RELATIVE.search(words)
        or _PRONOUN.match(words)
        or _SUBORDINATE.match(words)
        or re.search(r"[,:“”\"()]|\b(?:you|we|they|it)\b", words)
    )


def _topic(heading: str) -> str:
    """Return a heading in the form that it has within a sentence; "" for a long or empty one."""
    words = heading.strip(" .:").split()
    if not words or len(words) > 8:
        return ""
    if heading.isupper() or (len(words) > 1 and all(w[:1].isupper() for w in words)):
        return " ".join(words).lower()
    return _lower(" ".join(words))


def _keywords(text: str) -> list[str]:
    words = re.findall(r"[^\W\d_][\w’'-]+", text)
    return [w for w in words if w.casefold() not in _COMMON and w.casefold() not in _DULL]


def _reworded(question: str) -> str:
    return _SYNONYM.sub(lambda found: _SYNONYMS[found.group()], question)


def _asked(words: str) -> str:
    return _capital(f"{' '.join(words.split()).rstrip(' .,;')}?")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """Return a text in the form within a sentence: a proper name keeps its capital."""
    first, _, rest = text.partition(" ")
    common = first.casefold() in _COMMON | _DULL
    return f"{first.lower()} {rest}".strip() if common else text


_COMMON = frozenset(
    "the a an each any all every either neither no both if where when unless upon after before on "
    "in for during except subject with under within at as notwithstanding following by from until "
    "to how what who which whose its their his her our your this these".split()
)
_DULL = frozenset(
    "is are was were be been shall must will may can should would could has have had do does did "
    "of and or not least most than more less later no period up also only such that there it they "
    "them he she we you him each other into out about per over so then those being".split()
)
