// The C API's arguments as the library's types. Throws InvalidValue, StructMismatch or
// ShapeMismatch with the name of the argument.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "waybill/error.h"
#include "waybill/expert.h"
#include "waybill/layer.h"
#include "waybill/placement.h"
#include "waybill/topology.h"
#include "waybill/waybill.h"

namespace waybill::c_api {

// The struct behind a pointer, once it is known to be one.
template <class Struct>
const Struct& checked(const Struct* argument, std::string_view name, std::uint32_t magic) {
  if (argument == nullptr) {
    throw Error(Code::InvalidValue).at("argument", name).expected("a pointer").found("NULL");
  }
  if (argument->size != sizeof(Struct) || argument->magic != magic) {
    throw Error(Code::StructMismatch)
        .at("argument", name)
        .expected(fmt::format("size {}, magic {:#x}", sizeof(Struct), magic))
        .found(fmt::format("size {}, magic {:#x}", argument->size, argument->magic));
  }
  return *argument;
}

TensorView view_of(const wb_tensor* tensor, std::string_view name);
ExpertWeights weights_of(const wb_expert_weights& weights);
LayerOptions layer_options_of(const wb_runtime_options& options);
ProcessGroup group_of(const wb_runtime_options& options);
Placement placement_of(const wb_runtime_options& options);
RoutesView routes_of(const wb_routes& routes);

}  // namespace waybill::c_api
