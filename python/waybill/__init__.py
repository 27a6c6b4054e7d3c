"""Placements of mixture-of-experts layers from measured expert loads."""

from . import eplb
from ._core import BalancePlan, LayerPlan, ObjectiveTerms, Proof
from .errors import Error
from .placement import balance

__all__ = ["BalancePlan", "Error", "LayerPlan", "ObjectiveTerms", "Proof", "balance", "eplb"]
