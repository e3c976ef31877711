"""Extract entities by patterns and word lists for contracts and policies in English."""

from collections.abc import Iterator, Sequence
from typing import Literal

from rag_pipeline.answering.quantities.values import quantities
from rag_pipeline.config import EntityExtractor, Models
from rag_pipeline.datamodels import Entity
from rag_pipeline.errors import ProviderError
from rag_pipeline.imports import compiled


class RuleEntities(EntityExtractor):
    """An extractor with patterns and word lists."""

    code_version = 4
    extractor: Literal["rules"] = "rules"

    def extract(self, texts: Sequence[str], models: Models) -> list[list[Entity] | ProviderError]:
        """Return the entities of each text that match the patterns."""
        return [extract(text) for text in texts]


_WHEN = (
    r"(?i)\b(?:(?:from|after|following|upon|on|before|until|since)\s+(?:the\s+)?"
    r"(?:date|end|start|expiry|expiration|termination|effective\s+date|disclosure|receipt|delivery|"
    r"commencement|beginning|anniversary)(?:\s+of\s+(?:the\s+|this\s+|such\s+)?[\w-]+(?:\s+[\w-]+)?)?"
    r"|(?:beginning|end|start|middle)\s+of\s+(?:the\s+)?(?:\w+\s+)?(?:term|year|month|quarter|week|"
    r"January|February|March|April|May|June|July|August|September|October|November|December)"
    r"|in\s+perpetuity|perpetual(?:ly)?|indefinite(?:ly)?|forever|without\s+limit(?:ation)?\s+in\s+"
    r"time|at\s+any\s+time|immediately|promptly|annually|monthly|quarterly|weekly|daily|"
    r"(?:per|each|every|a)\s+(?:calendar\s+|contract\s+)?(?:day|week|month|quarter|year))\b"
)

_PLACES = (  # countries, then states and provinces, then cities
    "Argentina Australia Austria Belgium Brazil Bulgaria Canada Chile China Colombia Croatia "
    "Cyprus Denmark Egypt England Estonia Finland France Germany Greece Hungary Iceland India "
    "Indonesia Ireland Israel Italy Japan Kenya Latvia Lithuania Luxembourg Malaysia Malta "
    "Mexico Netherlands Nigeria Norway Pakistan Peru Philippines Poland Portugal Romania "
    "Scotland Serbia Singapore Slovakia Slovenia Spain Sweden Switzerland Taiwan Thailand "
    "Turkey Ukraine Vietnam Wales Alabama Alaska Arizona Arkansas California Colorado "
    "Connecticut Delaware Florida Georgia Hawaii Idaho Illinois Indiana Iowa Kansas Kentucky "
    "Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri Montana "
    "Nebraska Nevada Ohio Oklahoma Oregon Pennsylvania Tennessee Texas Utah Vermont Virginia "
    "Washington Wisconsin Wyoming Ontario Quebec Alberta Amsterdam Athens Atlanta Barcelona "
    "Beijing Belfast Berlin Birmingham Boston Bristol Brussels Budapest Cairo Cambridge "
    "Chicago Copenhagen Cork Dallas Denver Dubai Dublin Edinburgh Frankfurt Galway Geneva "
    "Glasgow Hamburg Helsinki Houston Istanbul Jakarta Leeds Lisbon Liverpool London Lyon "
    "Madrid Manchester Melbourne Miami Milan Montreal Moscow Mumbai Munich Oslo Oxford Paris "
    "Philadelphia Portland Prague Rome Rotterdam Seattle Seoul Shanghai Stockholm Stuttgart "
    "Sydney Tokyo Toronto Vancouver Vienna Warsaw Zurich Zürich"
).split()
_LONG_PLACES = (
    "United States of America|United States|United Kingdom|Great Britain|Northern Ireland|"
    "European Union|European Economic Area|New York|New Jersey|New Mexico|New Hampshire|"
    "New Zealand|New Delhi|North Carolina|South Carolina|North Dakota|South Dakota|Rhode Island|"
    "West Virginia|British Columbia|District of Columbia|Czech Republic|South Africa|South Korea|"
    "Saudi Arabia|United Arab Emirates|Hong Kong|Los Angeles|San Francisco|San Diego|San Jose|"
    "Las Vegas|Buenos Aires|Sao Paulo|Tel Aviv|Cape Town"
)
_DEMONYMS = (
    "American Australian Austrian Belgian Brazilian British Canadian Chinese Danish Dutch "
    "English Finnish French German Greek Indian Irish Israeli Italian Japanese Mexican "
    "Norwegian Polish Portuguese Scottish Spanish Swedish Swiss Turkish Welsh"
).split()
_LOCATION = (
    rf"\b(?:{_LONG_PLACES}|{'|'.join(_PLACES)}|(?:{'|'.join(_DEMONYMS)})(?=\s+(?:law|courts?)\b)|"
    r"(?:State|Commonwealth|Province|City|County|Republic|Kingdom)\s+of\s+[A-Z]\w+(?:\s[A-Z]\w+)?)\b"
    r"|\b\d+(?:\.\d+)?[\s-]*(?:miles?|kilomet(?:er|re)s?|km)\b(?:\s+radius)?"
    r"|(?<=[cC]ourts of )[A-Z]\w+|(?<=laws of )[A-Z]\w+|(?<=seated in )[A-Z]\w+"
)

_ORGANIZATION = (
    r"\b(?:[A-Z][\w&'’.-]{0,40}+(?:\s+(?:&|and|of)\s+(?=[A-Z])|\s+)){1,5}"
    r"(?:Inc|Incorporated|Ltd|Limited|LLC|LLP|LP|PLC|plc|GmbH|AG|SE|SA|S\.A|NV|N\.V|BV|B\.V|Oy|AB|"
    r"ApS|DAC|Corp|Corporation|Company|Co|Group|Holdings|Partners|Partnership|Bank|Trust|"
    r"Foundation|Association|University|Institute|Authority|Commission|Agency|Ministry|Committee|"
    r"Board|Council|Court)\b\.?"
    r"|\b(?:University|Ministry|Bank|Board|Court|Department|Institute)\s+of\s+[A-Z]\w+(?:\s[A-Z]\w+)?"
    r"|\b(?:Disclosing|Receiving|Contracting|Indemnified|Indemnifying)\s+Part(?:y|ies)\b"
    r"|\b(?:Company|Employer|Employee|Contractor|Consultant|Customer|Client|Supplier|Vendor|"
    r"Provider|Licensor|Licensee|Landlord|Tenant|Lessor|Lessee|Borrower|Lender|Buyer|Seller|"
    r"Representatives?|Affiliates?|Recipient|Discloser|Processor|Controller|Auditor)\b"
    r"|\b(?:[a-z]+\s)?(?:security|finance|privacy|data protection|compliance|human resources)\s"
    r"(?:officer|director|manager|department|team)\b"
    r"|\b(?:prospective\s)?(?:lenders?|investors?|funders?|insurers?|auditors?|regulators?)\b"
)

_CONDITION = (
    r"(?i)\b(?:provided\s+(?:always\s+)?that|subject\s+to|unless|except\s+(?:for|that|where|to)|"
    r"excluding|only\s+(?:if|where|when|with|to\s+the\s+extent)|if\s+and\s+only\s+if|"
    r"whether\s+or\s+not|in\s+the\s+event\s+(?:of|that)|in\s+case\s+of|on\s+condition\s+that|"
    r"as\s+long\s+as|so\s+(?:far|long)\s+as|to\s+the\s+extent|without\s+(?:the\s+)?(?:prior\s+)?|"
    r"with\s+(?:the\s+)?(?:prior\s+)?(?:written\s+)?consent|regardless\s+of|irrespective\s+of|"
    r"notwithstanding|no\s+later\s+than|if|where)\b[^.;:\n,()]{2,100}"
)

_VERBS = (
    "accept acknowledge agree appoint approve assign audit bear cease certify collect "
    "compensate comply confirm contribute copy delete deliver deposit destroy disclose "
    "discuss enforce ensure erase export forfeit give grant hand hire hold indemnify inform "
    "insure keep leave license lose maintain make notify obtain pay permit process prohibit "
    "provide pseudonymise publish purchase refund reimburse release renew repay replace "
    "report require resell resign restrict retain return sell send share solicit stop submit "
    "supply suspend terminate transfer use withhold withdraw"
).split()
_VERB = "|".join(_VERBS)
_DONE = "|".join(
    [
        *(f"{verb[:-1] if verb.endswith('e') else verb}ed" for verb in _VERBS),
        *"paid kept held given made sold sent lost certified copied stopped submitted".split(),
    ]
)
_ACTION = (
    rf"(?i)\b(?:shall|must|may|will|can|could|agrees?\s+to|undertakes?\s+to|required\s+to|"
    rf"entitled\s+to|has\s+to|have\s+to|obliged\s+to)\s+(?:not\s+)?(?:\w+ly\s+)?"
    rf"(?:{_VERB}|be\s+(?:\w+ly\s+)?(?:{_DONE}))\b(?:\s+(?!and\b|or\b|if\b|unless\b)[\w'’-]+){{0,4}}"
    rf"|\b(?:is|are|was|were|be)\s+(?:deemed\s+)?(?:\w+ly\s+)?(?:{_DONE})\b"
    rf"|\b(?:\w+ly\s+)?(?:{_VERB})s?\s+(?:(?:all|any|the|its|their|copies|no)\s+[\w'’-]+)"
)

_PATTERNS = {
    "TIME": _WHEN,
    "LOCATION": _LOCATION,
    "ORGANIZATION": _ORGANIZATION,
    "CONDITION": _CONDITION,
    "ACTION": _ACTION,
}


def extract(text: str) -> list[Entity]:
    """Return the distinct entities of a text, type by type and in order."""
    return list(dict.fromkeys(e for e in _all(text) if any(map(str.isalnum, e.text))))


def _all(text: str) -> Iterator[Entity]:
    ends = set()
    for quantity in quantities(text):
        yield Entity(quantity.kind, text[quantity.start : quantity.end].strip())
        ends |= {quantity.end, quantity.end + 1}
    for kind, pattern in _PATTERNS.items():
        for match in compiled(pattern).finditer(text):
            # "ten years after expiry" and "USD 60 a month" are one entity each.
            if kind != "TIME" or match.start() not in ends:
                yield Entity(kind, match.group().strip())
