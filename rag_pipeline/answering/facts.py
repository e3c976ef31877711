"""Recognize kinds of fact in questions and sentences by patterns, and answer yes/no questions.

Patterns in English, German, French, Spanish, Chinese and Arabic are tried together, because words
of different languages rarely have the same spelling.
"""

import re
from functools import lru_cache

from rag_pipeline.answering.matching import words_of
from rag_pipeline.imports import compiled
from rag_pipeline.search.tokenization import default_tokenizer

NUMBER = (
    r"(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|"
    r"thirty|forty|fifty|sixty|ninety|hundred|"
    r"first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|"
    r"ein(?:e[mnrs]?)?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|vierzehn|zwanzig|"
    r"dreißig|sechzig|neunzig|hundert|erste[mnrs]?|zweite[mnrs]?|dritte[mnrs]?|"
    r"une?|deux|trois|quatre|cinq|sept|huit|neuf|dix|onze|douze|quinze|vingt|trente|soixante|"
    r"una?|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|veinte|treinta|sesenta)\b|"
    r"[一二两三四五六七八九十百])"
)
_UNIT = (
    r"(?:\b(?:(?:second|minute|hour|day|week|month|quarter|year)s?|anniversary|"
    r"(?:werk|arbeits|geschäfts|kalender)?(?:sekunde|minute|stunde|tag|woche|monat|quartal|jahr)"
    r"(?:e|en|es|s|n)?|"
    r"(?:seconde|minute|heure|jour|semaine|trimestre|année|an)s?|mois|"
    r"(?:segundo|minuto|hora|día|semana|trimestre|año)s?|mes(?:es)?)\b|"
    r"秒|分钟|小时|天|日|周|星期|月|年|ثانية|دقيقة|ساع|يوم|أيام|أسبوع|أسابيع|شهر|أشهر|سنة|سنوات|عام)"
)
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december|"
    r"januar|februar|märz|mai|juni|juli|oktober|dezember|"
    r"janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|"
    r"enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre)"
)
_SHARE = (
    r"[%％٪]|\bper\s?cent\b|\b(?:half|third|quarter)\b|prozent\b|\b(?:hälfte|drittel|viertel)\b|"
    r"\bpour\s?cent\b|\b(?:moitié|tiers|quart)\b|\bpor\s?ciento\b|\b(?:mitad|tercio|cuarto)\b|"
    r"百分之|之一|بالمئة|بالمائة|في المئة|نصف|ثلث|ربع"
)
_MONEY = (
    r"[$€£¥]\s?\d|\d\s?[$€£¥]|\b(?:USD|EUR|GBP|CHF|dollars?|euros?|cents?|pounds?|franken|francs?|"
    r"dólares|libras|pesos)\b|\d\s*(?:元|美元|欧元|英镑|日元)|دولار|يورو|ريال|درهم|جنيه"
)

_ASKED = {
    "duration": (
        r"\bhow (?:long|soon|quickly|fast|early|late|often|far ahead|much (?:notice|warning|"
        r"longer|time))\b|"
        r"\bhow many (?:[\w-]+\s){0,2}?(?:second|minute|hour|day|week|month|year)s\b|"
        r"\b(?:notice periods?|deadline|by when|duration|from which day|"
        r"(?:which|what) anniversary)\b|"
        r"\bwhat (?:is|are) the terms?\b",
        r"\bwie (?:lange?|schnell|früh|oft|bald)\b|"
        r"\bwie viele (?:\w+\s){0,2}?(?:\w*(?:tage|stunden)|minuten|wochen|monate|jahre)\b|"
        r"\w*frist(?:en)?\b|\bbis wann\b|\b(?:laufzeit|dauer)\b|\bab (?:dem )?welche[mn] tag\b",
        r"\bcombien de (?:temps|jours|semaines|mois|années|ans|heures)\b|"
        r"\b(?:durée|délais?|préavis)\b|\bjusqu['’]à quand\b",
        r"\bcuánt[oa]s? (?:tiempo|días|semanas|meses|años|horas)\b|"
        r"\b(?:plazos?|duración|preaviso)\b|\bhasta cuándo\b",
        r"多久|多长时间|(?:几|多少)个?(?:工作)?(?:秒|分钟|小时|天|日|周|星期|月|年)|期限|提前多|何时|什么时候|哪一?天",
        r"كم (?:من الوقت|تستغرق|تستمر|مدة|يوم|شهر|سنة|أسبوع|ساعة|عدد الأيام)|ما (?:هي )?مدة|مهلة",
    ),
    "date": (
        r"\b(?:what|which) (?:date|day)\b|^when (?:was|did)\b",
        r"\b(?:welche[mnrs]? (?:datum|tag)|wann (?:wurde|war|beginnt|begann|endet|tritt|trat))\b",
        r"\b(?:quelle date|quel jour|quand (?:a|est|commence|prend))\b",
        r"\b(?:qué (?:fecha|día)|cuándo (?:fue|empieza|comienza|termina|entra))\b",
        r"哪一?[天日]|什么日期|何日|何时|什么时候",
        r"أي تاريخ|أي يوم|متى",
    ),
    "amount": (
        r"\bhow much (?:is|are|does|do|did|must|can|will|money|of)\b|"
        r"\b(?:what|which) (?:[\w’'-]+\s){0,4}?(?:rent|fees?|price|cost|sum|amount|deposit|salary|"
        r"charge|cap|ceiling|bonus|allowance|value)\b|"
        r"\bwhat (?:is the most|"
        r"(?:must|does|do|would|will) (?:[\w’'-]+\s){1,4}?(?:pay|owe|cost))\b|"
        r"\bis there a (?:ceiling|cap|limit) on what\b",
        r"\bwie ?viel (?:kostet|kosten|zahl\w+|beträgt|geld)\b|\bwie hoch (?:ist|sind|"
        r"liegt)\b|\bwas (?:kostet|kosten|zahl\w+)\b|\bwie teuer\b|"
        r"\bwelche[nrs]? (?:\w+\s)?(?:betrag|preis|gebühr|miete|summe|kaution|gehalt)\b",
        r"\bcombien (?:coûte|coûtent|faut|doit|doivent|paie|payer|est)\b|\bquel(?:le)? (?:est )?"
        r"(?:le |la |l['’])?(?:prix|montant|loyer|somme|tarif|caution|salaire|coût)\b",
        r"\bcuánto (?:cuesta|cuestan|vale|es|debe|paga|hay|cobra)\b|\b(?:cuál es|qué) (?:el |la )?"
        r"(?:precio|importe|monto|alquiler|renta|tarifa|fianza|salario|coste)\b",
        r"多少(?:钱|元|美元|欧元|费)|(?:费用|租金|价格|金额|押金|工资|罚款)(?:是|为)?多少|要交多少|多贵",
        r"كم (?:يكلف|تكلف|ثمن|سعر|يبلغ|تبلغ|المبلغ|يدفع|أدفع|يجب دفع|رسوم)|"
        r"ما (?:هو |هي )?(?:المبلغ|السعر|سعر|الإيجار|إيجار|قيمة|رسوم|تكلفة)",
    ),
    "share": (
        r"\b(?:what|which|how many) (?:[\w-]+\s){0,2}?(?:percent|percentage|share|rate|multiple|"
        r"availability|proportion)\b|\bhow far (?:may|can|could)\b",
        r"\bwie ?viel prozent\b|\bwelche[nr]? (?:anteil|prozentsatz|zinssatz|satz)\b",
        r"\bquel(?:le)? (?:pourcentage|part|taux|proportion)\b",
        r"\bqué (?:porcentaje|proporción|parte|tasa)\b",
        r"百分之几|百分比|多少比例|比例(?:是|为)多少",
        r"نسبة|كم بالمئة",
    ),
    "law": (
        r"\b(?:which|what|whose) (?:[\w-]+\s){0,2}?(?:laws?|courts?|jurisdiction)\b|"
        r"\bgoverning laws?\b",
        r"\bwelche[ns]? (?:recht|gericht\w*)\b|\bgerichtsstand\b|\banwendbare[sn]? recht\b",
        r"\bquel(?:le)? (?:loi|droit|tribunal|juridiction)\b|\bdroit applicable\b",
        r"\bqué (?:ley|derecho|tribunal|tribunales)\b|\bley aplicable\b",
        r"哪(?:国|个国家)?的?法律?|适用.{0,4}法|哪.{0,3}法院|管辖",
        r"أي قانون|أي محكمة|القانون (?:الواجب|المطبق)",
    ),
    "party": (
        r"\b(?:parties (?:to|of|in|under)|(?:who|which|what) (?:are|were) the parties|"
        r"(?:name|list|state|identify) (?:all )?(?:the )?parties|between whom)\b",
        r"\bvertragspart(?:ei|ner)\w*|\b(?:zwischen wem|parteien (?:des|der|im)|"
        r"wer sind die parteien)\b",
        r"\b(?:entre qui|parties (?:au|du)|qui sont les parties)\b",
        r"\b(?:entre quiénes|partes (?:del|en el)|quiénes son las partes)\b",
        r"当事人|签约方",
        r"أطراف",
    ),
    "cause": (
        r"\b(?:why|for (?:what|which) reason|(?:what|which) (?:is |was |were |are )?(?:the )?"
        r"(?:reasons?|causes?|caused)|how come|what made|how did [^?]{1,60} (?:happen|end up))\b",
        r"\b(?:warum|weshalb|wieso|aus welche[mn] gr[uü]nd\w*|(?:was|welche\w*) .{0,20}"
        r"(?:grund|ursache))\b",
        r"\bpourquoi\b|\bpor qué\b|为什么|为何|لماذا",
    ),
}
_STATED = {
    "duration": (
        rf"{NUMBER}[^.;。；]{{0,25}}?{_UNIT}",
        r"\b(?:indefinite|perpetu|forever|without limit in time|promptly|immediately|unbefristet|"
        r"unverzüglich|indéfini|immédiatement|indefinid|inmediat|daily|weekly|monthly|quarterly|annual|"
        r"täglich|wöchentlich|monatlich|jährlich|(?:\w+mal|times|fois|veces)\b)|无限期|立即|فورا|"
        r"\d:\d\d|\b\d+\s*(?:uhr|o['’]clock|[ap]\.?m)\b|\d+点",
        r"\b(?:until|till|bis (?:zu[mr]?|ende|anfang|mitte)|hasta)\b|\bjusqu['’]|直到|حتى",
    ),
    "date": (
        rf"\b{_MONTH}\s+\d|\d\.?\s+(?:of\s+|de\s+)?{_MONTH}|\b(?:19|20)\d\d\b|"
        rf"\b(?:end|beginning|ende|anfang|mitte|fin|début|fines|principios) (?:of |de )?{_MONTH}",
        r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|"
        r"mittwoch|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|"
        r"viernes|sábado|domingo)s?\b|星期[一二三四五六日天]|周[一二三四五六日]|月(?:底|初|中)",
        r"\d\s*月\s*\d+\s*日",
    ),
    "amount": (_MONEY, r"\bmonths?['’]? .*rent", _SHARE),
    "share": (_SHARE,),
    "law": (
        r"\blaws?\s+of\b|\b(?:English|German|Irish|Austrian|French|Swiss)\s+law\b|"
        r"\b(?:courts?|jurisdiction|governed by)\b|\b(?:arbitrat|mediat)",
        r"\w*(?:recht|gericht)\w*\b|\b(?:droit|lois?|tribuna\w+|juridiction)\b|"
        r"\b(?:ley|leyes|derecho|jurisdicción)\b|法律?|法院|仲裁|قانون|محكم|محاكم",
    ),
    "party": (
        r"\b(?:between|zwischen|entre)\b|\((?:the |der |die |le |la |el )?[“\"„«]|"
        r"甲方|乙方|之间|بين|الطرف",
    ),
    "cause": (
        r"\b(?:because|due to|owing to|as a result|result(?:s|ed)? (?:from|in)|caused|causes?|"
        r"reasons?|since|so that|in order to|thanks to|therefore|to (?:avoid|prevent|protect|"
        r"ensure|reduce)|led to|following|attributed to)\b",
        r"\b(?:weil|wegen|aufgrund|auf grund|denn|da (?:der|die|das|es|sie|er|wir|ein\w*)|"
        r"gr[uü]nd\w*|ursach\w*|deshalb|daher|damit|infolge|dadurch|zurückzuführen|"
        r"um .{3,60} zu)\b",
        r"\b(?:parce que|car|en raison|à cause|grâce|afin|porque|debido|a causa|por lo que|"
        r"ya que)\b|"
        r"因为|由于|以便|لأن|بسبب",
    ),
}
_ASKS = {kind: "|".join(words) for kind, words in _ASKED.items()}
_STATES = {kind: "|".join(words) for kind, words in _STATED.items()}


_BELOW_CAUSE = re.compile(
    r"(?im)^[#* \t]*(?:root )?(?:causes?|reasons?|ursachen?|gr(?:u|ü)nde?)\b[^.\n]{0,30}\n"
    r"(?:[ \t]*\n)*(?:(?!#)\S.*\n)*(?!#)\S.*\n?\Z"
)


def is_below_cause(text: str) -> bool:
    """Return whether a text ends with a paragraph below a heading such as `Cause`."""
    return bool(_BELOW_CAUSE.search(text))


def kinds_asked(question: str) -> list[str]:
    """Return the kinds of fact that a question asks for, such as `duration` (see `_ASKED`)."""
    return [kind for kind, words in _ASKS.items() if _found(words, question)]


def states(sentence: str, kinds: list[str]) -> bool:
    """Return whether a sentence states a fact of one of the kinds, or True if `kinds` is empty."""
    return not kinds or any(_found(_STATES[kind], sentence) for kind in kinds)


@lru_cache(maxsize=16_384)
def _found(words: str, text: str) -> bool:
    return bool(compiled(words, re.IGNORECASE).search(text))


_WHO = re.compile(r"(?i)\b(?:who|whom|whose|wer|wem|wen|qui|quién|chi|кто)\b")
_WHEN = re.compile(
    r"(?i)\b(?:when|what time|wann|um wie ?viel uhr|quand|cuándo|quando|когда)\b",
)
_HOW_MANY = re.compile(
    r"(?i)\bhow (?:many|high|old|far|fast|heavy)\b|\b(?:combien|cuánt\w+|quant[ie]|сколько)\b|"
    r"\bwie (?:viele?|hoch|alt|schwer|weit|schnell|groß)\b"
)
_NAMED = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w-]{2,}")
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")


def states_asked(question: str, sentence: str) -> bool:
    """Return whether a sentence states a fact of a kind that a question asks for.

    The kinds are those of `kinds_asked`, a name after "who", a time after "when", and a number
    after "how many". Names after "who" and numbers after "how many" only count if the question
    lacks them. If the question asks for no kind, return True.
    """
    asked = words_of(question)
    if _WHEN.search(question):
        return states(sentence, ["date", "duration"])
    if _WHO.search(question):
        return any(word.casefold() not in asked for word in _NAMED.findall(sentence))
    kinds = [kind for kind in kinds_asked(question) if kind != "cause"]  # texts often imply a cause
    if kinds or not _HOW_MANY.search(question):
        return states(sentence, kinds)
    others = _NUMERAL.sub(lambda numeral: "" if numeral[0] in asked else numeral[0], sentence)
    return bool(compiled(NUMBER, re.IGNORECASE).search(others))


# --- yes or no ---

_MAY_OR_MUST = re.compile(r"(?:.*[,;:.]\s+)?(may|can|could|must|shall)\s+\w", re.IGNORECASE)
_MODAL = re.compile(
    r"\b(?P<modal>may|can|must|shall|(?:is|are)\s+(?:entitled|permitted|allowed)\s+to|"
    r"(?:is|are)\s+(?:required|obliged)\s+to)"
    r"(?P<no>\s*not\b|not\b|\s+in\s+no\s+event\b)?\s+(?:also\s+|only\s+)?(?P<verb>[a-z]+)",
    re.IGNORECASE,
)
_NOBODY = re.compile(r"\b(?:neither|no\s+(?:party|person|one|employee|tenant)|nobody)\b", re.I)
_DEPENDS = re.compile(
    r"\b(?:unless|except|only|provided|subject\s+to|other\s+than|without|if|until|save|but|"
    r"however|where|when|with\s+(?:\S+\s+){0,3}consent)\b",
    re.IGNORECASE,
)
_LEAST = 0.6
"""Least share of the question's terms that the sentence must contain."""


def verdict(question: str, sentence: str) -> str | None:
    """Return "Yes" or "No" for an English question that asks "may", "can", "must" or "shall".

    Return None if the sentence has a condition or is unclear. A clear sentence has one modal verb
    (with or without "not") before a verb of the question, and most of the question's terms.
    """
    asks = _MAY_OR_MUST.match(question)
    if asks is None or _DEPENDS.search(sentence) or _NOBODY.search(sentence):
        return None
    tokenize = default_tokenizer().tokenize
    asked = set(tokenize(question))
    if len(asked & set(tokenize(sentence))) < _LEAST * len(asked):
        return None
    said = {
        (_is_duty(match["modal"]), bool(match["no"]))
        for match in _MODAL.finditer(sentence)
        if asked & set(tokenize(match["verb"]))
    }
    if len(said) != 1:
        return None
    ((is_duty, negated),) = said
    if negated:
        return "No"
    # A duty implies a permission, but a permission implies no duty.
    return "Yes" if is_duty or asks[1].lower() not in ("must", "shall") else None


def _is_duty(modal: str) -> bool:
    return bool(re.search(r"must|shall|required|obliged", modal, re.IGNORECASE))
