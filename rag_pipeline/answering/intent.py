"""Read from a question the kind of answer, the domain and the entities, by rules."""

import re
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final, get_args

from rag_pipeline.datamodels import Kind as Kind
from rag_pipeline.imports import compiled

GENERAL: Final = "general"
"""The domain of every question by rules. Only a chat model tells others."""
KINDS: tuple[str, ...] = get_args(Kind)

_A_NUMBER = (
    r"\s+(?:[\d$€£]|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|"
    r"thirty|forty|fifty|sixty|ninety|half|ein\w*|zwei|drei|vier|fünf|sechs|acht|zehn|une?|deux|"
    r"trois|dix|una?|dos|tres|diez)\b)"
)
"""Matches a number. After "than" it is a limit ("no later than ten days"), not a comparison."""
_NOW_AND_THEN = (
    r"(?:last|this) (?:year|season|month|quarter)\b[^?]{1,80}\b(?:this|last) (?:year|season|month|"
    r"quarter)",
    r"\b(?:letzte\w*|vorige\w*|diese\w*) (?:jahr|saison|monat)\w*\b[^?]{1,80}\b(?:diese\w*|"
    r"letzte\w*|vorige\w*) (?:jahr|saison|monat)",
    r"\b(?:an|année|saison|mois) derni\w+\b[^?]{1,80}\bcette? (?:an|saison|mois)|"
    r"\bcette? (?:année|saison|mois)\b[^?]{1,80}\b(?:an|année|saison|mois) derni",
)
"""Two times that a question compares, in English, German and French."""
_COMPARISON = (
    r"\b(?:compar(?!t)\w+|contrast\w*|differ(?:s|ed|ing|ences?|ent(?:ly)? (?:from|between|in))?|"
    r"disagree\w*|versus|vs\.?|in common|unlike|side by side|"
    r"what (?:separates|(?:has )?changed)|which of (?:both|them)|treat\b[^?]{1,80}\balike|"
    r"(?:better|worse) off\b[^?]{0,60}\bor|put\b[^?]{1,60}\bnext to|has\b[^?]{1,60}\bgot\w* \w+er|"
    r"(?:alike|the same) in (?:both|the two)|"
    r"(?:more|less|\w+er) (?:\w+ )?(?:on|in|under|for)\b[^?]{1,60}\bor (?:in|on|under|for)|"
    r"between\b[^?]{1,80}\band\b[^?]{1,80}\bwhich|"
    r"(?<!no )(?<!not )"
    r"(?:longer|shorter|higher|lower|more|less|fewer|stricter|later|earlier|larger|smaller)\s+"
    rf"(?:\w+\s+){{0,4}}than(?!{_A_NUMBER})|"
    r"which\s+(?:of\s+(?:the\s+)?(?:two|three|\w+s)|"
    r"(?:\w+\s+){1,3}(?:is|has|have|gives?|allows?|offers?))"
    r"[^?]{0,80}\b(?:the (?:(?:long|short|high|low|strict|larg|small|earli|lat)er|more|less|fewer)|"
    r"longest|shortest|highest|lowest|most|least|strictest|largest|smallest)|"
    r"across\s+(?:all\s+|the\s+|these\s+|both\s+)?(?:\w+\s+)?\w+s|"
    rf"{_NOW_AND_THEN[0]}|here and (?:in|at)|by how much)\b",
    r"\b(?:vergleich|unterschie|unterscheide|gegenüber)|\bwelche[rs]? (?:von |der )?beiden\b|"
    r"\b(?:länger|kürzer|höher|niedriger|strenger|früher|später|größer|kleiner|günstiger|mehr|weniger"
    rf"|besser)\b[^?]{{0,30}}\bals\b(?!{_A_NUMBER})|{_NOW_AND_THEN[1]}|\bhier und in\b",
    r"\b(?:comparaison|différence|différent|diffèrent|divergent)|\b(?:le|la|les)quel\w* des deux\b|"
    rf"\b(?:plus|moins) (?!de\b)\w+ [^?]{{0,40}}?\bque\b(?!{_A_NUMBER})|{_NOW_AND_THEN[2]}|"
    r"\bici et [àe]",
    r"\b(?:compar[ae]|diferencia|distinguen)|\bcuál(?:es)? de l[oa]s dos\b|"
    rf"\b(?:más|menos) (?!de\b)\w+ [^?]{{0,40}}?\bque\b(?!{_A_NUMBER})",
    r"比较|对比|不同|区别|差异|相比|比[^较如例]{1,12}(?:长|短|高|低|多|少|严格|便宜|贵)|哪一?[个份].{0,8}(?:更|最)",
    r"قارن|مقارنة|الفرق|يختلف|تختلف|أي العقدين|أيهما|(?:أطول|أقصر|أعلى|أقل|أكثر)"
    r" (?!من\b).{1,40} من ",
)
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ]"
# Without the look behind, a long word takes a time that grows with the square of its length.
_NAME = (
    rf"(?<![\w.&-]){_CAPITAL}[\w.&-]*"
    rf"(?:\s+(?:de\s+|of\s+|the\s+)?(?:{_CAPITAL}|\d)[\w.&-]*){{0,4}}"
)
_SIDE = rf"{_NAME}|\b(?:(?:19|20)\d\d|v(?:ersion )?\d+)\b"
_YEAR = re.compile(r"(?:19|20)\d\d")
_SIDES = re.compile(
    rf"(?P<one>{_SIDE})(?:,| the| der| die| das| le| la| el)*"
    r"\s+(?P<join>or|and|oder|und|ou|et|o|y|to|bis|à|vs\.?|versus|than|als|gegenüber|"
    r"(?:as )?compared (?:with|to)|(?:im )?Vergleich zu[mr]?)\s+"
    r"(?P<between>(?:(?:in|im|for|für|the|der|die|das|dem|den|le|la|el|bei|beim|with|mit|of|from|von|"
    r"at|en|à|au|chez)\s+)*)"
    rf"(?P<other>{_SIDE})"
)
"""Two names, years or versions that a question compares, such as "Acme or Brightwater"."""
GREATER = re.compile(
    r"\b(?:more|less|fewer|most|least|better|worse|longer|higher|mehr|weniger|besser|meisten|plus|"
    r"moins|más|menos|[a-z]{2,}(?:st|sten)\b|(?!over|under|other|either|whether|after|never|number|"
    r"order|oder|aber|unter|über|einer|keiner|dieser)[a-zäöüß]{3,}(?:er|ere[nrs]?))\b"
)
"""A comparative or superlative, or a word that looks like one."""
_COMPARING = re.compile(
    r"\b(?:compar(?!t)\w+|contrast\w*|differ\w*|between|versus|vs\.?|change[ds]?|vergleich\w*|"
    r"unterschie\w*|unterscheide\w*|zwischen|geändert|comparaison|différen\w+|entre|"
    r"more|less|fewer|most|least|better|worse|expensive|(?:long|short|high|low|lat|earli|fast|soon|"
    r"larg|small|bigg|great|cheap|dear|strict)(?:er|est)|mehr|weniger|besser|"
    r"(?:läng|kürz|höh|niedrig|schnell|spät|früh|größ|klein|günstig|billig|teur|streng)er)\b",
    re.IGNORECASE,
)
"""Words that ask for a comparison, but do not say of what."""
_CHANGE = re.compile(
    r"\b(?:chang\w+|develop\w*|r[io]se|risen|gr[eo]w\w*|f[ae]ll\w*|drop\w*|(?:in|de)crease\w*|"
    r"änder\w*|geändert|entwickel\w*|stieg\w*|gestiegen|gesunken|évolu\w+|augment\w+)\b",
    re.IGNORECASE,
)
"""A change between two years or versions."""
_COMPREHENSIVE = (
    r"\b(?:(?:list|name|enumerate|give|show|find)\s+(?:me\s+)?"
    r"(?:all|every(?:thing)?|each|the\s+(?:(?!who\b|that\b|which\b)\w+\s+){0,2}\w+(?<!s)s)|list\s+the|"
    r"enumerate|(?:complete|full) (?:list|set|overview)|overview\s+of|"
    r"i (?:need|want) (?:all|every)|"
    r"everything (?:we|you|they)|(?:what|who|where) (?:are )?all|"
    r"(?:all|every)\s+(?:of\s+)?(?:the\s+)?(?:\w+\s+){0,3}(?:that|which|where|with|who)|"
    r"(?:which|what|any)\s+(?:agreements|contracts|documents|policies|leases|files|companies|parties|"
    r"suppliers|customers))\b",
    r"\b(?:liste|nenne|zähle|zeige?|finde|gib)\b[^?]{0,20}\b(?:alle|sämtliche|jede[nrs]?)\b|überblick|"
    r"\bvollständige|\bwelche (?:verträge|dokumente|unterlagen|richtlinien|parteien|lieferanten)\b",
    r"\bénum[èé]re|\bliste complète|\b(?:montre|donne|trouve|liste)\w*\b[^?]{0,15}\b(?:tou(?:te)?s|"
    r"chaque)\b|\baperçu complet|\bquel(?:le)?s (?:contrats|documents|politiques|accords)\b",
    r"\benumera|\blista completa|\b(?:muestra|da|dame|encuentra|lista)\b[^?]{0,15}\b(?:tod[ao]s|"
    r"cada)\b|"
    r"\bresumen completo|\bqué (?:contratos|documentos|políticas|acuerdos|partes)\b",
    r"列出|所有|全部|哪些|完整的?清单|每一[条个份]",
    r"جميع|(?:قائمة|نظرة) كاملة|كل (?:ال|بند)|(?:ما هي|أي|ما) (?:الوثائق|العقود|السياسات)",
)
_DEFINITION = (
    r"\b(?:defin(?:e[sd]?|ing|itions?)(?! (?:benefit|contribution))|meaning\s+of|"
    r"(?:what|how)\s+(?:does|do|is|are)\s+[^?]{0,80}?\s*"
    r"(?:mean(?! for)|meant|refer\s+to|understood)|what\s+(?:counts|qualifies)\s+as|"
    r"stands?\s+for|glossary|explain (?:what|the (?:term|word))|what (?:falls|comes) under|"
    r"what do (?:they|you|we) (?:call|understand by)|what exactly is an?)\b",
    r"\bdefini|\bbedeute[tn]\b|\bbedeutung\b|\bversteht man\b|\bzu verstehen\b|\bgemeint\b|"
    r"\bwas (?:gilt|zählt) als\b|\bbegriff\b|\bwas heißt\b",
    r"\bsignifie|\bdéfini|qu['’]entend-on|\bveut dire\b|\bqu['’]est-ce qu['’]une?\b",
    r"\bsignifica\b|\bdefin(?:e|ición|ido|ida)\b|\bse entiende por\b|"
    r"\bquiere decir\b|\bqué es una?\b",
    r"什么意思|定义|指的?是?什么|什么叫|什么是|解释.{0,12}(?:词|术语)",
    r"معنى|تعريف|يعرف|يقصد|المقصود",
)
_KINDS: tuple[tuple[Kind, str], ...] = (
    ("comparison", "|".join(_COMPARISON)),
    ("comprehensive", "|".join(_COMPREHENSIVE)),
    ("definition", "|".join(_DEFINITION)),
)
_CLAUSE = re.compile(
    r"\b(?:clauses?|sections?|articles?|provisions?|paragraphs?|wording|verbatim|exact(?:ly)?|"
    r"obliged|entitled|permitted|allowed|prohibited|required|may|must|shall|can|how\s+"
    r"(?:long|much|many|often|soon|far)|when|who|where)\b",
    re.IGNORECASE,
)
_ENTITY = re.compile(
    r"[“\"'](?P<quoted>[^“”\"']{2,80})[”\"']"
    r"|(?P<name>\b(?:[A-Z][\w&.-]*|[A-Z]{2,})(?:\s+(?:of|and|the|for|&)?\s*[A-Z][\w&.-]*)*)"
    r"|(?P<number>[$€£]\s?\d[\d,.]*"
    r"|(?<![\w,.])\d[\d,.]*\s?(?:%|percent|days?|weeks?|months?|years?|hours?))"
)
_OPENERS = frozenset(
    "a an are can could did do does for from give has have how i if in is it list may must name "
    "on please shall should show tell that the there these this those to under was were what "
    "when where which who whom whose why will with would".split()
)
_ASKING = _OPENERS | frozenset(
    "wird werden wurde hat haben ist sind war waren kann können darf muss gibt welche welcher "
    "welches wie was wer wo wann est sont a ont es son tiene tienen compare vergleiche".split()
)


@dataclass(frozen=True, slots=True)
class Intent:
    """The kind of answer that a question asks for, its domain and its entities."""

    kind: Kind
    domain: str
    entities: tuple[str, ...]


def detect(question: str) -> Intent:
    """Return a question's intent by its words. The domain is always `general`.

    The kinds are tried in the order comparison, comprehensive, definition and clause lookup,
    because the earlier kinds also use words of the later kinds. Clause lookups are recognized in
    English only. Other patterns also cover German, French, Spanish, Chinese and Arabic.
    """
    if sides_of(question):
        return Intent("comparison", GENERAL, key_entities(question))
    found = (kind for kind, words in _KINDS if compiled(words, re.IGNORECASE).search(question))
    kind = next(found, "clause_lookup" if _CLAUSE.search(question) else GENERAL)
    return Intent(kind, GENERAL, key_entities(question))


def sides_of(question: str) -> tuple[str, str] | None:
    """Return the two names that a question compares, or None (see `sides_in`)."""
    found = sides_in(" ".join(question.split()))
    return found and (found[0][0], found[1][0])


def sides_in(question: str) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """Return the two names that a question compares, with their places, or None.

    The question has words of a comparison, or it has a comparative and "or" between the names. A
    question with two years or versions may have a word of change instead, such as "rose". Beside a
    year, a name that ends with a year is its year. Whitespace is single spaces.
    """
    is_compared = compares(question)
    is_graded = bool(GREATER.search(question))
    for found in _SIDES.finditer(question):
        words = [*dropwhile(lambda word: word.lower() in _ASKING, found["one"].split())]
        other = found["other"].rstrip(".")
        one = " ".join(words[-1:] if _YEAR.fullmatch(other) else words)
        sides = (one, found.end("one") - len(one)), (other, found.start("other"))
        are_numbers = all(any(map(str.isdigit, found[side])) for side in ("one", "other"))
        if are_numbers and _CHANGE.search(question):
            return sides
        if found["join"] in ("to", "bis", "à"):
            continue
        is_choice = found["join"] in ("or", "oder", "ou", "o", "vs", "vs.", "versus")
        before = question[: found.start("one")].rsplit(maxsplit=1)[-1:]
        are_apart = bool(before) and found["between"].split()[:1] == before  # in Ulm and in Lyon
        if one and (is_compared or are_apart or (is_choice and is_graded)):
            return sides
    return None


def compares(question: str) -> bool:
    """Return whether a question has words of a comparison."""
    return bool(compiled(_KINDS[0][1], re.IGNORECASE).search(question))


def uncompared(question: str) -> str:
    """Return a question without the words that only ask for a comparison."""
    return " ".join(_COMPARING.sub(" ", question).split())


def key_entities(question: str) -> tuple[str, ...]:
    """Return the distinct quoted phrases, names and amounts of a question, in their order."""
    found: dict[str, None] = {}
    for match in _ENTITY.finditer(question):
        text = " ".join(match[0].strip("“”\"'").split())
        if match["name"]:
            words = text.split()
            while words and words[0].lower() in _OPENERS:
                words.pop(0)
            text = " ".join(words).rstrip(".")
        if len(text) > 1:
            found.setdefault(text)
    return tuple(found)
