"""Compute the cost of a model's calls from charged tokens and prices."""

from dataclasses import astuple, dataclass
from operator import add

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class ChargedTokens:
    """The charged tokens of a call. A prompt cache served the part `cached` of `input`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    searches: int = 0
    """Number of charged searches of a reranker that charges per search."""

    def __add__(self, other: "ChargedTokens") -> "ChargedTokens":
        return ChargedTokens(*map(add, astuple(self), astuple(other)))

    def __mul__(self, factor: float) -> "ChargedTokens":
        return ChargedTokens(*(round(count * factor) for count in astuple(self)))


class Price(BaseModel):
    """The price of a model in USD per million tokens.

    `search` is in USD per thousand searches. `cached_input` defaults to `input`. The price of a
    batched call is multiplied by `batch`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(default=0.0, ge=0.0)
    cached_input: float | None = Field(default=None, ge=0.0)
    output: float = Field(default=0.0, ge=0.0)
    search: float = Field(default=0.0, ge=0.0)
    batch: float = Field(default=1.0, ge=0.0, le=1.0)

    def usd(self, tokens: ChargedTokens, batch: bool = False) -> float:
        """Return the cost of a call in USD.

        The cost is ((input - cached) x p_input + cached x p_cached + output x p_output) / 10^6
        + searches x p_search / 10^3. The cost of a batched call is multiplied by `batch`.
        """
        cached_input = self.input if self.cached_input is None else self.cached_input
        millionths = (
            (tokens.input - tokens.cached) * self.input
            + tokens.cached * cached_input
            + tokens.output * self.output
        )
        ordinary = millionths / 1e6 + tokens.searches * self.search / 1e3
        return ordinary * (self.batch if batch else 1.0)
