// A rank's host thread goes through its rounds; its GPU packs and places; its links carry what is under way.
#include "project/ranks_replay.hpp"

#include <algorithm>
#include <vector>

#include "project/replaying.hpp"

namespace refit::project {
namespace {

class OnRanks : Replaying {
 public:
  OnRanks(const RanksLoad& load, const Platform& platform, const Stack& stack)
      : Replaying(platform, stack), load_(load), loads_(load.loads) {
    const std::uint32_t processes =
        load.colocated ? std::max(loads_.trainers, loads_.generators) : loads_.trainers + loads_.generators;
    ranks_.resize(processes);
    for (Rank& rank : ranks_) {
      rank.memory = engine_.add_resource(platform.copy_rate() * platform.kernel_efficiency.value);
      rank.out = links();
      rank.in = links();
      rank.last = host(cost(Cost::refit), Part::begin, {});
    }
  }

  Replayed run() {
    sent_.resize(std::size_t{loads_.rounds} * loads_.trainers);
    received_.resize(std::size_t{loads_.rounds} * loads_.generators);
    // Nothing waits for a buffer where there is none.
    const std::uint32_t slots = load_.writes() ? loads_.rounds : load_.slots;
    for (std::uint32_t round = 0; round < loads_.rounds; ++round) {
      if (round >= slots) place(round - slots);
      pack(round);
      if (!load_.pulls()) receive(round);
    }
    for (std::uint32_t round = loads_.rounds - std::min(loads_.rounds, slots); round < loads_.rounds;
         ++round) {
      place(round);
    }
    std::vector<Activity> all;
    for (const Rank& rank : ranks_) all.push_back(rank.last);
    const Activity end =
        engine_.add({Engine::kNoResource, 0, 0, static_cast<std::uint32_t>(Part::exchange_host)}, all);
    engine_.run();
    Replayed result = replayed(engine_, end);
    const auto slowest = std::max_element(ranks_.begin(), ranks_.end(), [&](const Rank& a, const Rank& b) {
      return engine_.end(a.last) < engine_.end(b.last);
    });
    result.slowest_rank = static_cast<std::uint32_t>(slowest - ranks_.begin());
    return result;
  }

 private:
  struct Links {
    Engine::Resource peers = 0, network = 0;
  };
  struct Rank {
    Engine::Resource memory = 0;
    Links out, in;
    Activity last = 0;  ///< of its host thread
  };

  [[nodiscard]] Links links() {
    const double share = load_.peer ? 1 : stack_.message_share.figure.value;
    const Engine::Resource peers = engine_.add_resource(platform_.peer_rate() * share);
    return {peers, engine_.add_resource(platform_.network_rate() * share)};
  }
  [[nodiscard]] Rank& generator(std::uint32_t rank) {
    return ranks_[load_.colocated ? rank : loads_.trainers + rank];
  }

  /// Bytes over both kinds of links, after `after`; the one that ends later.
  Activity carry(const Links& links, std::uint64_t near, std::uint64_t far,
                 std::initializer_list<Activity> after) {
    const Activity peers = work(links.peers, double(near), 0, Part::exchange_peers, after);
    const Activity network = work(links.network, double(far), 0, Part::exchange_network, after);
    return host(0, Part::exchange_host, {peers, network});
  }

  /// In one call, or box by box.
  [[nodiscard]] bool packs_lists() const {
    return load_.switches.pipeline == plan::Pipeline::direct ||
           load_.switches.quantize != plan::Quantize::per_tensor;
  }
  [[nodiscard]] bool places_lists() const {
    return load_.switches.pipeline == plan::Pipeline::direct || load_.switches.loader == plan::Loader::cached;
  }

  struct Stays {
    std::uint64_t boxes = 0, bytes = 0;
  };
  /// What stays in a process goes through its buffer like everything else in a staged refit, and is made
  /// beside what is sent where nothing is placed later.
  [[nodiscard]] Stays stays_when_packing(std::uint32_t round, std::uint32_t r) const {
    const bool packed = load_.switches.pipeline == plan::Pipeline::staged || load_.writes();
    if (!load_.colocated || !packed || r >= loads_.generators) return {};
    const reshard::ReceiveLoad& own = loads_.receive(round, r);
    return {load_.writes() ? 0 : own.own_boxes, own.own_bytes};
  }

  void pack(std::uint32_t round) {
    for (std::uint32_t r = 0; r < loads_.trainers; ++r) {
      Rank& rank = ranks_[r];
      const reshard::SendLoad& what = loads_.send(round, r);
      const bool lists = packs_lists();
      const Stays stays = stays_when_packing(round, r);
      const std::uint64_t boxes = what.boxes + stays.boxes;
      const std::uint64_t calls = lists ? std::min<std::uint64_t>(boxes, 1) : boxes;
      const double seconds = double(calls) * cost(lists ? Cost::call : Cost::pack) +
                             (lists ? 0 : double(what.quantized) * cost(Cost::quantize)) +
                             cost(Cost::exchange);
      const Activity issued = host(seconds, Part::pack_host, {rank.last});
      const Activity made = work(rank.memory, double(what.pack_bytes + stays.bytes), kernels(calls),
                                 Part::pack_device, {rank.last});
      rank.last = host(0, Part::exchange_host, {issued, made});
      const std::size_t at = std::size_t{round} * loads_.trainers + r;
      sent_[at] = round == 0 ? carry(rank.out, what.host_bytes, what.network_bytes, {rank.last})
                             : carry(rank.out, what.host_bytes, what.network_bytes,
                                     {rank.last, sent_[at - loads_.trainers]});
    }
  }

  /// A round is received from when the rank has asked for it.
  void receive(std::uint32_t round) {
    for (std::uint32_t r = 0; r < loads_.generators; ++r) {
      Rank& rank = generator(r);
      const reshard::ReceiveLoad& what = loads_.receive(round, r);
      const std::size_t at = std::size_t{round} * loads_.generators + r;
      const Activity moved = round == 0 ? carry(rank.in, what.host_bytes, what.network_bytes, {rank.last})
                                        : carry(rank.in, what.host_bytes, what.network_bytes,
                                                {rank.last, received_[at - loads_.generators]});
      received_[at] = host(0, Part::exchange_host, {moved});
      if (what.boxes == 0) continue;
      // All that this round brings has left its senders.
      for (const std::uint32_t from : loads_.senders[r]) {
        const std::size_t sent = std::size_t{round} * loads_.trainers + from;
        if (loads_.sends[sent].boxes > 0) engine_.also_after(received_[at], sent_[sent]);
      }
    }
  }

  void place(std::uint32_t round) {
    if (load_.pulls()) receive(round);
    for (std::uint32_t r = 0; r < loads_.generators; ++r) {
      Rank& rank = generator(r);
      const reshard::ReceiveLoad& what = loads_.receive(round, r);
      const Activity arrived =
          host(0, Part::exchange_host, {received_[std::size_t{round} * loads_.generators + r], rank.last});
      if (load_.writes()) {
        rank.last = arrived;
        continue;
      }
      const bool lists = places_lists();
      const std::uint64_t boxes = what.boxes + what.own_boxes;
      const std::uint64_t calls = lists ? std::min<std::uint64_t>(boxes, 1) : boxes;
      const double seconds = double(calls) * cost(lists ? Cost::call : Cost::load_lookup) +
                             (lists ? 0 : double(what.late) * cost(Cost::receiver_quantize));
      const Activity issued = host(seconds, Part::load_host, {arrived});
      const Activity placed = work(rank.memory, double(what.place_bytes + what.own_bytes), kernels(calls),
                                   Part::load_device, {arrived});
      rank.last = host(0, Part::exchange_host, {issued, placed});
    }
  }

  const RanksLoad& load_;
  const reshard::Loads& loads_;
  std::vector<Rank> ranks_;
  std::vector<Activity> sent_, received_;
};

}  // namespace

Replayed replay(const RanksLoad& load, const Platform& platform, const Stack& stack) {
  return OnRanks(load, platform, stack).run();
}

}  // namespace refit::project
