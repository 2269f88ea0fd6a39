// Plan and wire of one arm.
#include "run/arm.hpp"

namespace refit::run {

plan::Plan make_plan(const BenchSpec& spec, const plan::Switches& switches) {
  plan::check_compatible(switches);
  plan::Request request;
  request.model = model::slice(model::parse_inventory(spec.config_json, spec.config_place), spec.slice);
  request.recipe = spec.recipe;
  request.moe_layout = spec.moe_layout;
  request.quant = {switches.rounding, switches.zero_scale, switches.non_finite};
  request.router_bias_bf16 = switches.router_bias == plan::RouterBias::bf16;
  return plan::build(request);
}

Arm::Arm(const BenchSpec& spec, const plan::Switches& how) : switches(how), plan(make_plan(spec, how)) {
  if (how.pipeline == plan::Pipeline::staged)
    wire = plan::make_wire(plan, how.prequantize, how.bucket_bytes());
}

}  // namespace refit::run
