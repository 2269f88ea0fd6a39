// Many comparisons in one launch, and who is told what they find.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda/session.hpp"
#include "cuda/uploads.hpp"
#include "kernels/launch.hpp"
#include "verify/tally.hpp"

namespace refit::cuda {

class Comparison {
 public:
  Comparison(SessionPtr session, Uploads& uploads) : session_(std::move(session)), uploads_(uploads) {}

  /// A tally to tell of differences, if any, and what is said of them.
  struct Listener {
    verify::Tally* tally = nullptr;
    std::string_view what;
  };
  using Listeners = std::array<Listener, 2>;
  /// Whose bytes an item's values or scales are: the first is byte `at` of the tensor.
  struct Owner {
    std::size_t tensor = 0;
    std::uint64_t at = 0;
    bool f32 = false;  ///< people read elements, not bytes
  };

  void reserve(std::size_t items);
  /// Judges an item; its listeners count its bytes as compared. A quantize item's values and scales have
  /// owners of their own. The values of an f32 item are stored as they are in the source, from values on.
  void add(const kernels::Compare& item, const Owner& values, const Owner& scales,
           const Listeners& listeners);
  /// Compares everything that was added, once, and tells what differs. Waits.
  void run();

 private:
  struct Judged {
    Owner values, scales;
    Listeners listeners;
  };
  void tell(const Judged& judged, const Owner& owner, const kernels::Difference& difference,
            const std::byte* expected_from, const std::byte* got_from) const;
  [[nodiscard]] verify::Tally::Place place_of(std::uint64_t byte, const std::byte* element) const;

  SessionPtr session_;
  Uploads& uploads_;
  std::vector<kernels::Compare> items_;
  std::vector<Judged> judged_;
};

}  // namespace refit::cuda
