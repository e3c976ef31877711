"""Turn sentences into questions, by a table of English and German sentence forms.

A question keeps the words of its sentence. The finite verb moves before the subject. A sentence
fits a form as a whole or not at all.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

FormKind = Literal["definition", "condition", "statement", "rule"]

_MOST_WORDS = (9, 18)
"""Maximum words of a subject and of the rest of a clause."""
NO_SUBJECT = re.compile(
    r"(?:it|they|he|she|we|you|i|this|these|those|that|there|here|such|who|what|which|one|another|"
    r"none|nobody|nothing|no|neither|both|all|some|others?|most|many|any|few|much|and|or|but|nor|"
    r"then|also|thus|so|however|please|not|note|see|herein\w*|there\w+|its|his|her|their|our|my|"
    r"your|anything|everything|something|"
    r"the (?:same|former|latter|following|above|first|second|other|remaining|rest|foregoing|result|"
    r"example)|"
    r"if|where|when|while|unless|upon|after|before|on|in|for|during|except|subject|with|without|"
    r"under|within|at|as|notwithstanding|following|by|from|until|to|up|because|since|although|once|whether|"
    r"though|\w+ing|\w+ly|even|only|further\w*|more\w*|again|instead|otherwise|failure)\b",
    re.IGNORECASE,
)
_CLAUSE_IN = re.compile(
    r"\b(?:who|which|that|whose|where|if|when|unless|because|is|are|was|were|be|been|has|have|had|"
    r"shall|must|will|may|can|should|could|would|might|do|does|did|cannot|agrees?|means|not|than)\b",
    re.IGNORECASE,
)
POINTING = re.compile(
    r"\b(?:above|below|following|foregoing|aforementioned|aforesaid|herein\w*|hereto|hereunder|"
    r"hereof|thereof|therein|thereto|thereby|we|us|our|they|them|it|now|then|here|however|hereby|"
    r"there|therefore|thus|also|in addition|even|still|instead|already|this|these|those|such|"
    r"previous|next|see|e\.g|i\.e|etc)\b",
    re.IGNORECASE,
)
"""Words that refer to another sentence. A question must not hold them."""
_UNCLEAN = re.compile(
    r"[:;“”„\"()\[\]«»]|\s[-–—]\s|\b(?:of|to|for|in|on|upon|with|by|from|at|as|and|or|the|an?)$"
)
_IF_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|do(?:es)?(?: not)?|can(?:not)?|may|must|will|\w{3,}s|\w{3,}ed|"
    r"you \w+)\s\w"
)
_MAIN = re.compile(
    r"(?:you |(?:the|an?|any|all|each|either) [^,]{0,60}?|(?!I )[A-Z][^,]{0,40}? )"
    r"\b(?:shall|must|will|may|can|is|are|has)\b"
)
_WISHES = re.compile(r"you (?:\w+ )?(?:(?:would )?like|wish|want|need|have (?:any|a|further))\b")
DUTY = re.compile(
    r"be (?!governed|interpreted|construed|deemed|considered|entitled)"
    r"(?:set|\w+(?:ed|en|id|pt|de|ld|nt|ne|ut|ught|un|rn))\b|(?!be |become |remain |survive|"
    r"continue|constitute|mean |terminate|expire|apply|inure|retain |govern|include|have |"
    r"take effect|prevail)\w"
)
"""The rest of a clause that states a duty. Other clauses with "shall" state a fact."""
ITSELF = re.compile(
    r"\b[Tt]he (?:Agreement|Contract|Lease|Policy)\b(?! (?:[Aa]greement|of|number|holder|period)\b)"
)
"""A document that names itself. A question has the document's name instead."""


_ELSEWHERE = re.compile(
    r"\b(?:above|below|following|foregoing|as follows|folgende\w*|obige\w*|oben|unten|siehe)\b",
    re.IGNORECASE,
)
"""A reference to another sentence. An answer with one is not whole."""


class Asked(NamedTuple):
    """A question without its mark, its kind, and the offset in the sentence of its answer."""

    kind: FormKind
    question: str
    answer: int


def is_subject(words: str) -> bool:
    """Return whether an English text can be the whole subject of a question."""
    return bool(re.match(r"[^\W\d_]|[\d-]*\w+\b", words)) and not (
        len(words.split()) > _MOST_WORDS[0]
        or NO_SUBJECT.match(words)
        or _CLAUSE_IN.search(words)
        or POINTING.search(words)
        or _UNCLEAN.search(words)
        or "," in words
        or re.search(r"\b(\w{4,}\b.*) \1\b", words, re.IGNORECASE)
        or re.search(r"\b(?:and|or) \w+\b.*\b(?:and|or)\b|\b(?:you|i)\b", words, re.IGNORECASE)
    )


def is_clause(words: str, *, commas: bool = False) -> bool:
    """Return whether a text can end a question: short, without lists, asides or references."""
    return (
        len(words.split()) <= _MOST_WORDS[1]
        and not _UNCLEAN.search(words)
        and not POINTING.search(words)
        and (commas or "," not in words)
        and not re.search(
            r"\b(?:and|or|but) (?:.* )?(?:shall|must|may|will|can|is|are|has|not)\b", words
        )
    )


def is_german_subject(words: str) -> bool:
    """Return whether a German text can be the whole subject of a question."""
    return bool(re.fullmatch(_PHRASE, words)) and not _NO_GERMAN.search(words)


def asked_of(sentence: str, language: str) -> Iterator[Asked]:
    """Yield the questions of a sentence. Its first word is lower case, unless it is a name."""
    for pattern, make in _FORMS.get(language, ()):
        if found := pattern.fullmatch(sentence.rstrip(". ")):
            asked = make(found)
            if asked is not None:
                if not _ELSEWHERE.search(sentence, asked.answer):
                    yield asked
                return


def _condition(found: re.Match[str]) -> Asked | None:
    clause, main = found["clause"], found["main"]
    if (
        not is_clause(clause)
        or len(clause.split()) < 4
        or not _IF_FINITE.search(clause)
        or re.match(r"(?:\w+(?:ing|ed)|any|so|not|only|there|needed|no) ", clause)
        or not _MAIN.match(main)
        or POINTING.match(main)
    ):
        return None
    able = re.match(r"you (can|may|must) (?!be )", main)
    if _WISHES.match(clause) and not able:
        return None
    asks = f"what {able[1]} you do" if able else "what happens"
    return Asked("condition", f"{asks} {found['if'].lower()} {clause}", found.start("main"))


def _asks(template: str) -> Callable[[re.Match[str]], Asked | None]:
    def make(found: re.Match[str]) -> Asked | None:
        if not is_subject(found["s"]):
            return None
        base = re.sub(r"s(?= of| on|$)", "", found["v"], count=1)
        question = template.format(**found.groupdict(), base=base)
        return Asked("statement", question, found.start("o"))

    return make


def _reason(found: re.Match[str]) -> Asked | None:
    rest = found["rest"]
    if not is_subject(found["s"]) or not is_clause(rest) or not is_clause(found["o"], commas=True):
        return None
    return Asked("statement", f"why {found['v']} {found['s']} {rest}", found.start("o"))


def _is_a(found: re.Match[str]) -> Asked | None:
    words = found["s"].split()
    is_term = words[0] in ("a", "an") or all(w[0].isupper() for w in words)
    if not is_term or not is_subject(found["s"]) or re.match(r"[A-Z]+ies\b", found["s"]):
        return None
    return Asked("definition", f"what {found['v']} {found['s']}", found.start("o"))


def _rule(found: re.Match[str]) -> Asked | None:
    verb, rest, barred = found["v"], found["rest"], found["no"]
    if not is_subject(found["s"]) or not is_clause(rest) or len(rest.split()) < 3:
        return None
    if re.search(r"\b(?:not|no|nor|neither|only)\b|^(?:mean|be either|be both|be able) ", rest):
        return None
    if verb in ("will", "can") and not barred:
        return None  # It often depends on a condition in the sentence before.
    if verb in ("shall", "must") and ITSELF.match(found["s"]):
        verb = "will"
    elif verb == "must" or (verb == "shall" and DUTY.match(rest)):
        verb = "may" if barred else "must"
    elif verb == "shall":
        verb = "will"
    elif verb == "may" and rest.startswith("be "):
        verb = "can"
    return Asked("rule", f"{verb} {found['s']} {rest}", 0)


_ENGLISH: tuple[tuple[str, Callable[[re.Match[str]], Asked | None]], ...] = (
    (r"(?P<if>[Ii]f|[Ww]hen) (?P<clause>[^,]{12,140}), (?:then )?(?P<main>.{15,})", _condition),
    (r"(?P<s>.+?) (?P<v>is|are|was|were) used (?P<o>(?:to|for) \w.+)",
     _asks("what {v} {s} used for")),
    (r"(?P<s>.+?) (?P<v>contains|includes|specifies|describes|requires|determines|measures|"
     r"returns|represents|controls|consists of|depends on) (?P<o>\w\S* \S+ .+)",
     _asks("what does {s} {base}")),
    (r"(?P<s>.+?) (?P<v>is|are|was|were|must|can|will) (?P<rest>[^,]+?),? (?P<o>because .+)",
     _reason),
    (r"(?P<s>.+?) (?P<v>is|are|was|were) (?P<rest>\w+ed) (?P<o>(?:using|by \w+ing) .+)",
     _asks("how {v} {s} {rest}")),
    (r"(?P<s>.+?) (?P<v>is|are) (?P<o>(?:an?|the|one of the) (?!same\b|must\b)\w.+)", _is_a),
    (r"(?P<s>.+?) (?P<v>shall|must|may|will|can)(?P<no> not| never)? (?P<rest>[a-z][^,;]*?)"
     r"(?:[,;] (?:provided|unless|except|and|but|so)\b.*)?", _rule),
)  # fmt: skip

_NOUN = r"[A-ZÄÖÜ][\wäöüß-]*[a-zäöüß]"
_PHRASE = (
    rf"(?:(?:der|die|das|ein|eine|jede[rs]?) (?:[a-zäöüß]+e[rns]? ){{0,2}}{_NOUN}|{_NOUN})"
    r"(?: (?:des|der|von|vom|zur|zum|im|für|eines|einer) "
    rf"(?:[a-zäöüß]+e[rns]? )?{_NOUN}| [a-z][\w.-]*)?"
)
"""A German subject: article, adjectives, noun, and one attribute or name."""
_NO_GERMAN = re.compile(
    r"\b(?:er|es|sie|Sie|ihn|ihm|ihnen|dies\w*|jene\w*|wir|uns|unser\w*|ich|man|siehe|oben|unten|"
    r"hier|[Aa]ußerdem|[Aa]llerdings|"
    r"entweder|folgende\w*|obige\w*|so eine?\w*|solche\w*|dort|sogar|ebenfalls|"
    r"stattdessen|dabei|dazu|dafür|daher|deshalb|jedoch|auch|z\.B|d\.h|bzw)\b|^Nicht |"
    r"[:;“”„»«\"()\[\]]"
)
_IF = (
    r"(?P<clause>(?!Sie\b)[^,]{12,130} [a-zäöüß]+(?:t|n|e)), (?:so |dann )?"
    r"(?P<o>(?!\w+ Sie\b|(?:dass|wenn|falls|ob|weil|um|beispielsweise|und|oder|d\w[esr]|"
    r"(?:in|an|auf|mit|von|zu|für|bei|aus|nach) (?:de|da|di)\w+) ).{15,})"
)
_LED = r"(?!(?:der|er|es|man|sie|ich|wir|Sie|du|nur|sich) )"
_SAID = r"(?:(?!\bkein|\bnicht\b).)+"


def _german(kind: FormKind, template: str) -> Callable[[re.Match[str]], Asked | None]:
    def make(found: re.Match[str]) -> Asked | None:
        parts = {k: v or "" for k, v in found.groupdict().items()}
        held = " ".join(parts[k] for k in ("s", "rest", "clause", "o") if f"{{{k}}}" in template)
        # "Entsprechend kann …": a noun without an article is a subject in the plural alone.
        is_bare = " " not in parts.get("s", " ") and not parts["v"].endswith(("en", "nd"))
        if (
            len(held.split()) > _MOST_WORDS[1]
            or (is_bare and kind != "definition")
            or _NO_GERMAN.search(held)
            or held.count(",") > 1
            or (kind == "condition" and _NO_GERMAN.match(parts["o"]))
        ):
            return None
        question = " ".join(template.format(**parts).split())
        return Asked(kind, question, found.start("o") if kind != "rule" else 0)

    return make


_GERMAN: tuple[tuple[FormKind, str, str], ...] = (
    ("condition", rf"[Ww]enn {_IF}", "was geschieht, wenn {clause}"),
    ("condition", rf"(?:[Ff]alls|[Ss]ofern) {_IF}", "was gilt, falls {clause}"),
    ("statement", "SUBJECT (?P<v>dient|dienen) (?P<o>(?:der|dem|zum|zur|dazu)[ ,].+)",
     "wozu {v} {s}"),
    ("statement", "SUBJECT (?P<v>wird|werden) (?P<p>verwendet|benutzt|genutzt), (?P<o>um .+)",
     "wozu {v} {s} {p}"),
    ("statement",
     "SUBJECT (?P<v>wird|werden) (?P<o>(?:für|zum|zur) [^,]+) (?P<p>verwendet|benutzt|genutzt)",
     "wofür {v} {s} {p}"),
    ("statement", "SUBJECT (?P<v>legt|legen) (?P<o>[^,]+(?:, .+,)?) fest", "was {v} {s} fest"),
    ("statement", "SUBJECT (?P<v>besteht|bestehen) (?P<o>aus .+)", "woraus {v} {s}"),
    ("statement", r"SUBJECT (?P<v>enthält|enthalten|umfasst|umfassen|bestimmt|bestimmen|beschreibt|"
     r"beschreiben|bedeutet|ermöglicht|benötigt|erfordert)(?P<o>,? \w+ \w+ ?.+)", "was {v} {s}"),
    ("definition", rf"(?P<s>eine? {_NOUN}) (?P<v>ist) (?P<o>(?:eine?|das|der|die) \w+ .+)",
     "was {v} {s}"),
    ("statement", "SUBJECT (?P<v>ist|sind|wird|werden|muss|müssen|kann|können|darf|dürfen) "
     "(?P<rest>[^,]+), (?P<o>(?:weil|da) .+)", "warum {v} {s} {rest}"),
    ("rule", f"SUBJECT (?P<v>darf|dürfen) (?P<rest>{_LED}{_SAID}?)(?: nicht)?"
     f"(?P<o> {_SAID})", "{v} {s} {rest}{o}"),
    ("rule", f"SUBJECT (?P<v>muss|müssen) (?P<rest>{_LED}{_SAID})", "{v} {s} {rest}"),
)  # fmt: skip
_FORMS = {
    "en": tuple((re.compile(pattern), make) for pattern, make in _ENGLISH),
    "de": tuple(
        (re.compile(pattern.replace("SUBJECT", f"(?P<s>{_PHRASE})")), _german(kind, template))
        for kind, pattern, template in _GERMAN
    ),
}
