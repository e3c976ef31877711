"""Split English and German texts into clauses, and read what each of them denies.

A clause is negative if it has an odd number of negations: "not", "prohibited", "keine". Conditions
and exceptions are clauses of their own.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rag_pipeline.answering.words import WORD, same_word, sense_of, stems
from rag_pipeline.imports import compiled

_NEGATION = re.compile(
    r"\b(?:no(?!\.\s*\d)|not|never|neither|nor|none|nobody|nothing|nowhere|cannot|\w+n['’]t|without|"
    r"hardly|rarely|scarcely|barely|unless|kein\w*|nicht|nichts|nie|niemals|niemand\w*|nirgends|"
    r"weder|kaum|ohne|keinesfalls|keineswegs|es sei denn)\b"
)
_NO_NEGATION = re.compile(
    r"\bnot only\b|\bnicht nur\b|\bor not\b|\b(?:but )?not limited to\b|\bwithout limitation\b|"
    r"\bfail(?:s|ed)? to (?:comply|pay|perform)\b|\bfor no other (?:purpose|reason)s?\b|"
    r"\bnicht zuletzt\b|\bnot to mention\b"
)
_NEITHER = re.compile(r"\b(neither|weder)\b([^.;]*?)\b(?:nor|noch)\b")
_ORDERED = tuple(
    (re.compile(pattern), order)
    for pattern, order in (
        (r"\bes sei denn, (?:dass )?", "es sei denn "),
        # A clause that leads: "unless she objects, it passes" is "it passes unless she objects".
        (r"(^|[.;!?\n] ?)((?:if|unless|provided|even (?:if|when)|save for|except for|wenn|falls|"
         r"sofern|soweit|auch wenn|selbst wenn)\b[^,.;]*), ([^.;!?\n]+)", r"\1\3 \2"),
        (r"(^|[.;!?\n] ?)((?:since|because|as|while|although|though|"
         r"obwohl|weil|da|während)\b[^,.;]*),", r"\1\2;"),
        (r", (?=(?:so|as|because|since|denn|weil|da) )|,? (?:außer dass|except that) ", "; "),
        (r", ((?:not|nicht) [^,.;]+), (?:but|sondern)\b", r"; \1; "),
        # "The firm, which sells no chairs, repairs them", and "it is forbidden, the door to open".
        (r", ((?:der|die|das|den|dem|deren|dessen) [^,.;\n]{5,120}(?:t|en)), "
         r"(?=[a-zäöü])([^.;!?\n]*)", r" \2; \1"),
        (r"\b(everyone|everybody|anyone|all|none|nobody) but\b", r"\1 except"),
        (r"\b(es ist (?:nicht )?\w+), (?=[^.;]{0,120}\bzu \w+en\b)", r"\1 "),
    )
)  # fmt: skip
"""Orders of clauses, and the order in which they are read."""
_REWORDED = {
    "cancelled": r"\b(?:(?:is|are|was|were|been) off(?![ -]limits)|call(?:s|ed)? off)\b",
    "rejected": r"\b(?:turn|vot)(?:e?s|ed)? down\b|\b(?:vot|decid)ed against\b|"
    r"\bstimm\w+ (?:\w+ )?gegen\b",
    "approved": r"\bvot(?:es?|ed) (?:for|in favour of)\b|\bstimm\w+ (?:\w+ )?für\b",
    "eingeschaltet": r"\b(?:switch|turn)(?:es|s|ed)? (?:it )?on\b",
    "ausgeschaltet": r"\b(?:switch|turn)(?:es|s|ed)? (?:it )?off\b",
    "held": r"\b(?:take|takes|taking|took) place\b",
    "not": r"\bfail(?:s|ed)? to\b",
    "none": r"\bnot (?:a single|one)\b|\bnicht eine?[rs]?\b(?= (?:de[rs]|einzige\w*)\b)",
    "some": r"\bnot (?:all|every|each)\b|\bnicht (?:alle|jede)",
    "excluded": r"\brul(?:es?|ed) out\b|\b(?:left|leaves?) out\b",
    "gratis": r"\b(?:free of charge|at no (?:extra |additional )?(?:cost|charge)|for free)\b|"
    r"\bkoste[nt]+ nichts\b|\bcosts? nothing\b|(?<!-)\bfree\b(?! (?:to|from|of|time))(?!-)",
    "kostenpflichtig": r"\bcosts? extra\b|\bfor a fee\b|\bgegen (?:gebühr|aufpreis|entgelt)\b",
    "not changed": r"\b(?:remain\w*|stay\w*|kept) (?:unchanged|constant|the same)\b",
    "prohibited": r"\boff[ -]limits\b",
    "always": r"\b(?:in (?:any|every|each|all) cases?|without exception|(?:in|auf) jede[mn] fall|"
    r"ohne ausnahme)\b",
    "maximum ": r"\b(?:höchst|maximal)(?=[a-zäöü]{4})",
    "minimum ": r"\bmindest(?=[a-zäöü]{4})(?!ens)",
    "unter": r"\bnoch (?:nicht|keine?n?)(?= \S+ (?:jahr|monat|tag|woche))",
}
"""Wordings that have the sense of one word."""
_PARTICLES = frozenset(
    "ab an auf aus bei ein fest fort frei los mit nach statt vor weg zu zurück".split()
)
_LEAST = re.compile(
    r"\bno(?:t|thing)? (?:less|fewer|earlier|sooner) than\b|\bat least\b|\bminimum\b|"
    r"(?<!\bno )(?<!\bnot )\b(?:more than|exceeds?|over(?= \d))\b|\bor more\b|\boder mehr\b|"
    r"(?<!nicht )\bmehr als\b|\b(?:mindestens|wenigstens|frühestens)\b|nicht unterschreit\w+|"
    r"\bup to(?=(?: \S+){1,3} (?:before|prior to)\b)|"
    r"\buntil(?=(?: \S+){1,3} (?:before|prior to)\b)|\bbis(?=(?: \S+){1,3} vor\b)"
)
_MOST = re.compile(
    r"\bno(?:t|thing)? (?:more|greater|later|longer) than\b|\bat (?:the )?(?:most|latest)\b|"
    r"\bmaximum\b|\b(?:less|fewer) than\b|\bup to\b|\bwithin\b|\b(?:not|nicht) (?:to )?exceed\b|"
    r"\bor (?:less|fewer)\b|\boder weniger\b|"
    r"\b(?:höchstens|maximal|spätestens|innerhalb|binnen)\b|\bweniger als\b|\bbis zu\b|"
    r"\bnicht mehr als\b|\bnicht (?:übersteig|überschreit)\w+"
)
ALL = re.compile(
    r"\b(?:all|every\w*|any(?:one|body)|each|always|both|at any time|"
    r"alle[nrs]?|jede[mnrs]?|beide[nrs]?|sämtliche\w*|stets|immer|jederzeit)\b"
)
SOME = re.compile(
    r"\b(?:some|several|(?<!at )most|majority|(?<!a )few|wenige|a number of|"
    r"\d+ of (?:the )?\d+|sometimes|occasionally|usually|einige\w*|manche\w*|"
    r"manchmal|meiste\w*|meist|mehrheit|teilweise|gelegentlich)\b"
)
ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschließlich|lediglich)\b")
MODAL = re.compile(
    r"\b(?:shall|must|may|might|can|could|will|would|should|need|darf|dürfen|muss|müssen|kann|können|"
    r"soll|sollen|wird|werden)\b"
)
_NO_CONTENT = re.compile("|".join(p.pattern for p in (_NEGATION, ALL, SOME, ONLY, MODAL)))
_WITHOUT = (
    r"without|with no|except(?: for)?|save for|with the exception of|unless|other than|apart from|"
    r"instead of|rather than|ohne|außer(?! der (?:reihe|stadt|welt))(?! betrieb)|bis auf|"
    r"mit ausnahme (?:von|der|des)|es sei denn|(?:an)?statt(?= (?:de[rs]|eine[rs])\b)|anstelle"
)
_VERB_AFTER = r"\b(?:darf|dürfen|kann|können|muss|müssen|soll|sollen|ist|sind|wird|werden|gibt)\b"
"""A verb that ends a phrase at the beginning of a German clause."""
_ASIDE = re.compile(
    rf"\b(?P<no>{_WITHOUT})\b(?:(?<=außer)(?: de[mnr])? \w+|(?:(?!{_VERB_AFTER})[^,;.])*)|"
    r"\b(?P<even>even (?:if|when|with(?!out))|auch (?:wenn|bei)|selbst (?:wenn|bei))\b[^,;.]*|"
    r"\b(?P<if>if|when|where|provided|(?<!\w )falls|"
    r"wenn|sofern|soweit)\b[^,;.]*|\b(?:which|who)\b[^,;.]*|"
    r"^\s*(?P<first>wird|werden|ist|sind|war|hat|haben|kann|soll|muss|darf)\b[^,;.]*(?=,)"
)
_ONLY_IF = ("provided", "sofern")
_UNLESS = ("unless", "es sei denn")
_EXCEPTS = re.compile(r"except|save for|with the exc|other than|apart|außer|bis auf|mit ausnahme")
_BREAK = re.compile(
    r"[;!?\n]|(?<!\b\d)(?<!\b\d\d)[.:](?!\d)|,? (?=nor\b)|"
    r"\b(?:but|whereas|although|though|however|aber|sondern|jedoch|obwohl)\b|"
    r", (?:and|und|or|oder)\b|"
    r"\b(?:and|or)(?= (?:shall|may|must|will|can|is|are|does|do|has|have)\b)|"
    r"\b(?:and|und)(?= (?:\w+ )?(?:not|never|no|nicht|nie|kein\w*)\b)|"
    r",(?= (?:the|each|either|neither|no|it|they|we|you|der|die|das)\b)"
)
_ANAPHOR = re.compile(r"\s*(?:it|they|this|these|he|she|er|sie|es|dies\w*)\b")
_PREFIX = re.compile(r"^(?:un|in|il|im|ir|non-?|dis|miss?|nicht-?)(?=\w{4})")
_ABLE = re.compile(r"[ai]ble$|(?:lässig|bar)(?:e[mnrs]?)?$")
"""The end of an adjective that a prefix denies: "impassable", "unzulässig"."""
_SUFFIX = re.compile(r"(?<=\w{3})(?:less|los|frei)(?:e[mnrs]?)?$")
LIGHT = frozenset(
    "right rights authority power circumstances event case way recht befugnis required needed "
    "necessary possible available valid nötig erforderlich notwendig möglich".split()
)
_NOBODY = re.compile(r"\b(?:neither|nobody|none|nothing|weder|niemand\w*|nichts)\b")
_NEAR = 2
"""Number of content words after a negation that it may deny."""


class Clause(NamedTuple):
    """A clause of a text, its content words, and what it denies or restricts."""

    text: str
    words: tuple[str, ...]
    """Content words, without negations."""
    denied: tuple[str, ...]
    """Content words next to the negations, or all content words after "nobody" or "neither"."""
    negative: bool
    restricted: bool
    """Whether the clause has "only" or an exception."""
    conditional: bool = False
    """Whether a clause such as "if …" or "who …" follows."""
    excepted: bool = False
    """Whether a phrase such as "without …" follows."""
    is_condition: bool = False
    """Whether the clause itself is a condition, such as "if the rent is late"."""
    exception: tuple[str, ...] = ()
    """The words after "except" or "without", which `words` includes."""


def clauses(text: str, other: str) -> Iterator[Clause]:
    """Yield the clauses of a text. A phrase such as "without a key" is a separate clause.

    `other` is the text to compare with. If it has "safe", "unsafe" counts as a negation.
    """
    words = frozenset(WORD.findall(other))
    for pattern, order in _ORDERED:
        text = pattern.sub(order, text)
    text = _NO_NEGATION.sub(" ", text)
    for word, wording in _REWORDED.items():
        text = compiled(wording).sub(word, text)
    text = _NEITHER.sub(r"\1 \2 or", text)
    last: Clause | None = None
    for part in _BREAK.split(text):
        asides = list(_ASIDE.finditer(part))
        excepts = any(_EXCEPTS.match(aside["no"] or "") for aside in asides)
        main = _clause(_ASIDE.sub(" ", part), words, False, excepts)
        kinds = [bool(aside["no"]) for aside in asides]
        main = main._replace(conditional=False in kinds, excepted=True in kinds)
        if last and _ANAPHOR.match(part):
            main = main._replace(words=(*last.words[:1], *main.words))
        if last and main.negative and len(main.words) < 2:
            # "Lunch is included, dinner is not" and "may be given, but not sold".
            main = main._replace(words=(*last.words, *main.words))
        yield (last := main)
        for aside in asides:
            begin = aside.end("no") if aside["no"] else aside.start()
            # "Not … without consent" is a double negation.
            negative = bool(aside["no"]) and not main.negative
            clause = _clause(part[begin : aside.end()], words, negative, False)
            if aside["even"]:
                clause = clause._replace(negative=clause.negative ^ main.negative)
            if aside["no"] or aside["even"]:
                if aside["no"] in _UNLESS:
                    condition = _clause(part[begin : aside.end()], words, True, False)
                    yield condition._replace(is_condition=True)
                whole = (*main.words, *clause.words)
                named = tuple(word for word in clause.words if word not in LIGHT)
                clause = clause._replace(words=whole, exception=named)
            elif aside["if"] and (aside["if"] in _ONLY_IF or main.restricted):
                whole = (*main.words, *clause.words)
                yield clause._replace(words=whole, negative=main.negative)
            yield clause._replace(is_condition=bool(aside["if"] or aside["first"]))


def _clause(text: str, other: frozenset[str], negative: bool, excepts: bool) -> Clause:
    number = int(negative)
    content: list[str] = []
    denials: list[tuple[int, bool]] = [(0, False)] * negative
    """The number of content words before each negation, and whether these may be denied, too."""
    found = WORD.findall(_MOST.sub(" ", _LEAST.sub(" ", text)))
    particle = found[-1] if found and found[-1] in _PARTICLES else ""
    for word in found:
        if particle and sense_of(particle + word):
            word = particle + word  # "lehnt … ab"
        sense = None if ONLY.fullmatch(word) else sense_of(word)
        bare = _PREFIX.sub("", _SUFFIX.sub("", word))
        if _NEGATION.fullmatch(word) or (sense is not None and sense.negates):
            number += 1
            denials.append((len(content), sense is not None))
        # "unsafe" is a negation of "safe" in the other text.
        elif (
            bare != word
            and sense is None
            and word not in other
            and (_ABLE.search(word) or any(same_word(bare, held) for held in other))
        ):
            number += 1
            denials.append((len(content), True))
            word = bare
        if stems(word) and not _NO_CONTENT.fullmatch(word):
            content.append(word)
    denied = []
    for at, both in denials:
        after = [word for word in content[at:] if word not in LIGHT]
        after = after if _NOBODY.search(text) else after[:_NEAR]
        denied += after
        if both or not after:
            denied += content[max(0, at - _NEAR) : at]
    restricted = excepts or bool(ONLY.search(text))
    return Clause(text, tuple(content), tuple(denied), number % 2 == 1, restricted)
