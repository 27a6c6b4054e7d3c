import warnings

import numpy as np
import pytest
import recorded

import waybill
from waybill.eplb import rebalance_experts


@pytest.mark.parametrize("path", recorded.eplb_cases(), ids=lambda path: path.name.split(".")[0])
def test_equals_the_recorded_plan(path):
    case = recorded.read(path)
    shape = [case[key] for key in ("num_replicas", "num_groups", "num_nodes", "num_gpus")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = rebalance_experts(np.array(case["weight"]), *shape)
    for array, key in zip(plan, ("phy2log", "log2phy", "logcnt")):
        assert array.dtype == np.int64
        np.testing.assert_array_equal(array, np.array(case["expect"][key]))


def test_says_what_the_public_solver_passes_over():
    with pytest.warns(UserWarning, match="3 groups don't divide over 2 nodes"):
        rebalance_experts(np.ones((1, 6)), 8, 3, 2, 4)


def test_a_shape_that_is_refused_is_an_error_with_code_and_values():
    with pytest.raises(waybill.Error, match="nearest 16 or 20") as raised:
        rebalance_experts(np.ones((1, 16)), 18, 1, 1, 4)
    assert raised.value.code == "DivisibilityMismatch"
    assert raised.value.found == "18"


def test_a_load_that_is_no_load_is_named():
    weight = np.ones((2, 4))
    weight[1, 3] = np.nan
    with pytest.raises(waybill.Error) as raised:
        rebalance_experts(weight, 4, 1, 1, 2)
    assert raised.value.code == "InvalidValue"
    assert raised.value.where["layer"] == "1"
    assert raised.value.where["expert"] == "3"


class Exchanged:
    """An array of a library that speaks DLPack and the array API, and nothing of numpy."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, **options):
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()

    def __array_namespace__(self):
        return Exchanged

    @staticmethod
    def from_dlpack(array):
        return Exchanged(np.from_dlpack(array))


def test_an_array_of_another_library_gives_arrays_of_that_library():
    weight = np.array([[90.0, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86]])
    expected = rebalance_experts(weight, 16, 4, 2, 8)
    plan = rebalance_experts(Exchanged(weight), 16, 4, 2, 8)
    for array, want in zip(plan, expected):
        assert isinstance(array, Exchanged)
        np.testing.assert_array_equal(array.held, want)
