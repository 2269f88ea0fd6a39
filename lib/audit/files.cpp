// Are two checkpoints the same: names, dtypes, shapes and every byte.
#include "refit/audit/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "audit/elements.hpp"
#include "refit/base/error.hpp"

namespace refit::audit {
namespace {

using checkpoint::Checkpoint;

struct Pair {
  Pair(const Checkpoint::Tensor& a_tensor, const Checkpoint::Tensor& b_tensor)
      : a(&a_tensor), b(&b_tensor), tally(a_tensor.spec.dtype) {}
  const Checkpoint::Tensor* a;
  const Checkpoint::Tensor* b;
  ElementTally tally;
};

struct PairPiece {
  Pair* pair;
  std::uint64_t begin, bytes;
};

void require_names(const Checkpoint& a, const Checkpoint& b, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (a.find(name) == nullptr && b.find(name) == nullptr) {
      fail_input(fmt::format("neither {} nor {} has a tensor '{}'", a.path(), b.path(), name));
    }
  }
}

class Files {
 public:
  Files(const Checkpoint& a, const Checkpoint& b, const std::vector<std::string>& names)
      : a_(a), b_(b), asked_(names.begin(), names.end()) {
    require_names(a, b, names);
    report_.command = "files";
    report_.inputs = {{"a", a.path()}, {"b", b.path()}};
  }

  Report compare(ThreadPool& pool) {
    for (const Checkpoint::Tensor& tensor : a_.tensors()) {
      if (wanted(tensor)) pair_up(tensor);
    }
    for (const Checkpoint::Tensor& tensor : b_.tensors()) {
      if (!wanted(tensor) || a_.find(tensor.spec.name) != nullptr) continue;
      add(tensor, Fault::extra, "no such tensor", describe(tensor.spec));
    }
    compare_bytes(pool);
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool wanted(const Checkpoint::Tensor& tensor) const {
    return asked_.empty() || asked_.contains(tensor.spec.name);
  }
  static std::string describe(const TensorSpec& spec) {
    return fmt::format("{} {}", name_of(spec.dtype), to_string(spec.shape));
  }

  void add(const Checkpoint::Tensor& tensor, Fault fault, std::string expected, std::string got) {
    report_.judged.push_back(tensor.spec.name);
    report_.findings.push_back(
        {.tensor = tensor.spec.name, .fault = fault, .expected = std::move(expected), .got = std::move(got)});
  }

  void pair_up(const Checkpoint::Tensor& a) {
    const Checkpoint::Tensor* const b = b_.find(a.spec.name);
    if (b == nullptr) return add(a, Fault::missing, describe(a.spec), "no such tensor");
    if (a.spec.dtype != b->spec.dtype) {
      return add(a, Fault::dtype, std::string(name_of(a.spec.dtype)), std::string(name_of(b->spec.dtype)));
    }
    if (a.spec.shape != b->spec.shape) {
      return add(a, Fault::shape, to_string(a.spec.shape), to_string(b->spec.shape));
    }
    report_.judged.push_back(a.spec.name);
    report_.bytes += a.spec.bytes();
    pairs_.emplace_back(a, *b);
  }

  void compare_bytes(ThreadPool& pool) {
    std::vector<PairPiece> pieces;
    for (Pair& pair : pairs_) {
      const std::uint64_t bytes = pair.a->spec.bytes();
      for (std::uint64_t begin = 0; begin < bytes; begin += kPieceBytes) {
        pieces.push_back({&pair, begin, std::min(kPieceBytes, bytes - begin)});
      }
    }
    pool.for_range(pieces.size(), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t p = first; p < last; ++p) {
        const PairPiece& piece = pieces[p];
        const Bytes a = a_.data(*piece.pair->a).subspan(piece.begin, piece.bytes);
        const Bytes b = b_.data(*piece.pair->b).subspan(piece.begin, piece.bytes);
        piece.pair->tally.compare(a, b, piece.begin / size_of(piece.pair->a->spec.dtype));
      }
    });
    for (const Pair& pair : pairs_) {
      if (auto finding = pair.tally.finding(pair.a->spec)) report_.findings.push_back(std::move(*finding));
    }
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  std::unordered_set<std::string> asked_;
  std::deque<Pair> pairs_;
  Report report_;
};

}  // namespace

Report compare_files(const Checkpoint& a, const Checkpoint& b, const std::vector<std::string>& names,
                     ThreadPool& pool) {
  return Files(a, b, names).compare(pool);
}

}  // namespace refit::audit
