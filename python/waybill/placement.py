"""Better placements from anyone's expert loads."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import _core, arrays
from .errors import Error

__all__ = ["balance"]

SlotLists = Sequence[Sequence[int]]


def balance(
    loads: Any,
    *,
    ranks: int,
    slots: int | Sequence[int],
    nodes: int | Sequence[int] = 1,
    groups: int = 1,
    layers: Sequence[int] | None = None,
    in_force: Sequence[SlotLists] | None = None,
    solver: str = "waybill",
    locality: str = "auto",
    speed: Sequence[float] | None = None,
    memory_bytes: Sequence[int] | None = None,
    expert_bytes: int = 0,
    min_gain: float = 0.005,
    link_gbps: float | None = None,
    step_us: float | None = None,
    horizon_steps: int | None = None,
    max_changed_slots: int | None = None,
    churn: float = 0.01,
    exact_seconds: float = 10.0,
    threads: int = 1,
) -> _core.BalancePlan:
    """A placement for each layer: what it gives, what it costs to get there, and why.

    loads: [layers, experts] or [layers, source nodes, experts], non-negative and finite; a numpy
        array, a torch tensor, lists, or anything with DLPack on the host.
    ranks, slots: slots of each layer, over all ranks or a list of each rank's.
    nodes: equal runs of ranks, or a list of each rank's node.
    groups: contiguous blocks of experts. `locality` soft keeps one copy of each expert in its
        group's node, hard all of them, none ignores groups, auto is soft where the numbers allow.
    layers: their numbers in the whole model; 0, 1, ... by default.
    in_force: the placement that serves now, a list of experts for each rank of each layer.
    solver: waybill; eplb, the public solver; exact, proven optimal, in builds with CBC.
    speed, memory_bytes: of each rank; equal and enough by default.
    min_gain: without a pay-off, a placement in force stays when its largest rank would fall by a
        smaller share than this. With `expert_bytes`, `link_gbps` (into each rank), `step_us` (all
        MoE layers of a step) and `horizon_steps`, the time that is saved decides instead.
    churn: what changing every slot weighs, as a share of the mean rank's time.
    exact_seconds: that solver exact may take for a layer.
    threads: over layers; the result doesn't depend on them.

    Raises waybill.Error with code and coordinates.
    """
    demand = arrays.as_numpy(loads, np.float64)
    if demand.ndim == 2:
        demand = demand[:, np.newaxis, :]
    experts = demand.shape[-1]
    cluster = _cluster(experts, ranks, slots, nodes)
    if speed is not None:
        cluster.speed = list(speed)
    if memory_bytes is not None:
        cluster.memory_bytes = list(memory_bytes)
    return _core.balance(
        demand,
        list(range(demand.shape[0])) if layers is None else list(layers),
        cluster,
        [] if in_force is None else in_force,
        solver=solver,
        locality=locality,
        groups=groups,
        min_gain=min_gain,
        pay_off=_pay_off(link_gbps=link_gbps, step_us=step_us, horizon_steps=horizon_steps),
        max_changed_slots=max_changed_slots,
        expert_bytes=expert_bytes,
        churn=churn,
        exact_seconds=exact_seconds,
        threads=threads,
    )


def _pay_off(**figures: float | None) -> tuple[float, ...] | None:
    missing = [name for name, value in figures.items() if value is None]
    if len(missing) == len(figures):
        return None
    if missing:
        message = f"MissingField: {missing[0]}: a pay-off needs all of {', '.join(figures)}"
        raise Error(message, "MissingField", {"field": missing[0]})
    return tuple(figures.values())


def _cluster(
    experts: int, ranks: int, slots: int | Sequence[int], nodes: int | Sequence[int]
) -> _core.Cluster:
    if isinstance(slots, int) and isinstance(nodes, int):
        return _core.Cluster.even(experts, ranks, nodes, slots)
    if isinstance(slots, int):
        slots = _core.Cluster.even(experts, ranks, 1, slots).slots
    if isinstance(nodes, int):
        nodes = [rank * nodes // ranks for rank in range(ranks)]
    return _core.Cluster.of(list(nodes), list(slots))
