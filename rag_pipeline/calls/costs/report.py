"""The ledger's calls, added up by asset, model, configuration or day."""

from collections.abc import Callable, Iterable
from typing import Literal, get_args

from rag_pipeline.calls.costs.purposes import Charge, Totals

Group = Literal["asset", "model", "configuration", "day"]
GROUPS: tuple[str, ...] = get_args(Group)
_NOBODY = "-"


Readers = Callable[[str, str], Iterable[str]]
"""The configurations that read an asset's partition now."""


def totals_by(charges: Iterable[Charge], by: Group, readers: Readers) -> dict[str, Totals]:
    """Return the totals of each group, in the order of its first call.

    By configuration, a call counts for each configuration that reads what it was made for, those
    that came later included: these are what each cost, and add up to more than was paid.
    """
    found: dict[str, Totals] = {}
    for charge in charges:
        for name in _groups_of(charge, by, readers):
            found.setdefault(name, Totals()).add(charge)
    return found


def _groups_of(charge: Charge, by: Group, readers: Readers) -> Iterable[str]:
    match by:
        case "asset":
            return [" ".join(part for part in (charge.asset, charge.partition) if part) or _NOBODY]
        case "model":
            return [f"{charge.provider} {charge.model}" + (" (batch)" if charge.batch else "")]
        case "day":
            return [charge.time[:10]]
        case "configuration":
            if not charge.asset:
                return [_NOBODY]
            now = readers(charge.asset, charge.partition)
            return dict.fromkeys((*now, *charge.configurations)) or [_NOBODY]
