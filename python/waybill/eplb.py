"""A drop-in for the public expert-parallel load balancer (github.com/deepseek-ai/EPLB).

The same plans bit for bit, ties included, some hundred times faster.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import _core, arrays

__all__ = ["rebalance_experts"]


def rebalance_experts(
    weight: Any, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int
) -> tuple[Any, Any, Any]:
    """Replicas of experts, and the slots that hold them.

    weight: [layers, num_logical_experts] loads; a numpy array, a torch tensor, or anything with
        DLPack on the host. Rounded to binary32, as the public solver does.
    num_replicas: slots, a multiple of `num_gpus`.
    num_groups: of contiguous experts; they stay inside nodes when they divide over `num_nodes`.

    Returns, as int64 arrays of the kind that came in (tensors on the host):
        physical_to_logical_map [layers, num_replicas]: the expert of each slot
        logical_to_physical_map [layers, num_logical_experts, X]: slots by replica, -1 past them
        expert_count [layers, num_logical_experts]: replicas

    Raises waybill.Error for shapes that the public solver refuses and for loads that are negative
    or not finite; warns of what it passes over in silence.
    """
    result = arrays.like(weight)
    phy2log, log2phy, logcnt, told = _core.eplb(
        arrays.as_numpy(weight, np.float32), num_replicas, num_groups, num_nodes, num_gpus
    )
    for text in told:
        warnings.warn(text, stacklevel=2)
    return result(phy2log), result(log2phy), result(logcnt)
