"""Ask for a fact in several wordings, by reordering the sentence that states the fact."""

import re
from collections.abc import Iterable, Iterator
from random import Random

from rag_pipeline.answering.quantities.values import quantities
from rag_pipeline.questions.forms import (
    CLAUSE_IN,
    DUTY,
    ITSELF,
    NO_SUBJECT,
    is_clause,
    is_subject,
    is_vague,
)
from rag_pipeline.questions.german_forms import german_value
from rag_pipeline.questions.stated import StatedFact
from rag_pipeline.questions.words import VALUES, WORDINGS, either, word_list

_AUXILIARY = r"shall|must|will|may|can|is|are|was|were"
_BE = ("is", "are", "was", "were")
_BEFORE = re.compile(
    r"(?P<lead>(?:\b(?P<prep>for|within|in|on|by|of|upon|after|with|at|to|from|until|over|during|"
    r"every|as of|before|since)\s+)?"
    r"(?:(?:an?|the)\s+(?:(?:initial|further|fixed|minimum|maximum|total)\s+)?(?:period|sum|amount|"
    r"rate)\s+of\s+)?(?:\w+day,?\s+)?"
    r"(?P<bound>(?:at (?:the )?(?:least|most|latest)|"
    r"(?:not|no) (?:less|more|later|longer|earlier) than|"
    r"(?:less|more) than|up to|a (?:minimum|maximum) of|approximately|about|"
    r"around|only|the)\s+)?(?:[an]{1,2}\s+)?)$",
    re.IGNORECASE,
)
_ATTACHED = re.compile(
    r"(?:['’]s?)?((?:\s+(?:prior|previous|advance|written|paid|unpaid|notice|leave|warning|salary|"
    r"pay))+)\b",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(rf"(?:{either('follow_values')}|prior to)\b")
"""The first word after a value that no noun follows: "30 days after", not "30 days notice"."""
_PROVISO = re.compile(
    r"(?:;|,)\s+(?:and|but|payable|plus|including|as|since|because|financed|provided|unless|except|which|whichever|whereupon|although|so)\b.*$|"
    r"\s(?:unless|except)\b.*$"
)
_VERBS = {
    form: (auxiliary, base)
    for base, _, past in (verb.partition(":") for verb in word_list("value_verbs"))
    for form, auxiliary in (
        (base, "do"), (re.sub(r"(?<=[sh])$|(?<=go)$", "e", base) + "s", "does"),
        (past or re.sub(r"e$", "", base) + "ed", "did"),
    )
}  # fmt: skip
"""Forms of common verbs, with the auxiliary and the base form that a question needs."""
_VERB = re.compile(
    rf"\s(?P<v>{'|'.join(_VERBS)})(?= (?:in (?:full )?(?:force|effect)|effective|place|open|closed|"
    r"(?:the|an?|its|their|his|her|all|each|every|to|off|out|up|at|in|on)\b)|$)"
)
_OF_SUM = re.compile(
    rf"\b(?:an?|the) (?P<noun>(?:[a-z-]+ ){{0,2}}(?:{either('sums')}|lead time|"
    r"(?:notice|trial|waiting|probation\w*|grace|retention|warranty) period|"
    r"(?:interest|hourly|daily|day|tax) rate)) of (?:up to |at least |at most |about )?$"
)
"""A noun whose size is the value: "an allowance of 350 euros"."""
_GIVEN_BACK = re.compile(
    r"\b(?:credit|refund|waive|deduct|reimburse|return|cancell?|abolish)(?:s|d|ed)?\b"
)
_OTHER_TIME = re.compile(r"\b(?:for|on|of|upon) \w+$")
"""A noun before a period that may be the noun's: "is granted for payment within seven days"."""
_ORDERS = re.compile(
    r"(?!(?:the|an?|all|each|any|every|in|on|for|with|if|from|to|of|at|by|before|after|during|"
    r"until|when)\b)[a-z]+ (?:the|your|all|any) .+"
)
"""A demand: "clean the filter"."""
_JOINED = re.compile(
    r"\b(?:and|or) (?:[a-z]+s|[a-z]+ed|not) (?:on|in|at|by|until|the|an?|to|with)\b"
)
"""A second verb: "from 1 May and ends on …"."""
_AHEAD = ("before ", "in advance")
_BASE = re.compile(
    r"(?:not )?(?:be )?(?!(?:not|be|also|only|either|both|no|in|on|at|by|of|to|for)\b)[a-z]{2,}"
    r"(?: .*)?"
)
_PAYING = re.compile(rf"\b(?:{either('paying')})$")
"""A verb whose object is a sum."""
_GIVING = re.compile(r"\s+by \w+ing(?: the other(?: party)?)?$")
_REPEATED = re.compile(r"\b(\w+ \w+ \w+)\b.* \1\b", re.IGNORECASE)
_MOST_WORDS = (12, 24)
"""Maximum words of the part after a value, and of a question."""

_SLOT = re.compile(r"‹([^‹›|]*)(?:\|([^‹›]*))?›")
_NAMED = (
    "{question}, according to {name}?",
    "According to {name}, {lower}?",
    "In {name}, {lower}?",
)
_OF_NAMES = {
    "“": "„", "”": "“", "the mail": "der E-Mail", "the table": "der Tabelle",
    "the file": "der Datei", "the section": "Abschnitt", "“ of ": "“ in ",
}  # fmt: skip
"""Parts of names of documents in German, in the order in which they are replaced."""
_GERMAN_VERB = re.compile(
    r"^(?:(?:Innerhalb|Nach) welcher \w+ |(?:Für )?[Ww]ie (?:lang|lange|hoch|oft|viel) |"
    r"Welcher (?:Wert|Betrag) |(?:Bis |Ab |Seit )?[Ww]ann |"
    r"W(?:as|er|ie|o|ozu|oraus|ofür|arum) )?\w+(?: (?:man|sich)\b)?"
)
"""The first words of a German question up to its finite verb. The document's name follows."""


def questions_of(fact: StatedFact, random: Random) -> Iterator[str]:
    """Yield several wordings of a fact's question, for `with_name` or `without_name`."""
    made: Iterable[str | None] = [fact.question]
    if fact.kind in WORDINGS and not fact.question:
        # Only the first question about an option asks for a verb.
        is_noun = fact.kind == "option" and re.match("(?:The|An?|Path|M..imum|Number) ", fact.said)
        forms = WORDINGS[fact.kind][fact.language][bool(is_noun) :]
        made = [
            f.format(fact.subject.strip(" .:")) for f in random.sample(forms, min(2, len(forms)))
        ]
    elif fact.language == "de" and not fact.question:
        made = german_value(fact.sentence, fact.value, fact.kind, fact.about)
    elif not fact.question:
        made = [_turned(fact, random)]
    for question in map(_asked, filter(None, made)):
        is_long = len(question.split()) > _MOST_WORDS[1]
        if not is_long and len(ITSELF.findall(question)) < 3 and not _REPEATED.search(question):
            yield question


def with_name(question: str, name: str, random: Random, language: str = "en") -> str:
    """Return the question with the document's name in it. `random` chooses the form."""
    bare = question.rstrip("?").rstrip()
    if language == "de":
        for english, own in _OF_NAMES.items():
            name = name.replace(english, own)
    if "‹" in bare:
        does = "do" if name.endswith(("terms", "rules", "guidelines", "minutes")) else "does"
        return f"{_SLOT.sub(lambda s: s[1].replace('does', does).replace('@', name), bare)}?"
    if language == "de":
        return f"{_GERMAN_VERB.sub(lambda found: f'{found[0]} laut {name}', bare, count=1)}?"
    if ITSELF.search(bare) and "“" not in name:
        return _capital(f"{ITSELF.sub(name, bare, count=1)}?")
    form = random.choice(_NAMED)
    return _capital(form.format(question=bare, lower=bare[:1].lower() + bare[1:], name=name))


def without_name(question: str) -> str:
    """Return a question of `questions_of` without the part that names the document."""
    return _SLOT.sub(lambda slot: slot[2] or "", question)


def _turned(fact: StatedFact, random: Random) -> str | None:
    """Return the fact's clause as a question for its value, or None if the clause is unsuitable."""
    clause, after = fact.sentence[: fact.value[0]], fact.sentence[fact.value[1] :].rstrip(" .;")
    # "The Agreement is effective on … and will remain in effect for a period of …"
    clause = re.sub(r"^(the Agreement) .* and (will|shall) ", r"\1 \2 ", clause)
    if summed := _OF_SUM.search(clause):
        use = re.match(r" (?:for|per|on) [\w -]{3,40}$", after)
        is_unknown = re.fullmatch(either("vague_nouns"), summed["noun"]) and not use
        # A reader cannot know which fee is meant, or whether it is given back.
        is_old = NO_SUBJECT.match(f"the {summed['noun']}")  # "the old deposit"
        if is_unknown or is_old or _GIVEN_BACK.search(fact.sentence):
            return None
        how = {"duration": "how long", "amount": "how much"}.get(fact.kind, "how high")
        return f"{how} is the {summed['noun']}{use[0] if use else ''}"
    lead = _BEFORE.search(clause)
    assert lead is not None
    kept = clause[: lead.start("lead")].rstrip()
    attached = _ATTACHED.match(after)
    noun = attached[1].strip() if attached else ""
    after = re.sub(r"^,? and (?:then |is|are|was|were|will|can|must|\w+ed\b|\w+s\b).*", "", after)
    rest = _PROVISO.sub("", after[attached.end() :] if attached else after).strip()
    if (rest and not _FOLLOWS.match(rest)) or len(rest.split()) > _MOST_WORDS[0]:
        return None
    if _JOINED.search(rest) or quantities(rest):
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
        and not rest.startswith(_AHEAD)
        and fact.kind in ("amount", "duration")
        and not _PAYING.search(kept)
    ):
        return None
    if prep == "within" and _OTHER_TIME.search(kept):
        return None
    if re.search(r"\b(?:about|approximately|around|only|least|most|than|of|an?|and|or|if)$", kept):
        return None
    word = random.choice(asked)
    if fact.kind == "duration" and not prep and rest.startswith(_AHEAD):
        if not is_clause(rest):
            return None
        word, rest = f"how long {rest}", ""
    if fact.kind == "duration" and not prep and is_end:
        start = re.match(r"(?:from|after|following) (.+)", rest)
        word, rest = f"how long after {start[1]}" if start else "after what time", ""
    if fact.kind == "duration" and prep in ("every", "for") and _ORDERS.fullmatch(kept):
        if " and " in kept:
            return None
        return f"{word} should you {kept} {rest}" if is_clause(f"{kept} {rest}") else None
    if re.search(r"\b(?:provided|unless(?! (?:otherwise|earlier|sooner) \w+)|except)\b", after):
        return None  # The question would lose the condition.
    found = re.search(rf"(?<=\s)({_AUXILIARY})(?:\s+|$)", kept)
    if found:
        subject, auxiliary, verb = kept[: found.start()], found[1], kept[found.end() :]
        if auxiliary in ("shall", "must", "will", "may", "can") and not _BASE.fullmatch(verb):
            return None
    elif found := _VERB.search(kept):
        auxiliary, base = _VERBS[found["v"]]
        subject, verb = kept[: found.start()], base + kept[found.end() :]
        verb = f"{verb} to" if prep == "to" else verb
        head = re.split(r" (?:of|to|for|in|on|at|with|from|by) ", subject)[0]
        is_many = re.search(r"[^su]s$|(?:people|staff|children)$| and ", head)
        if (auxiliary == "do" and not is_many) or CLAUSE_IN.search(f"{verb} {rest}"):
            auxiliary = "did" if base == "cost" and not re.search(r"s\b", subject) else ""
        if not auxiliary or (auxiliary == "does" and is_many):
            return None
    else:
        return None
    subject = subject.strip()
    if prep == "within" and auxiliary not in ("shall", "must", "will"):
        word = "within what time"  # "How soon" asks for the earliest time.
    if prep == "within":
        rest = re.sub(r"^(?:of|from|following)\b", "after", rest)
    if re.match(r"(?:an?|per|each|every)\b", rest) and fact.kind == "duration":
        return None
    if fact.kind == "amount" and found[1] in _BE and verb.strip():
        return None
    is_bare = not prep and not re.search(r"\b(?:effective|is|was|dated|\w+s)$", kept)
    if fact.kind == "date" and (is_bare or re.match(r"an? ", subject)):
        return None  # "When was a helpful post written?", "the epoch 1 January 1970"
    if noun and not prep and " " in verb:
        return None
    # "The officer begins within 24 hours" is unclear without its heading.
    if prep == "within" and verb.strip() in ("begin", "start", "proceed") and not rest:
        return None
    if (
        not is_subject(re.sub(r"^the new (?=\w+ )", "the ", subject))
        or is_vague(subject, fact.about)
        or re.fullmatch(rf"an? (?:{either('vague_nouns')})", subject)
        or re.search(r"\b(?:not|never|no|exceed)\b|\b(?:or|and) \w+(?:ed\b|s \w)", verb)
    ):
        return None
    if quantities(verb) or re.search(r"\b(?:that|which|who)\b", verb):
        return None
    if not is_clause(f"{verb} x {rest}".rstrip()):
        return None
    is_part = fact.kind in ("percentage", "amount") or verb.startswith(("receive", "get", "have"))
    if rest.startswith("of ") and is_part:
        if fact.kind == "duration":  # "How many days of leave do employees receive?"
            word = f"how many {fact.said.split()[-1]}"
        if len(rest.split()) > 6 or prep:
            return None
        word, rest = f"{word} {rest}", ""  # "What percentage of the price must …?"
    if fact.kind == "percentage" and word == "what percentage":
        return None  # The question would lack the whole.
    # "shall" in a duty is "must". A clause about a term or a right states the future.
    if auxiliary == "shall":
        auxiliary = "must" if DUTY.match(verb) else "will"
    turned = " ".join(filter(None, (word, auxiliary, subject, verb.strip(), rest)))
    return turned if len(turned.split()) >= 5 else None


def _question_words(fact: StatedFact, prep: str, bound: str, noun: str) -> list[str] | None:
    if "later" in bound or "latest" in bound or "earlier" in bound:
        prep = "within" if fact.kind == "duration" else "by"
    asked = VALUES["notice" if noun else fact.kind].get(prep)
    return asked and [words.format(noun) for words in asked]


def _asked(words: str) -> str:
    words = re.sub(r"(?<=[a-z] )The (?=[A-Z])", "the ", " ".join(words.split()))
    return _capital(f"{words.rstrip(' .,;?')}?")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
