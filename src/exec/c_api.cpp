// The C functions: arguments in, one code out, no exception past this file.
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "exec/c_arguments.h"
#include "exec/c_runtime.h"
#include "waybill/error.h"
#include "waybill/waybill.h"

namespace waybill::c_api {
namespace {

// What the last call of this thread that failed had to say.
struct LastError {
  std::string text;
  const char* shown = "";
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

wb_code fail(Code code, const char* message) noexcept {
  LastError& last = last_error();
  try {
    last.text = message;
    last.shown = last.text.c_str();
  } catch (const std::bad_alloc&) {
    last.shown = name(code).data();  // a literal
  }
  return static_cast<wb_code>(code);
}

template <class Body>
wb_code guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return WB_OK;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Code::MemoryExhausted, "MemoryExhausted");
  } catch (const std::exception& error) {
    return fail(Code::DeviceFault, error.what());
  } catch (...) {
    return fail(Code::DeviceFault, "an exception of unknown type");
  }
}

template <class T>
T& required(T* argument, std::string_view name) {
  if (argument == nullptr) {
    throw Error(Code::InvalidValue).at("argument", name).expected("a pointer").found("NULL");
  }
  return *argument;
}

wb_tensor contiguous(const void* data, int32_t dtype, std::initializer_list<std::int64_t> shape) {
  wb_tensor tensor{};
  const TensorView view = TensorView::contiguous(data, DType::f32, shape);
  tensor.data = view.data;
  tensor.dtype = dtype;
  tensor.rank = view.rank;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    tensor.shape[i] = view.shape[i];
    tensor.strides[i] = view.strides[i];
  }
  return tensor;
}

}  // namespace
}  // namespace waybill::c_api

namespace c_api = waybill::c_api;

const char* wb_code_name(int32_t code) {
  if (code == WB_OK) return "OK";
  waybill::Code known{};
  return waybill::find_code(code, known) ? name(known).data() : nullptr;  // names are literals
}

const char* wb_last_error_message(void) { return c_api::last_error().shown; }

wb_tensor wb_tensor_1d(const void* data, int32_t dtype, int64_t extent) {
  return c_api::contiguous(data, dtype, {extent});
}

wb_tensor wb_tensor_2d(const void* data, int32_t dtype, int64_t rows, int64_t columns) {
  return c_api::contiguous(data, dtype, {rows, columns});
}

wb_code wb_runtime_open(const wb_runtime_options* options, const wb_expert_weights* experts,
                        wb_runtime** runtime) {
  return c_api::guarded([&] {
    wb_runtime*& result = c_api::required(runtime, "runtime");
    result = nullptr;
    result = std::make_unique<wb_runtime>(
                 c_api::checked(options, "options", WB_RUNTIME_OPTIONS_MAGIC), experts)
                 .release();
  });
}

void wb_runtime_close(wb_runtime* runtime) { std::unique_ptr<wb_runtime>{runtime}.reset(); }

wb_code wb_plan(wb_runtime* runtime, int32_t rank, const wb_routes* routes, wb_handle* handle) {
  return c_api::guarded([&] {
    c_api::RankRuntime& on_rank = c_api::required(runtime, "runtime").on(rank);
    wb_handle& result = c_api::required(handle, "handle");
    const waybill::RoutesView view =
        c_api::routes_of(c_api::checked(routes, "routes", WB_ROUTES_MAGIC));
    result = on_rank.plan(view);
  });
}

wb_code wb_dispatch(wb_runtime* runtime, int32_t rank, wb_handle handle, const wb_tensor* hidden) {
  return c_api::guarded([&] {
    c_api::RankRuntime& on_rank = c_api::required(runtime, "runtime").on(rank);
    on_rank.dispatch(handle, c_api::view_of(hidden, "hidden"));
  });
}

wb_code wb_combine(wb_runtime* runtime, int32_t rank, wb_handle handle, const wb_tensor* output,
                   const wb_tensor* shared) {
  return c_api::guarded([&] {
    c_api::RankRuntime& on_rank = c_api::required(runtime, "runtime").on(rank);
    const waybill::TensorView rows = c_api::view_of(output, "output");
    waybill::TensorView shared_rows;
    if (shared != nullptr) shared_rows = c_api::view_of(shared, "shared");
    on_rank.combine(handle, rows, shared == nullptr ? nullptr : &shared_rows);
  });
}

wb_code wb_release(wb_runtime* runtime, int32_t rank, wb_handle handle) {
  return c_api::guarded([&] { c_api::required(runtime, "runtime").on(rank).release(handle); });
}

wb_code wb_abort(wb_runtime* runtime, int32_t rank, const char* reason) {
  return c_api::guarded([&] {
    c_api::required(runtime, "runtime")
        .on(rank)
        .abort(reason == nullptr ? "the caller gives no reason" : reason);
  });
}
