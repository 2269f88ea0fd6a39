// The words for forms and links.
#include "refit/reshard/report.hpp"

namespace refit::reshard {

std::string_view name_of(Form form) noexcept {
  switch (form) {
    case Form::as_is:
      return "as-is";
    case Form::quantized:
      return "quantized";
    case Form::quantized_late:
      return "quantized-late";
  }
  return "unknown";
}

std::string_view name_of(Link link) noexcept {
  switch (link) {
    case Link::process:
      return "process";
    case Link::host:
      return "host";
    case Link::network:
      return "network";
    case Link::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string_view name_of(TrainerForm form) noexcept {
  return form == TrainerForm::hf ? "hf" : "megatron";
}

std::optional<TrainerForm> parse_trainer_form(std::string_view name) noexcept {
  for (const TrainerForm form : {TrainerForm::megatron, TrainerForm::hf}) {
    if (name == name_of(form)) return form;
  }
  return std::nullopt;
}

}  // namespace refit::reshard
