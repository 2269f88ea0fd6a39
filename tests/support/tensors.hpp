// Tensors by name, the file of them, and audits of two such files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "refit/audit/files.hpp"
#include "refit/audit/report.hpp"
#include "refit/checkpoint/checkpoint.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

namespace refit::test {

using Octets = std::vector<std::uint8_t>;

/// Tensors by name, and the file of them.
struct Tensors {
  struct Tensor {
    DType dtype{};
    Shape shape;
    Octets bytes;
  };
  std::map<std::string, Tensor> map;

  Tensor& operator[](const std::string& name) { return map[name]; }
  [[nodiscard]] const Tensor& at(const std::string& name) const { return map.at(name); }

  [[nodiscard]] std::string file(const TempDir& folder, const std::string& name) const {
    std::vector<TensorSpec> specs;
    std::string data;
    for (const auto& [tensor, value] : map) {
      specs.push_back({tensor, value.shape, value.dtype});
      data.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    }
    return folder.write(name, checkpoint::make_header(specs, {}) + data);
  }
};

template <typename Element>
Tensors::Tensor tensor_of(DType dtype, Shape shape, const std::vector<Element>& elements) {
  Tensors::Tensor tensor{dtype, std::move(shape), Octets(elements.size() * sizeof(Element))};
  if (!elements.empty()) std::memcpy(tensor.bytes.data(), elements.data(), tensor.bytes.size());
  return tensor;
}

/// The finding of that tensor; a report may have one alone.
inline const audit::Finding& finding_of(const audit::Report& report, const std::string& tensor) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [&](const audit::Finding& finding) { return finding.tensor == tensor; });
  if (found == report.findings.end()) FAIL("no finding for " + tensor);
  return *found;
}

/// What refit-verify files says of the two.
inline audit::Report compare(const Tensors& a, const Tensors& b, const std::vector<std::string>& names = {}) {
  const TempDir folder;
  const auto left = checkpoint::Checkpoint::open(a.file(folder, "a.safetensors"));
  const auto right = checkpoint::Checkpoint::open(b.file(folder, "b.safetensors"));
  ThreadPool pool(2);
  return audit::compare_files(left, right, names, pool);
}

}  // namespace refit::test
