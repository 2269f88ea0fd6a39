// A conversion's report as JSON.
#include "base/json.hpp"
#include "refit/convert/convert.hpp"

namespace refit::convert {

std::string to_json(const Report& report) {
  const Options& options = report.job.options;
  const Conversion& conversion = report.conversion;
  const bool quantizes = conversion.count(Op::quantize) > 0;
  OrderedJson json;
  json["schema"] = "refit-convert/1";
  json["source"] = report.job.source;
  json["destination"] = report.job.destination;
  json["format"] = name_of(options.format);
  json["layout"] = name_of(options.layout);
  json["recipe"] = nullptr;
  if (conversion.recipe) json["recipe"] = model::name_of(*conversion.recipe);
  json["rounding"] = nullptr;
  json["zero_scale"] = nullptr;
  json["quantized_by"] = nullptr;
  if (quantizes) {
    json["rounding"] = quant::name_of(conversion.quant.rounding);
    json["zero_scale"] = conversion.quant.zero_scale == quant::ZeroScale::one ? "one" : "keep";
    json["quantized_by"] = report.job.quantized_by;
  }
  json["tp_size"] = options.tp_size;
  json["tp_rank"] = options.tp_rank;
  json["tensors"] = {{"in", report.tensors_in},
                     {"out", conversion.outputs.size()},
                     {"quantized", conversion.count(Op::quantize)},
                     {"laid_out", conversion.count(Op::carry)},
                     {"dequantized", conversion.count(Op::dequantize)},
                     {"cast", conversion.count(Op::cast)},
                     {"copied", conversion.count(Op::copy)}};
  json["bytes_in"] = conversion.source_bytes;
  json["bytes_out"] = conversion.output_bytes();
  json["threads"] = report.job.threads;
  json["seconds"] = report.seconds;
  json["notes"] = conversion.notes;
  json["warnings"] = conversion.warnings;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::convert
