"""Remove the language from a query's vector, so a search also finds other languages.

Multilingual models place texts of one language near each other. A German question is nearer to
unrelated German chunks than to an English chunk with the answer. The mean vectors of a corpus's
languages differ along a few axes. A query's vector without these axes is equally near to the mean
of each language. Source: Yang et al., A Simple and Effective Method To Eliminate the Self Language
Bias in Multilingual Representations, EMNLP 2021.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.datamodels import Vectors
from rag_pipeline.loading.languages import language_of

_SAMPLED = 400
"""Maximum number of chunks whose language is detected."""
_LEAST_CHUNKS = 5
_LEAST_SHARE = 0.02
"""A language counts if at least this number and this share of the sampled chunks use it."""


def language_axes(vectors: Vectors, texts: Sequence[str]) -> Vectors | None:
    """Return orthonormal axes along which the mean vectors of the texts' languages differ.

    The shape is (languages - 1, dimension). Return None for fewer than two languages.
    """
    codes = np.array([language_of(text) for text in texts])
    least = max(_LEAST_CHUNKS, _LEAST_SHARE * len(texts))
    counted = [code for code in sorted({*codes} - {""}) if (codes == code).sum() >= least]
    if len(counted) < 2:
        return None
    means = np.array([vectors[codes == code].mean(axis=0) for code in counted])
    axes: Vectors = np.linalg.qr((means[1:] - means[0]).T)[0].T
    return axes


def sampled(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return at most 400 of the positions, evenly spaced."""
    count = min(len(positions), _SAMPLED)
    return positions[np.linspace(0, len(positions) - 1, count, dtype=np.int64)]


def without_axes(vector: Vectors, axes: Vectors | None) -> Vectors:
    """Return a vector without its components along the axes."""
    if axes is None:
        return vector
    kept: Vectors = (vector - (vector @ axes.T) @ axes).astype(np.float32)
    return kept
