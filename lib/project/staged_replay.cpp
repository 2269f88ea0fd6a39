// Two host threads, one GPU whose memory both share, and the links over which the trainer gathers.
#include "project/staged_replay.hpp"

#include <vector>

#include "project/replaying.hpp"

namespace refit::project {
namespace {

/// A host issues the work of a bucket one after the other: it ends no sooner than the last is issued, which
/// is an activity of its own.
class Staged : Replaying {
 public:
  Staged(const StagedLoad& load, const Platform& platform, const Stack& stack)
      : Replaying(platform, stack),
        load_(load),
        memory_(engine_.add_resource(platform.copy_rate() * platform.kernel_efficiency.value *
                                     (load.direct ? 1 : platform.shared_efficiency.value))),
        peers_(engine_.add_resource(platform.peer_rate() * stack.message_share.figure.value)),
        network_(engine_.add_resource(platform.network_rate() * stack.message_share.figure.value)) {}

  Replayed run() {
    trainer_ = host(cost(Cost::refit) + double(load_.buffers_made) * cost(Cost::allocate), Part::begin, {});
    generator_ = trainer_;
    for (std::size_t b = 0; b < load_.buckets.size(); ++b) {
      send(b);
      receive(b);
    }
    if (load_.direct) direct();
    relayout();
    engine_.run();
    return replayed(engine_, generator_);
  }

 private:
  void send(std::size_t b) {
    const BucketLoad& what = load_.buckets[b];
    const std::uint64_t packed = what.packed_keys + (stack_.packs_batches ? what.batched_keys : 0);
    const double seconds = double(what.gathered) * cost(Cost::gather) +
                           double(what.quantize_calls) * cost(Cost::quantize) +
                           double(packed) * cost(Cost::pack) + double(what.list_calls) * cost(Cost::call);
    // A buffer is filled again when the generator has acknowledged it.
    const Activity ready =
        b < load_.slots ? trainer_ : host(0, Part::message, {trainer_, acknowledged_[b - load_.slots]});
    const Activity issued = host(seconds, Part::pack_host, {ready});
    const Activity made =
        work(memory_, double(what.pack_bytes), kernels(what.pack_kernels), Part::pack_device, {ready});
    const Activity near = work(peers_, double(what.peer_bytes), 0, Part::gather_peers, {ready});
    const Activity far = work(network_, double(what.network_bytes), 0, Part::gather_network, {ready});
    double message = cost(Cost::bucket) + double(what.handles) * cost(Cost::handle);
    if (load_.offset_map) message += double(what.keys) * cost(Cost::offset_map_key);
    if (load_.with_function) message += double(what.handles) * cost(Cost::handle_function);
    trainer_ = host(message, Part::message, {issued, made, near, far});
    sent_.push_back(trainer_);
  }

  void receive(std::size_t b) {
    const BucketLoad& what = load_.buckets[b];
    const std::uint64_t keys =
        what.loaded_keys + (stack_.loads_quantized_keys ? 2 * what.received_quantized : 0);
    const std::uint64_t quantizes = what.receiver_lists ? 0 : what.received_quantized;
    const double seconds = double(what.handles) * cost(Cost::handle) +
                           double(keys) * cost(load_.cached ? Cost::load_cached : Cost::load_lookup) +
                           double(quantizes) * cost(Cost::receiver_quantize) +
                           double(what.load_calls) * cost(Cost::call);
    const Activity arrived = host(0, Part::message, {generator_, sent_[b]});
    const Activity issued = host(seconds, Part::load_host, {arrived});
    const Activity loaded =
        work(memory_, double(what.load_bytes), kernels(what.load_kernels), Part::load_device, {arrived});
    generator_ = host(0, Part::message, {issued, loaded});
    acknowledged_.push_back(generator_);
  }

  void direct() {
    const Activity issued = host(cost(Cost::call) + cost(Cost::bucket), Part::pack_host, {trainer_});
    const Activity moved =
        work(memory_, double(load_.floor_bytes), kernels(1), Part::pack_device, {trainer_});
    generator_ = host(0, Part::message, {issued, moved});
  }

  void relayout() {
    const RelayoutLoad& what = load_.relayout;
    if (what.kernels == 0) return;
    const double seconds =
        double(what.experts) * cost(Cost::shuffle_expert) + double(what.layers) * cost(Cost::shuffle_layer);
    const Activity issued = host(seconds, Part::relayout_host, {generator_});
    const Activity moved = work(memory_, double(what.shuffle_bytes + what.scale_bytes), kernels(what.kernels),
                                Part::relayout_device, {generator_});
    generator_ = host(0, Part::relayout_host, {issued, moved});
  }

  const StagedLoad& load_;
  Engine::Resource memory_, peers_, network_;
  Activity trainer_ = 0, generator_ = 0;  ///< the last thing of each host thread
  std::vector<Activity> sent_, acknowledged_;
};

}  // namespace

Replayed replay(const StagedLoad& load, const Platform& platform, const Stack& stack) {
  return Staged(load, platform, stack).run();
}

}  // namespace refit::project
