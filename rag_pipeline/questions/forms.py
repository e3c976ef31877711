"""Turn English sentences into questions, by a table of sentence forms.

A question keeps the words of its sentence. The finite verb moves before the subject. A sentence
fits a form as a whole or not at all.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from rag_pipeline.loading.quality import dictionary
from rag_pipeline.questions.words import either

FormKind = Literal["definition", "statement", "rule"]

MOST_WORDS = (11, 18)
"""Maximum words of a subject and of the rest of a clause."""
NO_SUBJECT = re.compile(
    rf"(?:{either('no_subjects')}|the (?:{either('no_heads')}|(?:high|low|larg|small|b|lat|earli|"
    r"cheap|long|short|old|new|near|bigg|great|fast|slow|heavi)est)|"
    r"there\w+|herein\w*|further\w*|more\w*|\w+ing|\w+ly)\b",
    re.IGNORECASE,
)
CLAUSE_IN = re.compile(rf"\b(?:{either('of_clauses')}|\w+ly)\b", re.IGNORECASE)
POINTING = re.compile(
    rf"\b(?:{either('pointers')}|(?-i:I|it|It)|in question|in addition|"
    r"the same(?! (?:as|time)\b)|e\.g|i\.e)\b",
    re.IGNORECASE,
)
"""Words that refer to another sentence. A question must not hold them."""
_UNCLEAN = re.compile(
    r"[:;“”„\"()\[\]«»]|\s[-–—]\s|\bfor reason of\b|\bthe (?:first|second)$|"
    r"\b(?:of|to|for|in|on|upon|with|by|from|at|as|and|or|the|an?|"
    "same)$"
)
_ACTS = rf"(?!(?:{either('no_duties')}|take effect)\b)[a-z]+"
"""Verbs of a duty. Verbs with which "shall" states a fact are left out."""
DUTY = re.compile(
    rf"be (?!governed|interpreted|construed|deemed|considered|entitled)"
    rf"(?:set|\w+(?:ed|en|id|pt|de|ld|nt|ne|ut|ught|un|rn))\b|{_ACTS}"
)
"""The rest of a clause that states a duty. Other clauses with "shall" state a fact."""
ITSELF = re.compile(
    r"\b[Tt]he (?:Agreement|Contract|Lease|Policy)\b(?! (?:[Aa]greement|of|number|holder|period)\b)"
)
"""A document's reference to itself. A question has the document's name instead."""


_NOUNS_AND = re.compile(
    r"\b\w+s and (?:[\w-]+ )?\w+s\b|\b[A-Z][\w’-]* and [A-Z]|"
    r"\b(?:of|for|in|on|to|with|by|from|at|the|an?) [\w-]+ and (?:the |an? )?[\w-]*[^\Ws]"
    r"(?=$| (?:of|for|in|on|to|with|by|from|at)\b)"
)
"""Two nouns with "and". Any other "and" may join a second verb, whose subject a question loses."""


class Asked(NamedTuple):
    """A question about a sentence, without the question mark.

    `kind` is the kind of the sentence's form. The answer is the rest of the sentence from the
    offset `answer`.
    """

    kind: FormKind
    question: str
    answer: int


def is_subject(words: str) -> bool:
    """Return whether an English text can be the whole subject of a question."""
    return bool(re.match(r"[^\W\d_]|[\d-]*\w+\b", words)) and not (
        len(words.split()) > MOST_WORDS[0]
        or NO_SUBJECT.match(words)
        or CLAUSE_IN.search(words)
        or POINTING.search(words)
        or _UNCLEAN.search(words)
        or "," in words
        or re.search(r"\bor \w+ing\b", words)
        or re.search(
            r"\b(?:figure|table|diagram|plot|graph|panel|example|listing)s?\b", words, re.I
        )
        or re.search(r"\b(\w{4,}\b.*) \1\b", words, re.IGNORECASE)
        or re.search(r"\b(?:and|or) \w+\b.*\b(?:and|or)\b|\b(?:you|i)\b", words, re.IGNORECASE)
    )


def is_clause(words: str) -> bool:
    """Return whether a text can end a question: short, without lists, asides or references."""
    return (
        len(words.split()) <= MOST_WORDS[1]
        and not _UNCLEAN.search(words)
        and not POINTING.search(words)
        and "," not in words
        and not re.search(r"\band\b", _NOUNS_AND.sub("", words))
        and not re.search(
            r"\b(?:or|but) (?:.* )?(?:shall|must|may|will|can|is|are|has|not)\b", words
        )
    )


_ONE_NOUN = re.compile(
    r"(?:.+ (?:of|to|for|in|on|by|with|within|into|from|at) )?"
    r"(?:the|these) (?:(?:default|underlying|current|actual|"
    r"whole|entire|possible|first|second|last|other|two|three|four) )?([a-z-]+)|"
    r"(?:der|die|das) ((?!\w+er(?:in)?$)\w{,9}|\w+(?:fenster|dialog))"
)


def is_vague(subject: str, about: str) -> bool:
    """Return whether a subject ends in "the" and a common noun that `about` lacks.

    `about` is the document's title and the section's heading. If they lack the noun, a reader
    cannot identify the subject: "the sequence", "die Frist", "the nature of the algorithm".
    A German subject is vague only if it is an article and a noun of at most 9 letters.
    """
    noun = _ONE_NOUN.fullmatch(subject)
    return noun is not None and (noun[1] or noun[2]).casefold() not in about.casefold()


def _is_a(found: re.Match[str]) -> Asked | None:
    words = found["s"].split()
    is_term = words[0] in ("a", "an") or all(w[0].isupper() for w in words)
    if not is_term or not is_subject(found["s"]) or re.match(r"[A-Z]+ies\b", found["s"]):
        return None
    no_term = rf"an? (?:{either('odd_terms')}|\w+ (?:way|option|example|choice|reason)\b)|.*[’']s? "
    if re.match(no_term, found["s"]):
        return None
    if words[0] in ("a", "an") and not found["o"].startswith("a"):
        return None  # "A simple example is the sum of …" defines nothing.
    return Asked("definition", f"what {found['v']} {found['s']}", found.start("o"))


def _barred(found: re.Match[str]) -> Asked | None:
    verb, rest = found["v"], found["rest"]
    if not is_subject(found["s"]) or not is_clause(rest) or len(rest.split()) < 3:
        return None
    if " never " in found[0] and verb in _BE.split("|"):
        return None  # A habit is no rule: "Are hand-held phones used while driving?"
    head = re.split(r" (?:of|to|for|in|on|at|with|from|by) ", found["s"])[0]
    is_many = re.search(r"[^sui]s$", head) and head.split()[-1][:-1].lower() in dictionary("en")
    if verb == "does" and (is_many or re.search(r" and \w+s\b", rest)):  # "JSON Schemas does not"
        return None
    if re.search(
        rf"\b(?:{either('no_prohibitions')}|at present)\b|^(?:mean|like|be (?:either|both|able))\b",
        rest,
    ):
        return None
    if verb in ("is", "are") and rest.startswith("to be "):
        verb, rest = "may", rest[3:]
    if verb in ("shall", "must"):
        verb = "may" if DUTY.match(rest) else "will"
    elif verb == "may" and rest.startswith("be "):
        if not DUTY.match(rest):
            return None  # "Money may not be a remedy" forbids nothing.
        verb = "can"
    return Asked("rule", f"{verb} {found['s']} {rest}", 0)


def _does(found: re.Match[str]) -> Asked | None:
    is_word = (found["n"] or found["m"]).casefold() in dictionary("en")
    asked = f"what does the {found['s'].removeprefix('the ')} {found['v'] or 'do'}"
    return None if is_word else Asked("statement", asked, found.start("o"))


_BE = "is|are|was|were"
ENGLISH: tuple[tuple[str, Callable[[re.Match[str]], Asked | None]], ...] = (
    (rf"(?P<s>(?:the )?(?:{either('things')}) (?P<n>\S*\w(?:\(\))?)|the (?P<m>\S*\w) "
     rf"(?:{either('things')})) (?P<o>(?:(?:is|can be) used to|(?P<v>provide|return)s|"
     rf"{either('deeds')}) (?!.*(?: not | example of | [-=] |\d\.\d|\bFigure |"
     r"\bSection |\(\d)).+)", _does),
    (r"(?P<s>.+?) (?P<v>is|are) (?P<o>(?:an?|the|one of the) (?!same\b|must\b)\w.+)", _is_a),
    (r"(?P<s>.+?) (?P<v>shall|must|may|will|can(?=not)|can|is|are|does|do) ?(?:not|"
     r"never) (?P<rest>[a-z][^,;]*?)"
     r"(?:[,;] (?:provided|unless|and|but|so)\b.*)?", _barred),
)  # fmt: skip
