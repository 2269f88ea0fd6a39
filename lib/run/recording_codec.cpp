// One flat array of numbers: a span more must not be an object more.
#include "run/recording_codec.hpp"

#include <fmt/format.h>

#include "refit/base/error.hpp"

namespace refit::run {
namespace {

constexpr std::size_t kNumbers = 5;  // of a span

}  // namespace

Json encode_recording(const Recording& recording) {
  Json spans = Json::array();
  for (const Span& span : recording.spans) {
    spans.push_back(span.stage);
    spans.push_back(span.begin);
    spans.push_back(span.end);
    spans.push_back(span.bytes);
    spans.push_back(span.launches);
  }
  return {{"stages", recording.stages},
          {"spans", std::move(spans)},
          {"left_out", recording.left_out},
          {"wall", recording.wall},
          {"start", recording.start.time_since_epoch().count()}};
}

Recording recording_of(const Json& in) {
  Recording recording;
  in.at("stages").get_to(recording.stages);
  const Json& spans = in.at("spans");
  for (std::size_t i = 0; i < spans.size(); i += kNumbers) {
    const Span span{spans.at(i).get<std::uint32_t>(), spans.at(i + 1).get<double>(),
                    spans.at(i + 2).get<double>(), spans.at(i + 3).get<std::uint64_t>(),
                    spans.at(i + 4).get<std::uint64_t>()};
    if (span.stage >= recording.stages.size()) {
      fail_runtime(fmt::format("a recording of {} stages has a span of stage {}", recording.stages.size(),
                               span.stage));
    }
    recording.spans.push_back(span);
  }
  in.at("left_out").get_to(recording.left_out);
  in.at("wall").get_to(recording.wall);
  recording.start = Clock::time_point(Clock::duration(in.at("start").get<Clock::rep>()));
  return recording;
}

}  // namespace refit::run
