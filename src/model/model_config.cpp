#include "model/model_config.h"

#include <fmt/format.h>

#include "model/config_fields.h"
#include "model/moe_layers.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int32_t most_layers = 1024;
// Bounds the loader's work and its list of missing tensors, whatever config.json says.
constexpr std::int64_t most_layer_experts = 1 << 18;

// Quantised weights need kernels of their own; read as plain numbers they would be silently wrong.
void refuse_quantisation(const ConfigFields& fields) {
  const auto quantisation = fields.find("quantization_config");
  if (!quantisation) return;
  const auto method =
      quantisation->is(JsonKind::object) ? quantisation->find("quant_method") : std::nullopt;
  const JsonValue& at_fault = method ? *method : *quantisation;
  throw at_fault.error(Code::DtypeMismatch)
      .expected("weights in bf16, f16 or f32 and no quantization_config")
      .found(at_fault.text());
}

void check(const ConfigFields& fields, const ModelConfig& model) {
  if (model.moe_layers.empty()) {
    throw fields.error(Code::InvalidValue, "num_hidden_layers")
        .expected("at least one layer with experts")
        .found(fmt::format("{} layers, all dense", model.layers));
  }
  const auto layer_experts = static_cast<std::int64_t>(model.moe_layers.size()) * model.experts;
  if (layer_experts > most_layer_experts) {
    throw fields.error(Code::InvalidValue, "num_hidden_layers")
        .expected(fmt::format("at most {} experts in all layers", most_layer_experts))
        .found(layer_experts);
  }
}

}  // namespace

FamilyConfig read_model_config(const JsonDocument& document) {
  Faults first;
  return read_model_config(document, first);
}

FamilyConfig read_model_config(const JsonDocument& document, Faults& faults) {
  const ConfigFields fields(document.root(), faults);

  FamilyConfig config{find_family(fields.text("model_type"), document.file()), {}};
  const SizeFields& sizes = config.family.sizes;
  ModelConfig& model = config.model;
  const auto read = [&](auto part) { return faults.attempt(part); };
  read([&] { refuse_quantisation(fields); });
  fields.require_text("hidden_act", "silu");
  model.family = config.family.name;
  const bool layers =
      read([&] { model.layers = fields.integer({"num_hidden_layers"}, 1, most_layers); });
  read([&] { model.hidden = fields.width({"hidden_size"}); });
  const bool experts = read([&] { model.experts = fields.experts(sizes.experts); }) &&
                       read([&] { model.topk = fields.topk(sizes.topk, model.experts); });
  const bool ff = read([&] { model.ff = fields.width({sizes.ff}); });
  // The rest of the model depends on these.
  if (!layers || !experts || !ff) return config;
  read([&] {
    model.moe_layers = every_layer(model.layers);
    config.family.configure(fields, model);
    model.router.experts = model.experts;
    model.router.topk = model.topk;
    check(fields, model);
  });
  return config;
}

}  // namespace waybill
