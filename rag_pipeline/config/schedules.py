"""Match the cron expressions of Dagster's schedules without importing Dagster."""


def _field(value: str, also: str = "") -> str:
    part = rf"(\*|\?|{value}(-{value})?{also})(/0*[1-9]\d*)?"
    return rf"{part}(,{part})*"


def _names(words: str) -> str:
    return "|".join(f"{word}|{word.title()}|{word.upper()}" for word in words.split())


_WEEKDAY = f"(0?[0-7]|{_names('sun mon tue wed thu fri sat')})"
_FIELDS = (
    _field(r"[0-5]?\d"),
    _field(r"([01]?\d|2[0-3])"),
    _field(r"(0?[1-9]|[12]\d|3[01])", "|[Ll]"),
    _field(f"(0?[1-9]|1[0-2]|{_names('jan feb mar apr may jun jul aug sep oct nov dec')})"),
    _field(_WEEKDAY, f"|{_WEEKDAY}#[1-5]|[Ll]{_WEEKDAY}"),
)
_NAMED = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)"
CRON = rf"^\s*({_NAMED}|" + r"\s+".join(_FIELDS) + r")\s*$"
"""Matches a cron expression: minute, hour, day, month and weekday, or a name such as @daily."""
