// A report as JSON: scenarios/schema/refit-verify-1.schema.json.
#include <cmath>

#include "base/json.hpp"
#include "refit/audit/report.hpp"

namespace refit::audit {
namespace {

OrderedJson number(std::optional<double> value) {
  return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson json_of(const Finding& finding) {
  OrderedJson json = {{"tensor", finding.tensor},
                      {"fault", name_of(finding.fault)},
                      {"expected", finding.expected},
                      {"got", finding.got}};
  if (finding.fault == Fault::bytes) {
    json["index"] = finding.index;
    json["differing_elements"] = finding.count;
    json["elements"] = finding.of;
    json["max_ulp"] = finding.max_ulp ? OrderedJson(*finding.max_ulp) : OrderedJson(nullptr);
  }
  if (finding.diagnosis) {
    const Diagnosis& diagnosis = *finding.diagnosis;
    json["diagnosis"] = {
        {"name", diagnosis.name.empty() ? OrderedJson(nullptr) : OrderedJson(diagnosis.name)},
        {"sentence", diagnosis.sentence}};
  }
  return json;
}

OrderedJson modes_json(const std::vector<bool>& modes) {
  OrderedJson array = OrderedJson::array();
  for (std::size_t i = 0; i < kModes; ++i) {
    if (!modes[i]) continue;
    array.push_back({{"rounding", quant::name_of(mode(i).rounding)},
                     {"zero_scale", mode(i).zero_scale == quant::ZeroScale::one ? "one" : "keep"}});
  }
  return array;
}

OrderedJson json_of(const QuantizedTensor& tensor) {
  return {{"tensor", tensor.name},
          {"modes", modes_json(tensor.modes)},
          {"elements", tensor.elements},
          {"blocks", tensor.blocks},
          {"max_abs_error", number(tensor.max_abs_error)},
          {"rms_error", number(tensor.rms_error)},
          {"sqnr_db", number(tensor.sqnr_db)},
          {"blocks_at_byte_0", tensor.blocks_at_0},
          {"blocks_at_byte_1", tensor.blocks_at_1},
          {"saturated_elements", tensor.saturated},
          {"non_finite_elements", tensor.non_finite},
          {"source_nan_elements", tensor.nan},
          {"source_infinite_elements", tensor.infinite}};
}

OrderedJson json_of(const Report::Quantized& quantized) {
  OrderedJson tensors = OrderedJson::array();
  for (const QuantizedTensor& tensor : quantized.tensors) tensors.push_back(json_of(tensor));
  return {{"modes", modes_json(quantized.modes)}, {"tensors", std::move(tensors)}};
}

}  // namespace

std::string to_json(const Report& report) {
  OrderedJson inputs = OrderedJson::object();
  for (const auto& [name, value] : report.inputs) inputs[name] = value;
  OrderedJson findings = OrderedJson::array();
  for (const Finding& finding : report.findings) findings.push_back(json_of(finding));
  OrderedJson json = {{"schema", "refit-verify/1"},
                      {"command", report.command},
                      {"status", report.equal() ? "equal" : "different"},
                      {"inputs", std::move(inputs)},
                      {"tensors_compared", report.judged.size()},
                      {"bytes_compared", report.bytes},
                      {"findings", std::move(findings)},
                      {"not_judged", report.not_judged},
                      {"notes", report.notes}};
  json["quantized"] = report.quantized ? json_of(*report.quantized) : OrderedJson(nullptr);
  // Names need not be UTF-8 where a path is quoted.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::audit
