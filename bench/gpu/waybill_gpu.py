"""libwaybill_gpu.so over torch tensors, on torch's current stream."""
import ctypes
import os

import torch

_library = ctypes.CDLL(os.environ["WAYBILL_GPU_LIBRARY"])
_library.waybill_gpu_error.restype = ctypes.c_char_p
for _maker in (_library.waybill_gpu_plan, _library.waybill_gpu_layer,
               _library.waybill_gpu_plan_column):
    _maker.restype = ctypes.c_void_p


def _pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def _stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def _checked(result):
    if result is None or result == -1:
        raise RuntimeError(_library.waybill_gpu_error().decode())
    return result


class _Ints:
    """int32 of the device that something else owns, as torch.as_tensor takes them."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = dict(
            shape=(size,), typestr="<i4", data=(address, False), version=2)


class Plan:
    COLUMNS = ("send_order", "send_position", "key_offsets", "expert_counts")

    def __init__(self, experts, topk, max_tokens):
        self.experts, self.topk = experts, topk
        self._plan = ctypes.c_void_p(_checked(_library.waybill_gpu_plan(experts, topk, max_tokens)))

    def __del__(self):
        _library.waybill_gpu_free_plan(self._plan)

    def build(self, ids):
        _checked(_library.waybill_gpu_build(self._plan, ids.shape[0], _pointer(ids), _stream()))

    def columns(self, tokens):
        """The plan's own memory as tensors {name: column}, for `tokens` tokens."""
        routes = tokens * self.topk
        sizes = (routes, routes, self.experts + 1, self.experts)
        columns = {}
        for i, (name, size) in enumerate(zip(self.COLUMNS, sizes, strict=True)):
            address = _library.waybill_gpu_plan_column(self._plan, i)
            columns[name] = torch.as_tensor(_Ints(address, size), device="cuda")
            if columns[name].data_ptr() != address:
                raise RuntimeError("torch copied the plan's memory instead of using it")
        return columns

    def permute(self, hidden, send):
        row_bytes = ctypes.c_long(hidden.shape[1] * hidden.element_size())
        _checked(_library.waybill_gpu_permute(
            self._plan, _pointer(hidden), _pointer(send), row_bytes, _stream()))

    def combine(self, rows, gates, output):
        _checked(_library.waybill_gpu_combine(
            self._plan, _pointer(rows), _pointer(gates), _pointer(output), rows.shape[1], _stream()))


class Layer:
    KERNELS = ("chosen", "portable", "hopper_narrow", "hopper_wide")

    def __init__(self, w1, w2, topk, max_tokens, kernel="chosen"):
        experts, hidden, ff = w2.shape
        self._layer = ctypes.c_void_p(_checked(_library.waybill_gpu_layer(
            experts, topk, max_tokens, hidden, ff, _pointer(w1), _pointer(w2),
            self.KERNELS.index(kernel))))

    def __del__(self):
        _library.waybill_gpu_free_layer(self._layer)

    def forward(self, ids, gates, hidden, output):
        _checked(_library.waybill_gpu_forward(
            self._layer, ids.shape[0], _pointer(ids), _pointer(gates), _pointer(hidden),
            _pointer(output), _stream()))

    def check(self):
        _checked(_library.waybill_gpu_check(self._layer, _stream()))
