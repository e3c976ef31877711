"""Ask for a fact in several wordings, by reordering the sentence that states the fact."""

import re
from collections.abc import Iterable, Iterator
from random import Random

from rag_pipeline.questions.facts import FactKind, StatedFact
from rag_pipeline.questions.forms import DUTY, ITSELF, is_clause, is_subject, is_vague
from rag_pipeline.questions.german_forms import is_german_subject

_AUXILIARY = r"shall|must|will|may|can|is|are|was|were"
_BE = ("is", "are", "was", "were")
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
_FOLLOWS = re.compile(
    r"(?:of|from|after|before|to|for|in|on|at|by|per|upon|following|prior to|during|under|with|"
    r"when|if|until|an?|each|every|following)\b"
)
"""The first word after a value that no noun follows: "30 days after", not "30 days notice"."""
_PROVISO = re.compile(
    r"(?:;|,)\s+(?:and|but|provided|unless|except|which|whichever|whereupon|although|so)\b.*$|"
    r"\s(?:unless|except)\b.*$"
)
_VERB = re.compile(
    r"\b(?:(last|continue|remain|expire|begin|survive|take|cost|run|pay|receive|earn)s|"
    r"(last|continue|remain|expire|begin|survive))(?P<state> in (?:full )?(?:force|effect)| "
    r"effective)?$"
)
"""Verbs in the singular that are not also plural nouns, and verbs in the plural."""
_BASE = re.compile(
    r"(?:not )?(?:be )?(?!(?:not|be|also|only|either|both|no|in|on|at|by|of|to|for)\b)[a-z]{2,}"
    r"(?: .*)?"
)
_PAYING = re.compile(
    r"\b(?:pay|paid|receive|reimbursed?|charged?|contribute|deposit|costs?|is|are|was|were|be|"
    r"provide|earn|claim|spend|spent|lend|owe|award|awarded|fined?)$"
)
"""A verb whose object is a sum."""
_GIVING = re.compile(r"\s+by \w+ing(?: the other(?: party)?)?$")
_REPEATED = re.compile(r"\b(\w+ \w+ \w+)\b.* \1\b", re.IGNORECASE)
_MOST_WORDS = (12, 24)
"""Maximum words of the part after a value, and of a question."""

_DURATION = {
    "within": ("within what time", "how soon", "how quickly"),
    "by": ("by when",),
    "for": ("for how long", "how long"),
    "over": ("over what period",),
    "after": ("after what time",),
    "every": ("how often",),
    "": ("how long",),
}
_DATE = {
    **{"on": ("when", "on what date"), "": ("when",), "by": ("by when", "by what date")},
    **{prep: (f"{prep} when",) for prep in ("as of", "until", "from", "since")},
    "in": ("when",),
}
_FORMS: dict[FactKind, dict[str, tuple[str, ...]]] = {
    "definition": {
        "en": ("What does “{}” mean?", "How is “{}” defined?", "What is meant by “{}”?")
    },
    "party": {"en": ("Which companies are the parties?",)},
    "section": {"en": ("What is said about “{}”?",), "de": ("Was steht zum Thema „{}“?",)},
    "abbreviation": {
        "en": ("What does {} stand for?", "What does the abbreviation {} stand for?"),
        "de": ("Wofür steht die Abkürzung {}?",),
    },
    "option": {"en": ("What does the option {} do?",), "de": ("Was bewirkt die Option {}?",)},
}
"""Questions with the subject of a fact as `{}`, by kind and language."""
_NAMED = (
    "{question}, according to {name}?",
    "According to {name}, {lower}?",
    "In {name}, {lower}?",
)
_GERMAN_TURNED = re.compile(
    r"(?P<s>[^,:;()]{3,60}?) (?P<v>ist|sind|wird|werden|muss|müssen|darf|dürfen|kann|können) "
    r"(?P<between>[^,:;()]*?)(?P<prep>innerhalb von|binnen|für|nach|alle) $"
)
_GERMAN_ASKS = {
    **dict.fromkeys(("innerhalb von", "binnen"), "innerhalb welcher Frist"),
    **{"für": "für wie lange", "nach": "nach welcher Zeit", "alle": "wie oft"},
}
_GERMAN_VERB = re.compile(
    r"^(?:(?:Innerhalb|Nach) welcher \w+ |(?:Für )?[Ww]ie (?:lang|lange|hoch|oft|viel) |"
    r"W(?:as|ie|o|ozu|oraus|ofür|arum) )?\w+(?: (?:man|sich)\b)?"
)
"""The first words of a German question up to its finite verb. The document's name follows."""
_GERMAN_IS = re.compile(
    r"(?P<s>(?:(?:der|die|das|eine?) )?[^,:;()]{3,80}?) (?P<v>beträgt|betragen|dauert|dauern|"
    r"kostet|kosten) (?P<bound>höchstens |mindestens |maximal |bis zu |etwa |rund )?$"
)
_GERMAN_SUM_OF = re.compile(
    r"(?:der|die|das|eine?) [^,]*\b(?:die|eine) (?P<noun>[A-ZÄÖÜ][\wäöüß-]+) (?:von|in Höhe von)\s+"
    r"(?:höchstens |mindestens |maximal |bis zu |etwa )?$"
)
"""A feminine German noun before its value, in a sentence that does not begin with a condition."""


def questions_of(fact: StatedFact, random: Random) -> Iterator[str]:
    """Yield several wordings of the question that a fact answers. They name no document."""
    made: Iterable[str | None] = [fact.question]
    if fact.kind in _FORMS and not fact.question:
        forms = [
            form.format(fact.subject.strip(" .:")) for form in _FORMS[fact.kind][fact.language]
        ]
        random.shuffle(forms)
        made = forms[:2]
    elif not fact.question:
        made = _german_quantity(fact) if fact.language == "de" else [_turned(fact, random)]
    for question in map(_asked, filter(None, made)):
        is_long = len(question.split()) > _MOST_WORDS[1]
        if not is_long and len(ITSELF.findall(question)) < 3 and not _REPEATED.search(question):
            yield question


def with_name(question: str, name: str, random: Random, language: str = "en") -> str:
    """Return the question with the document's name in it. `random` chooses the form."""
    bare = question.rstrip("?").rstrip()
    if language == "de":
        name = name.replace("“", "„").replace("”", "“")
        if bare.startswith("Was steht "):
            return f"{bare.replace('Was steht ', f'Was steht in {name} ', 1)}?"
        return f"{_GERMAN_VERB.sub(lambda found: f'{found[0]} laut {name}', bare, count=1)}?"
    if bare.startswith("What is said about "):
        verb = "do" if name.endswith(("terms", "rules", "guidelines", "minutes")) else "does"
        return f"What {verb} {name} say about {bare.removeprefix('What is said about ')}?"
    if bare == "Which companies are the parties":
        return f"{bare} to {name}?"
    if bare.startswith("What does the option "):
        return f"{bare} in {name}?"
    if ITSELF.search(bare) and "“" not in name:
        return _capital(f"{ITSELF.sub(name, bare, count=1)}?")
    form = random.choice(_NAMED)
    return _capital(form.format(question=bare, lower=bare[:1].lower() + bare[1:], name=name))


def _german_quantity(fact: StatedFact) -> Iterator[str]:
    before, after = fact.sentence[: fact.value[0]], fact.sentence[fact.value[1] :].rstrip(" .")
    is_time = fact.kind == "duration"
    if re.search(r"[:;()„“»«]", f"{before}{after}"):
        return
    if (said := _GERMAN_IS.fullmatch(before)) and not after.count(","):
        if is_vague(said["s"], fact.about):
            return
        words = {"d": "wie lange", "k": "wie viel"}.get(said["v"][0])
        if words:
            yield f"{words} {said['v']} {said['s']}"
        else:
            verb = "ist" if said["v"] == "beträgt" else "sind"
            yield f"wie {'lang' if is_time else 'hoch'} {verb} {said['s']}"
    elif said := _GERMAN_SUM_OF.fullmatch(before):
        yield f"wie {'lang' if is_time else 'hoch'} ist die {said['noun']}"
    elif is_time and (said := _GERMAN_TURNED.fullmatch(before)) and "," not in after:
        words = _GERMAN_ASKS[said["prep"]]
        if is_german_subject(said["s"]):
            yield f"{words} {said['v']} {said['s']} {said['between']} {after}"


def _turned(fact: StatedFact, random: Random) -> str | None:
    """Return the fact's clause as a question for its value, or None if the clause is unsuitable."""
    clause, after = fact.sentence[: fact.value[0]], fact.sentence[fact.value[1] :].rstrip(" .;")
    lead = _BEFORE.search(clause)
    assert lead is not None
    kept = clause[: lead.start("lead")].rstrip()
    attached = _ATTACHED.match(after)
    noun = attached[1].strip() if attached else ""
    rest = _PROVISO.sub("", after[attached.end() :] if attached else after).strip()
    if (rest and not _FOLLOWS.match(rest)) or len(rest.split()) > _MOST_WORDS[0]:
        return None
    prep = (lead["prep"] or "").casefold()
    if noun and (given := _GIVING.search(kept)):
        kept, prep = kept[: given.start()], "with"
    if noun and rest.startswith("to "):
        rest = ""  # "notice to the other party"
    asked = _question_words(fact, prep, lead["bound"] or "", noun)
    if asked is None or re.search(r"\b(?:an?|the)\s+$", lead["lead"]):
        return None
    is_end = re.search(r"\b(?:terminate|expire|end|lapse)s?$", kept)
    if (
        not prep
        and not noun
        and not is_end
        and fact.kind in ("amount", "duration")
        and not _PAYING.search(kept)
    ):
        return None
    if re.search(r"\b(?:about|approximately|around|only|least|most|than|of|an?|and|or|if)$", kept):
        return None
    word = random.choice(asked)
    if fact.kind == "duration" and not prep and is_end:
        word, rest = "when", ""  # "shall expire two years from …"
    found = re.search(rf"(?<=\s)({_AUXILIARY})(?:\s+|$)", kept)
    if found:
        subject, auxiliary, verb = kept[: found.start()], found[1], kept[found.end() :]
        if auxiliary in ("shall", "must", "will", "may", "can") and not _BASE.fullmatch(verb):
            return None
    elif found := _VERB.search(kept):
        subject = kept[: found.start()]
        verb = f"{found[1] or found[2]}{found['state'] or ''}"
        auxiliary = "does" if found[1] else "do"
    else:
        return None
    subject = subject.strip()
    if prep == "within":
        rest = re.sub(r"^(?:of|from|following)\b", "after", rest)
    if re.match(r"(?:an?|per|each|every)\b", rest) and (fact.kind == "duration" or found[1] in _BE):
        return None
    if fact.kind == "amount" and found[1] in _BE and verb.strip():
        return None
    if noun and not prep and " " in verb:
        return None
    if (
        not is_subject(subject)
        or is_vague(subject, fact.about)
        or re.search(r"\b(?:not|never|no|exceed)\b", verb)
    ):
        return None
    if not is_clause(f"{verb} x {rest}".rstrip()) or re.search(r"\b(?:that|which|who)\b", verb):
        return None
    if rest.startswith("of ") and fact.kind in ("percentage", "amount"):
        if len(rest.split()) > 6 or prep:
            return None
        word, rest = f"{word} {rest}", ""  # "What percentage of the price must …?"
    if fact.kind == "percentage" and (not verb.strip() or word == "what percentage"):
        return None  # without the whole
    # "shall" in a duty is "must". A clause about a term or a right states the future.
    if auxiliary == "shall":
        auxiliary = "must" if DUTY.match(verb) else "will"
    turned = " ".join(filter(None, (word, auxiliary, subject, verb.strip(), rest)))
    return turned if len(turned.split()) >= 5 else None


def _question_words(fact: StatedFact, prep: str, bound: str, noun: str) -> tuple[str, ...] | None:
    if "later" in bound or "latest" in bound or "earlier" in bound:
        prep = "within" if fact.kind == "duration" else "by"
    if noun:
        if prep not in ("", "upon", "with", "after", "on"):
            return None
        return (f"{prep} how much {noun}".lstrip(),)
    if fact.kind == "duration":
        return _DURATION.get(prep)
    if fact.kind == "date":
        return _DATE.get(prep)
    if fact.kind == "amount":
        return ("how much",) if not prep else None
    return {"": ("what percentage",), "by": ("by what percentage",)}.get(prep)


def _asked(words: str) -> str:
    return _capital(f"{' '.join(words.split()).rstrip(' .,;?')}?")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
