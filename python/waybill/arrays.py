"""Arrays of other libraries in, arrays of the same library out."""

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")  # an argument of a library that nobody imported can't be
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any, dtype: Any) -> np.ndarray:
    """`array` on the host as contiguous `dtype`: numpy, torch, anything with DLPack, or lists."""
    if _is_torch(array):
        array = array.detach().cpu()
        # numpy has no bfloat16; both of the types that are asked for hold its values exactly.
        array = array.double().numpy() if array.is_floating_point() else array.numpy()
    elif not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        array = np.from_dlpack(array)
    return np.ascontiguousarray(array, dtype=dtype)


def like(array: Any) -> Callable[[np.ndarray], Any]:
    """How a numpy result becomes an array of the library that `array` is of."""
    if _is_torch(array):
        return sys.modules["torch"].from_numpy
    if not isinstance(array, np.ndarray) and hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().from_dlpack
    return lambda result: result
