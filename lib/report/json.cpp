// The report as JSON, schema refit-bench/1 (scenarios/schema/refit-bench-1.schema.json).
#include "project/json.hpp"
#include "report/json_parts.hpp"
#include "report/json_values.hpp"

namespace refit::report {

std::string to_json(const Report& report) {
  const Figures figures = derive(report);
  OrderedJson json = {{"schema", "refit-bench/1"}, {"status", name_of(report.status)}};
  if (report.status == Status::refused) json["refused"] = report.message;
  if (report.status == Status::failed) json["error"] = report.message;
  json["scenario"] = scenario_json(report.scenario);
  json["model"] = model_json(report);
  json["replayed"] = report.replay ? replayed_json(*report.replay) : OrderedJson(nullptr);
  json["settings"] = report.replay ? settings_json(report) : OrderedJson(nullptr);
  json["arms"] = report.replay ? arms_json(report, figures) : OrderedJson(nullptr);
  json["ranks"] = report.ranks ? ranks_json(report) : OrderedJson(nullptr);
  json["comparison"] = comparison_json(figures);
  json["device"] = report.result ? device_json(*report.result) : OrderedJson(nullptr);
  json["copy_bandwidth"] = report.result ? copy_json(report.result->copy) : OrderedJson(nullptr);
  json["run"] = report.result ? OrderedJson{{"measured_steps", report.result->steps},
                                            {"warmup_steps", report.result->warmup},
                                            {"stopped_early", report.result->stopped_early},
                                            {"seconds", number(report.result->seconds)}}
                              : OrderedJson(nullptr);
  if (report.projection) json["projected"] = project::projection_json(*report.projection, report.scenario);
  json["environment"] = environment_json(report.environment);
  // Names come from files of users: bytes that are no UTF-8 become U+FFFD.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::report
