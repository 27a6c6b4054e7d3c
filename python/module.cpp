#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "waybill/error.h"

namespace nb = nanobind;

namespace waybill::python {
namespace {

// The C++ error as the Python class of waybill/errors.py.
void raise(const Error& error) {
  nb::dict where;
  for (const auto& [coordinate, value] : error.where()) where[coordinate.c_str()] = value;
  const nb::object type = nb::module_::import_("waybill.errors").attr("Error");
  const nb::object raised = type(error.what(), nb::str(std::string(name(error.code())).c_str()),
                                 where, error.expected_text(), error.found_text());
  PyErr_SetObject(type.ptr(), raised.ptr());
}

}  // namespace

void bind_errors(nb::module_& /*module*/) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void* /*unused*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace waybill::python

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of waybill: use the functions of the package itself.";
  waybill::python::bind_errors(module);
  waybill::python::bind_balance(module);
  waybill::python::bind_eplb(module);
}
