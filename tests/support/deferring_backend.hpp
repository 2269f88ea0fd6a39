// The host's backend with a GPU's manners: what is asked for is done later, in order, when somebody waits for
// it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "device/host_backend.hpp"

namespace refit::test {

class DeferringBackend final : public device::HostBackend {
 public:
  DeferringBackend() : HostBackend(1), late_(*this) {}

  void run(std::span<const device::Task> tasks) override {
    later([this, own = std::vector<device::Task>(tasks.begin(), tasks.end())] { HostBackend::run(own); });
  }
  void run(const device::Program& program) override {
    later([this, &program] { HostBackend::run(program); });
  }
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    later([=, this] { HostBackend::copy(to, from, bytes); });
  }
  std::uint64_t copy_to_peers(std::span<const device::PeerCopy> copies) override {
    later([this, own = std::vector<device::PeerCopy>(copies.begin(), copies.end())] {
      (void)HostBackend::copy_to_peers(own);
    });
    return 1;
  }
  void shuffle_in_place(const device::Shuffle& what) override {
    later([=, this] { HostBackend::shuffle_in_place(what); });
  }
  void fill(std::span<std::byte> range, std::byte value) override {
    later([=, this] { HostBackend::fill(range, value); });
  }
  void fill_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed) override {
    later([=, this, own = std::vector<device::WeightBox>(boxes.begin(), boxes.end())] {
      HostBackend::fill_weights(own, seed);
    });
  }
  void update_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed,
                      std::uint64_t step) override {
    later([=, this, own = std::vector<device::WeightBox>(boxes.begin(), boxes.end())] {
      HostBackend::update_weights(own, seed, step);
    });
  }
  void finish(Deadline) override { settle(); }
  void settle() {
    for (const auto& work : std::exchange(queue_, {})) work();
  }
  void read(std::span<std::byte> host, const std::byte* from) override {
    settle();
    HostBackend::read(host, from);
  }
  void write(std::byte* to, std::span<const std::byte> host) override {
    settle();
    HostBackend::write(to, host);
  }
  device::Checker& checker() override { return late_; }

 private:
  /// Poison and guards are work like any other; who wants an answer waits for it.
  class LateChecker final : public device::Checker {
   public:
    explicit LateChecker(DeferringBackend& owner) : owner_(owner) {}
    void poison(std::span<const verify::Extent> extents, std::span<std::byte> arena,
                std::byte value) override {
      owner_.later([this, own = copy_of(extents), arena, value] { now().poison(own, arena, value); });
    }
    void fill_guards(std::span<const verify::Extent> extents, std::span<std::byte> arena) override {
      owner_.later([this, own = copy_of(extents), arena] { now().fill_guards(own, arena); });
    }
    verify::Result check_guards(std::span<const verify::Extent> extents,
                                std::span<const std::byte> arena) override {
      return settled().check_guards(extents, arena);
    }
    std::vector<std::uint64_t> digests(std::span<const std::span<const std::byte>> ranges) override {
      return settled().digests(ranges);
    }
    verify::Result check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                                std::span<const std::byte> packed, std::span<const std::byte> sources,
                                std::vector<bool>* wrong) override {
      return settled().check_packed(plan, wire, bucket, packed, sources, wrong);
    }
    verify::InPlace check_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                   std::span<const std::byte> destinations,
                                   const std::vector<bool>& masked) override {
      return settled().check_in_place(plan, sources, destinations, masked);
    }
    verify::Result check_layout(const plan::Plan& plan, std::span<const std::byte> sources,
                                std::span<const std::byte> destinations,
                                const std::vector<bool>& masked) override {
      return settled().check_layout(plan, sources, destinations, masked);
    }
    verify::Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                                std::span<const std::uint64_t> second,
                                std::span<const std::byte> destinations, std::byte poison) override {
      return settled().check_poison(plan, first, second, destinations, poison);
    }

   private:
    static std::vector<verify::Extent> copy_of(std::span<const verify::Extent> extents) {
      return {extents.begin(), extents.end()};
    }
    device::Checker& now() { return owner_.HostBackend::checker(); }
    device::Checker& settled() {
      owner_.settle();
      return now();
    }
    DeferringBackend& owner_;
  };

  void later(std::function<void()> work) { queue_.push_back(std::move(work)); }

  std::vector<std::function<void()>> queue_;
  LateChecker late_;
};

}  // namespace refit::test
