import numpy as np
import pytest
import recorded

import waybill


def ratio(load, slots):
    copies = np.bincount([e for rank in slots for e in rank], minlength=len(load))
    ranks = [sum(load[e] / copies[e] for e in rank) for rank in slots]
    return max(ranks) / np.mean(ranks)


def test_gives_what_it_predicts():
    loads = np.array(recorded.gpt_oss_load())
    plan = waybill.balance(loads, ranks=8, slots=40)
    assert plan.mean_ratio_after <= 1.012
    for load, layer in zip(loads, plan.layers):
        assert [len(rank) for rank in layer.slots] == [5] * 8
        assert all(len(set(rank)) == 5 for rank in layer.slots)
        assert layer.after.balance_ratio == pytest.approx(ratio(load, layer.slots))
        assert (layer.verdict, layer.reason) == ("placed", "placed: no placement in force")


def test_is_the_same_for_any_thread_count():
    loads = recorded.gpt_oss_load()
    one, four = (waybill.balance(loads, ranks=8, slots=40, threads=n) for n in (1, 4))
    assert [layer.slots for layer in one.layers] == [layer.slots for layer in four.layers]


def test_a_placement_in_force_stays_when_nothing_is_gained():
    loads = recorded.gpt_oss_load()
    in_force = [layer.slots for layer in waybill.balance(loads, ranks=8, slots=40).layers]
    plan = waybill.balance(loads, ranks=8, slots=40, in_force=in_force)
    assert plan.changed_slots == 0
    assert [layer.slots for layer in plan.layers] == in_force


def test_unequal_slots_nodes_and_speeds():
    loads = np.arange(1.0, 13).reshape(1, 12)
    plan = waybill.balance(
        loads, ranks=3, slots=[6, 5, 3], nodes=[0, 0, 1], speed=[2, 1, 1], layers=[7]
    )
    assert plan.layers[0].layer == 7
    assert [len(rank) for rank in plan.layers[0].slots] == [6, 5, 3]


def test_loads_by_source_node_price_the_rows_between_nodes():
    rows = np.array([[[10.0, 10, 0, 0], [0, 0, 10, 10]]])
    plan = waybill.balance(rows, ranks=2, slots=4, nodes=2, in_force=[[[2, 3], [0, 1]]])
    assert plan.layers[0].before.inter_node == 40


def test_time_saved_decides_when_it_can_be_told():
    def planned(horizon_steps):
        return waybill.balance(
            [[8.0, 8, 1, 1]], ranks=2, slots=4, in_force=[[[0, 1], [2, 3]]], expert_bytes=1 << 20,
            link_gbps=1, step_us=10, horizon_steps=horizon_steps,
        ).layers[0]

    hasty, patient = planned(1), planned(10**6)
    assert hasty.verdict == "does_not_pay" and hasty.saved_us < hasty.migration_us
    assert patient.verdict == "moves" and patient.saved_us > patient.migration_us
    assert patient.after.changed_slots == 2


def test_half_a_pay_off_is_an_error():
    with pytest.raises(waybill.Error) as raised:
        waybill.balance([[1.0, 1]], ranks=2, slots=2, link_gbps=400)
    assert raised.value.code == "MissingField"


@pytest.mark.parametrize(
    "options, code",
    [
        (dict(ranks=8, slots=8), "ReplicaCardinalityZero"),
        (dict(ranks=8, slots=16, nodes=3), "DivisibilityMismatch"),
        (dict(ranks=8, slots=16, solver="best"), "InvalidValue"),
        (dict(ranks=8, slots=16, nodes=2, groups=3, locality="soft"), "DivisibilityMismatch"),
    ],
)
def test_what_cannot_be_is_an_error_with_its_code(options, code):
    with pytest.raises(waybill.Error) as raised:
        waybill.balance(np.ones((1, 12)), **options)
    assert raised.value.code == code


def test_an_infinite_load_is_named():
    with pytest.raises(waybill.Error) as raised:
        waybill.balance([[1.0, float("inf")]], ranks=2, slots=2)
    assert raised.value.where["expert"] == "1"
