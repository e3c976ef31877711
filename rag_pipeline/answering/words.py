"""Compare words of English and German texts: stems, compounds, and opposites.

The tables hold beginnings of words of the general language. A beginning matches a word if a usual
ending follows: "approv" matches "approves" and "approval".
"""

import math
import re
from functools import cache, lru_cache
from typing import NamedTuple

from rag_pipeline.config import Lexical
from rag_pipeline.search.tokenization import tokenizer_of

_NEGATING = """
allow permit permiss authoris authoriz erlaub gestatt zuläss zulässig berechtig tolerat possibl
möglich > forbid forbidd forbad prohibit ban bann barr disallow outlaw verbiet verbot untersag
unterlass unterbleib;
accept approv grant adopt annehm angenomm annahm genehmig bewillig beschließ beschloss zustimm
zugestimm billig > reject refus declin deni deny dismiss veto ablehn abgelehn verweiger verwarf
verworf verwerf vertag postpon adjourn zurückweis zurückgewies zurückwies abweis abgewies
missbillig;
includ contain cover compris enthalt enthält umfass beinhalt einschließ eingeschloss inbegriff
mitgeliefer > exclud omit exempt waiv skip ausschließ ausgeschloss ausschluss ausgenomm ausnehm
befrei;
have possess hab besitz verfüg > lack mangel fehl;
continu resum fortsetz fortgesetz > ceas discontinu stopp stop aufhör aufgehör;
enabl activat aktivier > disabl deactivat deaktivier;
use verwend > refrain abstain forgo forego avoid prevent verzicht vermeid verhinder;
welcom willkommen erwünsch > objectionabl;
encourag ermutig empfehl > discourag abrat abgerat
"""
"""Groups "word > negation of the word". The second is a negation even if the first is absent."""
_OPPOSITE = """
increas rise risen rose rais grow grew grown higher steig stieg gestieg erhöh wachs wuchs höher
zunehm zunahm zugenomm > decreas fell fallen drop declin reduc lower shrink shrank sink sank gesunk
senk gesenk zurückging niedrig gering verringer abnehm abnahm abgenomm reduzier;
open öffn geöffn offen > close clos shut schließ geschloss;
begin begun began start commenc beginn begonn anfang > end ended finish conclud endet ende endete;
last letzt > first erst; earlier early früh > late later spät;
mandator compulsor obligator verpflichtend zwingend > optional voluntar freiwillig;
gratis kostenlos kostenfrei unentgeltlich umsonst > kostenpflichtig entgeltlich gebührenpflichtig
pay paid charg zahl bezahl gezahl;
einschalt eingeschalt anschalt > ausschalt ausgeschalt abschalt abgeschalt;
wid breit > narrow schmal; major > minor; rare selten > common häufig;
temporar vorübergehend befrist > permanent dauerhaft unbefrist;
public öffentlich > privat; written schriftlich schriftform > oral verbal mündlich;
inside indoor innen drinnen intern internal > outside outdoor außen draußen extern external;
warm hot heiß > cold cool kalt kühl; wet nass feucht > dry trocken; full voll > empty leer;
true wahr richtig > false falsch; buy bought purchas acquir erwerb kauf gekauf sell sold verkauf;
confirm held stattfind stattfand stattgefund findestatt bestätig > cancel cancell abandon scrapp
annul absag abgesag ausgefall ausfall ausfäll storn gestrichen entfall entfäll entfiel;
succeed success geling gelang gelung > fail scheiter misslang missling misslung;
win won gewinn gewann gewonn > lose lost verlier verlor; safe sicher > danger gefähr gefährlich;
arriv ankomm ankunft ankam > depart abfahr abfahrt abflug abreis abfuhr;
add added hinzufüg > remov delet entfern lösch gelösch; lend lent verleih borrow entleih;
easy easier leicht einfach > hard difficult schwer schwierig;
fast quick rapid schnell > slow langsam; cheap billig günstig > expensiv teuer;
strong stark > weak schwach; long lang länger longer > short kurz kürz shorter;
same gleich identical identisch > different verschied unterschiedlich;
together gemeinsam zusammen > separat getrennt einzeln individual;
better besser > worse schlecht schlechter; majorit mehrheit > minorit minderheit;
larg bigger big greater groß größer > smaller small klein kleiner;
new neu young jung > old older alt älter gebraucht second-hand; more mehr > less fewer weniger;
fix fest > variabl variabel; longer länger > shorter kürzer; minimum mindest > maximum höchst;
automatic automatisch > manual manuell;
north northern nord nördlich > south southern süd südlich;
east eastern ost östlich > west western westlich; heavy schwer > light leicht;
send sent schick receiv empfang empfäng; presen anwesend > absen abwesend;
valid gültig wirksam gilt gelt > void invalid nichtig laps ungültig unwirksam;
available accessib verfügbar zugänglich > block lock sperr gesperr;
import einfuhr > export ausfuhr; online > offline; summer sommer > winter; even > odd
"""
"""Groups "word > opposite". Only a word of both sides together makes two statements opposite."""
_ENDINGS = frozenset(
    "e s d es ed ing al als ion ions ance ly y ies ied ty ity ment ments ful fully "
    "en t te ten st em et ete eten n r rer ere eren eres erer ung ungen bar lich es ernd end ende "
    "ender enden enes ener ene enen enem m keit ation ally able ible ous ce".split()
) | {""}
_NOUN_ENDINGS = frozenset("ion ions ation al als ance ung ungen ment ments bar".split())
WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_SHARED = 5
"""Least number of letters that two forms of a word or a compound and its part share."""


class Sense(NamedTuple):
    """The side of a word in a group of opposites. `negates` means that this side is a negation."""

    group: int
    side: bool
    negates: bool


@cache
def _senses() -> dict[str, Sense]:
    found: dict[str, Sense] = {}
    groups = [(g, True) for g in _NEGATING.split(";")] + [(g, False) for g in _OPPOSITE.split(";")]
    for number, (group, negating) in enumerate(groups):
        for side, words in enumerate(group.split(">")):
            for word in words.split():
                found.setdefault(word, Sense(number, bool(side), negating and bool(side)))
    return found


@lru_cache(maxsize=50_000)
def sense_of(word: str) -> Sense | None:
    """Return the sense of a case-folded word in the tables of opposites, or None."""
    senses = _senses()
    for form in (word, re.sub(r"^(ge|zu)|(?<=^ab|^an|^vo|^zu)(ge|zu)", "", word)):
        for cut in range(len(form), 2, -1):
            rest = form[cut:]
            if len(rest) > 6:
                break
            doubled = len(rest) > 1 and rest[0] == form[cut - 1]
            if (rest in _ENDINGS or (doubled and rest[1:] in _ENDINGS)) and form[:cut] in senses:
                sense = senses[form[:cut]]
                return sense._replace(negates=sense.negates and rest not in _NOUN_ENDINGS)
    return None


def are_opposite(one: str, other: str) -> bool:
    """Return whether two case-folded words are on the two sides of a group of opposites."""
    first, second = sense_of(one), sense_of(other)
    return bool(first and second and first.group == second.group and first.side != second.side)


@lru_cache(maxsize=50_000)
def stems(word: str) -> frozenset[str]:
    """Return the English and the German stem of a word, or an empty set for a stop word."""
    found = [tokenizer_of(Lexical(language=name)).tokenize(word) for name in _LANGUAGES]
    return frozenset(stem for some in found for stem in some) if all(found) else frozenset()


@lru_cache(maxsize=200_000)
def same_word(one: str, other: str) -> bool:
    """Return whether two words are forms of one word, opposites, or a compound and its part."""
    if one == other:
        return True
    roles = {
        "ee" if word.rstrip("s").endswith("ee") else "er"
        for word in (one, other)
        if _ROLE.fullmatch(word)
    }
    if one[:1].isdecimal() or other[:1].isdecimal() or len(roles) > 1:
        return False  # the employee is not the employer
    if stems(_IRREGULAR.get(one, one)) & stems(_IRREGULAR.get(other, other)):
        return True
    sense, also = sense_of(one), sense_of(other)
    if sense is not None and also is not None and sense.group == also.group:
        return True
    short, long = sorted((_plain(one), _plain(other)), key=len)
    most = max(_SHARED, math.ceil(0.75 * len(short)))
    at = long.find(short[:most]) if len(short) >= _SHARED else -1
    return at == 0 or (at > 2 and not _PREFIX.match(long))


def _plain(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    word = _ABILITY.sub("ble", word)  # liability, liable
    stem = max(stems(word), key=len, default=word).translate(_UMLAUTS)
    return _GE.sub("", stem, count=1)


_IRREGULAR = dict(
    pair.split("/")
    for pair in (
        "paid/pay sold/sell bought/buy held/hold given/give gave/give taken/take took/take "
        "made/make "
        "sent/send kept/keep left/leave lost/lose built/build brought/bring written/write "
        "wrote/write met/meet found/find won/win began/begin begun/begin chosen/choose "
        "chose/choose known/know shown/show driven/drive drove/drive led/lead ran/run spent/spend"
    ).split()
)
_LANGUAGES = ("english", "german")
_ABILITY = re.compile("bilit(?:y|ies)$")
_UMLAUTS = str.maketrans("äöü", "aou")
_GE = re.compile("(?<=^ab|^an|^vo|^zu)ge|(?<=^auf|^aus|^ein|^mit|^vor)ge|^ge(?=[a-z]{6})")
_ROLE = re.compile(r"([a-z]{3,}?)(ee|er|or)s?")
_PREFIX = re.compile("ver|unter|ent|miss|nicht")
