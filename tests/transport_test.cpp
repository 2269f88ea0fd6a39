// Channels, shared memory and child processes: what arrives, what is refused, and that nothing is left
// behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/transport/child_process.hpp"
#include "refit/transport/shared_memory.hpp"
#include "refit/transport/unix_channel.hpp"
#include "support/catch.hpp"
#include "transport/available_memory.hpp"

using namespace refit;
using namespace refit::transport;
namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::milliseconds;

namespace {

Deadline in(double seconds) {
  return Deadline::after(duration<double>(seconds));
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::size_t mapped_memories() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:refit") != std::string::npos;
  return count;
}

/// Everything that a test opened and mapped must be closed and unmapped when this goes.
class NoLeak {
 public:
  NoLeak() { REQUIRE(mapped_memories() == 0); }
  NoLeak(const NoLeak&) = delete;
  NoLeak& operator=(const NoLeak&) = delete;
  ~NoLeak() {
    CHECK(open_descriptors() == before_);
    CHECK(mapped_memories() == 0);
  }

 private:
  std::size_t before_ = open_descriptors();
};

/// The sentence of the Error(runtime) that `action` must throw.
std::string sentence_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::runtime);
    return error.what();
  }
  return "nothing was thrown";
}

std::string send_error(UnixChannel& channel, std::uint32_t type, std::string_view body,
                       const std::vector<int>& fds, Deadline deadline) {
  return sentence_of([&] { channel.send(type, body, fds, deadline); });
}

std::string receive_error(UnixChannel& channel, Deadline deadline, std::size_t max_body = 256u << 20) {
  return sentence_of([&] { (void)channel.receive(deadline, max_body); });
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Bytes without a period that a shifted or repeated piece could hide behind.
std::string pattern(std::size_t size, std::uint64_t seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>(mix64(seed * 0x9E3779B97F4A7C15ull + i / 8) >> i % 8 * 8);
  return text;
}

/// Which file a descriptor means, whatever its number here.
ino_t identity(int fd) {
  struct stat state {};
  REQUIRE(::fstat(fd, &state) == 0);
  return state.st_ino;
}

bool is_close_on_exec(int fd) {
  return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

std::pair<UniqueFd, UniqueFd> raw_pair() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// A channel to the "generator" and the bare socket at the other end.
std::pair<UnixChannel, UniqueFd> channel_and_raw() {
  auto [mine, other] = raw_pair();
  return {UnixChannel(std::move(mine), "generator"), std::move(other)};
}

/// The bytes of a message on the wire.
std::string frame(std::uint32_t type, std::string_view body) {
  auto [channel, raw] = channel_and_raw();
  channel.send(type, body, {}, in(5));
  std::string bytes(body.size() + 1024, '\0');
  const ssize_t count = ::recv(raw.get(), bytes.data(), bytes.size(), 0);
  REQUIRE(count > static_cast<ssize_t>(body.size()));
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

void write_raw(const UniqueFd& socket, std::string_view bytes) {
  REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

/// Runs `body` in a forked copy of this process and returns its result as an exit status; 99 for an
/// exception.
int in_fork(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int status = 99;
    try {
      status = body();
    } catch (const std::exception& error) {
      fmt::print(stderr, "in a forked process: {}\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

ChildProcess shell(const std::string& script, UniqueFd inherited = {}) {
  return ChildProcess::spawn("/bin/sh", {"-c", script}, std::move(inherited));
}

double seconds_since(Clock::time_point start) {
  return duration<double>(Clock::now() - start).count();
}

/// Sends SIGUSR1, whose handler does nothing and does not restart calls, to one thread all the time.
class SignalStorm {
 public:
  explicit SignalStorm(pthread_t target) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    REQUIRE(sigaction(SIGUSR1, &action, &old_) == 0);
    thread_ = std::thread([this, target] {
      while (!stop_) {
        ::pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;
  ~SignalStorm() {
    stop_ = true;
    thread_.join();
    sigaction(SIGUSR1, &old_, nullptr);
  }

 private:
  struct sigaction old_ {};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a unique descriptor closes what it held, also when assigned") {
  const NoLeak guard;
  UniqueFd first(::dup(0)), second(::dup(0));
  const int kept = second.get();
  first = std::move(second);
  CHECK(first.get() == kept);
  CHECK_FALSE(second);  // NOLINT(bugprone-use-after-move)
  UniqueFd& same = first;
  first = std::move(same);
  CHECK(first.get() == kept);
  CHECK(::fcntl(kept, F_GETFD) >= 0);
}

TEST_CASE("messages arrive whole, in order, with type and body") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  CHECK(trainer.peer() == "generator");
  CHECK(generator.peer() == "trainer");
  CHECK(is_close_on_exec(trainer.fd()));
  CHECK(is_close_on_exec(generator.fd()));
  // 23, 24 and 25 are around the size of a frame's head, 4096 a page.
  const std::vector<std::size_t> sizes = {0, 1, 23, 24, 25, 31, 32, 33, 127, 128, 129, 4095, 4096, 4097};
  for (const std::size_t size : sizes)
    trainer.send(static_cast<std::uint32_t>(size), pattern(size, size), {}, in(5));
  for (const std::size_t size : sizes) {
    const Message message = generator.receive(in(5));
    CHECK(message.type == size);
    CHECK(message.body == pattern(size, size));
    CHECK(message.fds.empty());
  }
  generator.send(0xFFFFFFFFu, "back", {}, in(5));
  const Message answer = trainer.receive(in(5));
  CHECK(answer.type == 0xFFFFFFFFu);
  CHECK(answer.body == "back");
}

TEST_CASE("sixteen descriptors travel with one message, close-on-exec, and stay open here") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  std::vector<SharedMemory> memories;
  std::vector<int> fds;
  for (unsigned i = 0; i < 16; ++i) {
    memories.push_back(SharedMemory::create(1, "a test"));
    memories.back().bytes()[0] = std::byte(i);
    fds.push_back(memories.back().fd());
  }
  trainer.send(3, "handles", fds, in(5));
  Message message = generator.receive(in(5));
  CHECK(message.body == "handles");
  REQUIRE(message.fds.size() == 16);
  for (unsigned i = 0; i < 16; ++i) {
    CHECK(is_close_on_exec(message.fds[i].get()));
    CHECK(message.fds[i].get() != fds[i]);
    const SharedMemory mapped = SharedMemory::map(std::move(message.fds[i]), 1, "a test");
    CHECK(mapped.bytes()[0] == std::byte(i));
  }
}

TEST_CASE("descriptors travel once with a body that takes many calls to send") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const SharedMemory memory = SharedMemory::create(1, "a test");
  const std::string body = pattern(std::size_t{4} << 20, 2);
  std::thread sender([&, &out = trainer] { out.send(1, body, {memory.fd(), 0}, in(30)); });
  const Message message = generator.receive(in(30));
  sender.join();
  CHECK((message.body == body));
  REQUIRE(message.fds.size() == 2);
  CHECK(identity(message.fds[0].get()) == identity(memory.fd()));
  CHECK(identity(message.fds[1].get()) == identity(0));
}

TEST_CASE("a message of seventeen descriptors or more than a gibibyte is refused before anything is sent") {
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const std::vector<int> fds(17, 0);
  CHECK(contains(send_error(trainer, 1, "", fds, in(5)), "17 descriptors"));
  // Never touched: the length alone is refused.
  const std::string_view huge("x", (std::size_t{1} << 30) + 1);
  CHECK(contains(send_error(trainer, 1, huge, {}, in(5)), "1073741825 bytes"));
  CHECK_FALSE(generator.ready());
  trainer.send(1, "still fine", {}, in(5));
  CHECK(generator.receive(in(5)).body == "still fine");
}

TEST_CASE("a descriptor that is not open is refused with its reason") {
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  CHECK(contains(send_error(trainer, 1, "", {-1}, in(5)),
                 "sending message 1 to the generator failed: Bad file descriptor"));
}

TEST_CASE("a thousand messages back to back keep their own descriptors") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  std::array<SharedMemory, 3> memories;
  std::array<ino_t, 3> identities{};
  for (std::size_t i = 0; i < memories.size(); ++i) {
    memories[i] = SharedMemory::create(1, "a test");
    identities[i] = identity(memories[i].fd());
  }
  const std::array<std::size_t, 5> sizes = {0, 1, 33, 129, 4097};
  // Message n has n % 4 descriptors, beginning with memory n % 3, and a body of sizes[n % 5] bytes.
  std::thread sender([&, &out = trainer] {
    for (unsigned n = 0; n < 1000; ++n) {
      std::vector<int> fds;
      for (unsigned i = 0; i < n % 4; ++i) fds.push_back(memories[(n + i) % 3].fd());
      out.send(n, pattern(sizes[n % 5], n), fds, in(30));
    }
  });
  // Let the socket fill up, so that reads find frames one after the other.
  std::this_thread::sleep_for(milliseconds(30));
  unsigned wrong = 0;
  for (unsigned n = 0; n < 1000; ++n) {
    const Message message = generator.receive(in(30));
    bool right = message.type == n && message.body == pattern(sizes[n % 5], n) && message.fds.size() == n % 4;
    for (unsigned i = 0; right && i < n % 4; ++i)
      right = identity(message.fds[i].get()) == identities[(n + i) % 3];
    wrong += !right;
  }
  sender.join();
  CHECK(wrong == 0);
}

TEST_CASE("64 MiB go each way between threads, though signals interrupt the calls") {
  const NoLeak guard;
  const std::string body = pattern(std::size_t{64} << 20, 1);
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const SignalStorm storm(::pthread_self());
  std::string echoed;
  std::thread other([&, &channel = generator] {
    Message message = channel.receive(in(30));
    channel.send(message.type + 1, message.body, {}, in(30));
  });
  trainer.send(1, body, {}, in(30));
  const Message answer = trainer.receive(in(30));
  other.join();
  CHECK(answer.type == 2);
  CHECK((answer.body == body));  // in parentheses, so that a failure does not print 64 MiB
}

TEST_CASE("a silent peer is waited for until the deadline, not longer, and may speak later") {
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const Clock::time_point start = Clock::now();
  std::string sentence;
  SECTION("undisturbed") {
    sentence = receive_error(trainer, in(0.05));
  }
  SECTION("interrupted by signals, which do not start the wait again") {
    const SignalStorm storm(::pthread_self());
    sentence = receive_error(trainer, in(0.05));
  }
  CAPTURE(sentence);
  CHECK(contains(sentence, "no message from the generator within 0."));
  CHECK(seconds_since(start) >= 0.05);
  CHECK(seconds_since(start) < 5);
  generator.send(1, "late", {}, in(5));
  CHECK(trainer.receive(in(5)).body == "late");
}

TEST_CASE("a message that is there is received even after the deadline") {
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  trainer.send(1, "there", {}, Deadline(Clock::now() - milliseconds(1)));
  CHECK(generator.receive(Deadline(Clock::now() - milliseconds(1))).body == "there");
}

TEST_CASE(
    "a peer that does not read is waited for until the deadline, and the cut message ends the channel") {
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const std::string body(std::size_t{4} << 20, 'x');
  const Clock::time_point start = Clock::now();
  const std::string sentence = send_error(trainer, 7, body, {}, in(0.05));
  CAPTURE(sentence);
  CHECK(contains(sentence, "the generator did not take message 7 within 0."));
  CHECK(contains(sentence, "of 4194328 bytes"));
  CHECK(seconds_since(start) >= 0.05);
  CHECK(seconds_since(start) < 5);
  // The peer would take the next message's head for the rest of this body.
  CHECK(contains(send_error(trainer, 8, "next", {}, in(5)), "nothing more can be sent to the generator"));
  CHECK(
      contains(receive_error(generator, in(0.05)), "a message from the trainer did not arrive whole within"));
}

TEST_CASE("the end of a peer is told apart from its silence") {
  const NoLeak guard;
  auto [trainer, raw] = channel_and_raw();
  SECTION("between messages") {
    raw = UniqueFd();
    CHECK(receive_error(trainer, in(5)) == "the generator closed the connection");
    CHECK(contains(send_error(trainer, 1, "x", {}, in(5)),
                   "the generator closed the connection before it took message 1"));
  }
  SECTION("its last message is still readable after a send to it has failed") {
    write_raw(raw, frame(9, "why I failed"));
    raw = UniqueFd();
    CHECK(contains(send_error(trainer, 1, "x", {}, in(5)), "the generator closed the connection"));
    CHECK(trainer.receive(in(5)).body == "why I failed");
  }
  SECTION("without having read what was sent to it") {
    trainer.send(1, "unread", {}, in(5));
    raw = UniqueFd();
    CHECK(receive_error(trainer, in(5)) == "the generator closed the connection");
  }
  SECTION("while this end waits") {
    std::thread closer([&, &socket = raw] {
      std::this_thread::sleep_for(milliseconds(20));
      socket = UniqueFd();
    });
    const Clock::time_point start = Clock::now();
    CHECK(receive_error(trainer, in(30)) == "the generator closed the connection");
    CHECK(seconds_since(start) < 10);
    closer.join();
  }
}

TEST_CASE("a peer that closes in the middle of a message is reported with what was there") {
  const NoLeak guard;
  const std::string whole = frame(5, pattern(100, 1));
  REQUIRE(whole.size() == 124);
  const std::size_t cut =
      GENERATE(std::size_t{1}, std::size_t{23}, std::size_t{24}, std::size_t{25}, std::size_t{123});
  CAPTURE(cut);
  auto [trainer, raw] = channel_and_raw();
  write_raw(raw, whole.substr(0, cut));
  SECTION("closed") {
    raw = UniqueFd();
    CHECK(receive_error(trainer, in(5)) ==
          fmt::format("the generator closed the connection in the middle of a message ({} of {} bytes)", cut,
                      cut < 24 ? 24 : 124));
  }
  SECTION("silent") {
    CHECK(contains(receive_error(trainer, in(0.01)),
                   fmt::format("({} of {} bytes)", cut, cut < 24 ? 24 : 124)));
    // Even when the rest comes: a head would be looked for in the middle of it.
    write_raw(raw, whole.substr(cut));
    CHECK(contains(receive_error(trainer, in(5)), "nothing more can be read from the generator"));
  }
}

TEST_CASE("a message that trickles in byte by byte is whole in the end") {
  const std::string whole = frame(5, pattern(100, 1));
  auto [trainer, raw] = channel_and_raw();
  std::thread writer([&, &socket = raw] {
    for (const char byte : whole) {
      write_raw(socket, {&byte, 1});
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  const Message message = trainer.receive(in(10));
  writer.join();
  CHECK(message.type == 5);
  CHECK(message.body == pattern(100, 1));
}

TEST_CASE("bytes that are no message are refused") {
  auto [trainer, raw] = channel_and_raw();
  write_raw(raw, "GET / HTTP/1.1\r\nHost: generator\r\n\r\n");
  CHECK(contains(receive_error(trainer, in(5)), "unexpected bytes from the generator"));
}

TEST_CASE("an oversize body is refused before it is allocated") {
  SECTION("over the caller's limit, and accepted at it") {
    auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
    trainer.send(4, pattern(1000, 1), {}, in(5));
    CHECK(generator.receive(in(5), 1000).body.size() == 1000);
    trainer.send(4, pattern(1001, 1), {}, in(5));
    const std::string sentence = receive_error(generator, in(5), 1000);
    CHECK(sentence == "message 4 from the trainer has a body of 1001 bytes, and at most 1000 are accepted");
  }
  SECTION("a length that no machine could allocate") {
    std::string bytes = frame(4, "");
    const std::uint64_t length = std::uint64_t{1} << 60;
    std::memcpy(bytes.data() + 8, &length, sizeof length);
    auto [trainer, raw] = channel_and_raw();
    write_raw(raw, bytes);
    CHECK(contains(receive_error(trainer, in(5)), "a body of 1152921504606846976 bytes"));
  }
}

TEST_CASE("descriptors of a refused message are closed") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const SharedMemory memory = SharedMemory::create(1, "a test");
  trainer.send(1, "too long", {memory.fd(), memory.fd()}, in(5));
  const std::size_t before = open_descriptors();
  CHECK(contains(receive_error(generator, in(5), 1), "at most 1"));
  CHECK(open_descriptors() == before);
}

TEST_CASE("descriptors that exceed the limit of open files are an error, and those that came are closed") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  const SharedMemory memory = SharedMemory::create(1, "a test");
  trainer.send(1, "five", std::vector<int>(5, memory.fd()), in(5));
  const std::size_t before = open_descriptors();
  // Room for three more: the lowest free numbers are taken first.
  std::vector<UniqueFd> next;
  for (int i = 0; i < 4; ++i) next.emplace_back(::dup(0));
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(next.back().get());
  next.clear();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  const std::string sentence = receive_error(generator, in(5));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  CAPTURE(sentence);
  CHECK(contains(sentence, "message 1 from the trainer came with 3 of 5 descriptors"));
  CHECK(open_descriptors() == before);
}

TEST_CASE("ready tells what can be read without waiting") {
  auto [trainer, raw] = channel_and_raw();
  CHECK_FALSE(trainer.ready());
  write_raw(raw, frame(1, "x"));
  CHECK(trainer.ready());
  CHECK(trainer.receive(in(5)).body == "x");
  CHECK_FALSE(trainer.ready());
  raw = UniqueFd();
  CHECK(trainer.ready());
}

TEST_CASE("a socket that becomes a channel becomes close-on-exec, as descriptor 3 of a child must") {
  auto [mine, other] = raw_pair();
  REQUIRE(::fcntl(mine.get(), F_SETFD, 0) == 0);
  const UnixChannel channel(std::move(mine), "trainer");
  CHECK(is_close_on_exec(channel.fd()));
}

TEST_CASE("a descriptor that is no stream socket cannot become a channel") {
  const NoLeak guard;
  CHECK(contains(sentence_of([] { const UnixChannel channel(UniqueFd(::dup(0)), "trainer"); }),
                 "is not a connection to the trainer"));
  CHECK(contains(
      sentence_of([] { const UnixChannel channel(UniqueFd(::socket(AF_UNIX, SOCK_DGRAM, 0)), "trainer"); }),
      "is not a connection to the trainer"));
  CHECK(contains(sentence_of([] { const UnixChannel channel(UniqueFd(), "trainer"); }),
                 "descriptor -1 is not a connection to the trainer"));
}

TEST_CASE("a channel gives its socket away, to a child say") {
  const NoLeak guard;
  auto [trainer, generator] = UnixChannel::pair("generator", "trainer");
  UnixChannel again(std::move(generator).take_socket(), "trainer");
  trainer.send(1, "over the same socket", {}, in(5));
  CHECK(again.receive(in(5)).body == "over the same socket");
}

TEST_CASE("shared memory of any size is zero, page aligned, writable, and exactly as long as asked") {
  const NoLeak guard;
  const std::uint64_t size = GENERATE(1u, 31u, 32u, 33u, 4095u, 4096u, 4097u, 8u << 20);
  CAPTURE(size);
  SharedMemory memory = SharedMemory::create(size, "a test");
  REQUIRE(memory);
  REQUIRE(memory.bytes().size() == size);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.bytes().data()) % 4096 == 0);
  CHECK(is_close_on_exec(memory.fd()));
  std::size_t not_zero = 0;
  for (const std::byte value : memory.bytes()) not_zero += value != std::byte{0};
  CHECK(not_zero == 0);
  memory.bytes().back() = std::byte{7};

  SharedMemory moved = std::move(memory);
  CHECK_FALSE(memory);  // NOLINT(bugprone-use-after-move)
  CHECK(memory.bytes().empty());
  SharedMemory target = SharedMemory::create(1, "another");
  target = std::move(moved);
  CHECK(target.bytes().size() == size);
  CHECK(target.bytes().back() == std::byte{7});
}

TEST_CASE("zero bytes of shared memory give a descriptor without a mapping") {
  const NoLeak guard;
  const SharedMemory none = SharedMemory::create(0, "nothing");
  CHECK_FALSE(none);
  CHECK(none.bytes().empty());
  CHECK(none.fd() >= 0);
  const SharedMemory mapped = SharedMemory::map(UniqueFd(::dup(none.fd())), 0, "nothing");
  CHECK_FALSE(mapped);
  CHECK(contains(sentence_of([&] { (void)SharedMemory::map(UniqueFd(::dup(none.fd())), 1, "nothing"); }),
                 "the shared memory for nothing has 0 bytes where 1 are needed"));
}

TEST_CASE("shared memory is reserved when it is created") {
  const SharedMemory memory = SharedMemory::create(3 << 20, "a test");
  struct stat state {};
  REQUIRE(::fstat(memory.fd(), &state) == 0);
  CHECK(state.st_size == 3 << 20);
  CHECK(state.st_blocks * 512 >= 3 << 20);
}

TEST_CASE("a forked child sees what is written and its own writing is seen") {
  const NoLeak guard;
  SharedMemory memory = SharedMemory::create(8192, "a test");
  memory.bytes()[0] = std::byte{1};
  const int status = in_fork([&] {
    SharedMemory again = SharedMemory::map(UniqueFd(::dup(memory.fd())), 8192, "a test");
    if (again.bytes()[0] != std::byte{1}) return 1;
    again.bytes()[8191] = std::byte{2};
    return 0;
  });
  CHECK(status == 0);
  CHECK(memory.bytes()[8191] == std::byte{2});
}

TEST_CASE("a mapping larger than the memory is refused with both sizes, page rounding included") {
  const NoLeak guard;
  const SharedMemory memory = SharedMemory::create(4000, "a test");
  CHECK(SharedMemory::map(UniqueFd(::dup(memory.fd())), 4096, "expert weights").bytes().size() == 4096);
  CHECK(sentence_of([&] { (void)SharedMemory::map(UniqueFd(::dup(memory.fd())), 4097, "expert weights"); }) ==
        "the shared memory for expert weights has 4096 bytes where 4097 are needed");
  CHECK(contains(sentence_of([&] { (void)SharedMemory::map(UniqueFd(), 1, "expert weights"); }),
                 "looking at the shared memory for expert weights failed"));
}

TEST_CASE("nobody can shrink shared memory under another one's mapping") {
  const SharedMemory memory = SharedMemory::create(8192, "a test");
  CHECK(::ftruncate(memory.fd(), 4096) != 0);
  CHECK(errno == EPERM);
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 8192) == 0);
  CHECK(contains(sentence_of([&] { (void)SharedMemory::map(std::move(unsealed), 8192, "a test"); }),
                 "not sealed"));
}

TEST_CASE("an absurd size is refused with the numbers and leaves nothing behind") {
  const NoLeak guard;
  const std::uint64_t size = GENERATE(std::uint64_t{1} << 45, ~std::uint64_t{0});
  const std::uint64_t before = available_memory();
  const std::string sentence = sentence_of([&] { (void)SharedMemory::create(size, "all experts"); });
  CAPTURE(sentence);
  CHECK(contains(sentence, fmt::format("not enough memory to share all experts: asked {} bytes, ", size)));
  CHECK(contains(sentence, " available"));
  CHECK(available_memory() > before / 2);
}

TEST_CASE("available memory is the machine's, or the least that a cgroup above this process allows") {
  const fs::path root = fs::temp_directory_path() / fmt::format("refit-available-memory-{}", ::getpid());
  const auto write = [&](const char* file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  const auto available = [&] { return available_memory(root / "proc", root / "cgroup"); };
  write("proc/meminfo", "MemTotal:  99 kB\nMemFree:  10 kB\nMemAvailable:  50 kB\nBuffers: 1 kB\n");
  write("proc/self/cgroup", "0::/\n");
  CHECK(available() == 50 * 1024);

  SECTION("version 2: limit less use, in which the page cache does not count") {
    write("proc/self/cgroup", "0::/job/step\n");
    write("cgroup/job/memory.max", "max\n");
    write("cgroup/job/memory.current", "30000\n");
    CHECK(available() == 50 * 1024);
    write("cgroup/job/memory.max", "40000\n");
    CHECK(available() == 10000);
    write("cgroup/job/memory.stat", "anon 1\nfile 9\nactive_file 200\ninactive_file 3000\nslab 5\n");
    CHECK(available() == 13200);
    write("cgroup/job/step/memory.max", "5000\n");
    write("cgroup/job/step/memory.current", "1000\n");
    CHECK(available() == 4000);
    write("cgroup/job/step/memory.current", "6000\n");
    CHECK(available() == 0);
  }
  SECTION("version 1: its own files, the children's pages included") {
    write("proc/self/cgroup", "5:devices:/other\n4:cpu,memory:/docker/id\n0::/\n");
    write("cgroup/memory/docker/id/memory.limit_in_bytes", "20000\n");
    write("cgroup/memory/docker/id/memory.usage_in_bytes", "15000\n");
    CHECK(available() == 5000);
    write("cgroup/memory/docker/id/memory.stat",
          "active_file 7\ninactive_file 8\ntotal_active_file 10\ntotal_inactive_file 20\n");
    CHECK(available() == 5030);
  }
  SECTION("in a container that sees the host's path but only its own group, at the root") {
    write("proc/self/cgroup", "4:memory:/docker/id\n");
    write("cgroup/memory/memory.limit_in_bytes", "20000\n");
    write("cgroup/memory/memory.usage_in_bytes", "0\n");
    CHECK(available() == 20000);
  }
  fs::remove_all(root);
}

TEST_CASE("this machine has memory to offer") {
  CHECK(available_memory() > 1 << 20);
  CHECK(available_memory() < std::uint64_t{1} << 45);
}

TEST_CASE("a child's end is told in its own terms") {
  const NoLeak guard;
  SECTION("exit status") {
    const ExitState state = shell("exit 3").wait(in(10));
    CHECK_FALSE(state.signaled);
    CHECK(state.code == 3);
    CHECK(state.describe() == "exit status 3");
  }
  SECTION("success") {
    CHECK(shell("exit 0").wait(in(10)).describe() == "exit status 0");
  }
  SECTION("signal") {
    const ExitState state = shell("kill -KILL $$").wait(in(10));
    CHECK(state.signaled);
    CHECK(state.code == SIGKILL);
    CHECK(state.describe() == "killed by signal 9 (Killed)");
    CHECK(shell("kill -SEGV $$").wait(in(10)).describe() == "killed by signal 11 (Segmentation fault)");
  }
}

TEST_CASE("poll says nothing while the child runs and the same thing ever after") {
  auto [mine, theirs] = raw_pair();
  ChildProcess child = shell("read line <&3; exit 4", std::move(theirs));
  CHECK_FALSE(child.poll().has_value());
  write_raw(mine, "go\n");
  CHECK(child.wait(in(10)).code == 4);
  REQUIRE(child.poll().has_value());
  CHECK(child.poll()->code == 4);
  ChildProcess moved = std::move(child);
  CHECK(moved.wait(in(0)).code == 4);
}

TEST_CASE("a child that outstays the deadline is killed") {
  const NoLeak guard;
  const Clock::time_point start = Clock::now();
  ChildProcess child = shell("trap '' TERM INT; exec sleep 60");
  const ExitState state = child.wait(in(0.05));
  CHECK(state.describe() == "killed by signal 9 (Killed)");
  CHECK(seconds_since(start) >= 0.05);
  CHECK(seconds_since(start) < 5);
}

TEST_CASE("a child whose owner goes is killed and reaped") {
  const NoLeak guard;
  int pid = -1;
  {
    const ChildProcess child = shell("exec sleep 60");
    pid = child.pid();
    REQUIRE(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
  CHECK(errno == ESRCH);
}

TEST_CASE("a child talks over descriptor 3 and inherits nothing else but 0, 1 and 2") {
  const NoLeak guard;
  // Opened as a careless library would, without close-on-exec.
  const UniqueFd careless(::fcntl(0, F_DUPFD, 100));
  REQUIRE(careless);
  auto [mine, theirs] = raw_pair();
  ChildProcess child = shell("ls /proc/$$/fd >&3; exit 0", std::move(theirs));
  CHECK(child.wait(in(10)).code == 0);
  std::string list(256, '\0');
  list.resize(
      static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(mine.get(), list.data(), list.size(), 0))));
  // The shell itself may keep a copy of an output that it redirects, from 10 on.
  CHECK(contains(list, "0\n"));
  CHECK(contains(list, "3\n"));
  CHECK_FALSE(contains(list, std::to_string(careless.get())));
  for (const char* other : {"4\n", "5\n", "6\n", "7\n", "8\n", "9\n"}) CHECK_FALSE(contains(list, other));
}

TEST_CASE("descriptor 3 arrives whatever numbers are in use here") {
  // In forked copies, which may close and replace any descriptor.
  SECTION("the inherited one is 3 already") {
    CHECK(in_fork([] {
            auto [mine, theirs] = raw_pair();
            if (theirs.get() != 3 && (::dup2(theirs.get(), 3) != 3 || ::fcntl(3, F_SETFD, FD_CLOEXEC) != 0))
              return 1;
            UniqueFd three(theirs.get() == 3 ? theirs.release() : 3);
            return shell("[ -S /proc/self/fd/3 ]", std::move(three)).wait(in(10)).code;
          }) == 0);
  }
  SECTION("0, 1 and 3 are free, and the pipe that reports a failed exec does not end up at 3") {
    CHECK(in_fork([] {
            UniqueFd inherited(::fcntl(2, F_DUPFD_CLOEXEC, 50));
            for (const int free : {0, 1, 3}) ::close(free);
            const std::string sentence =
                sentence_of([&] { (void)ChildProcess::spawn("/no/such/program", {}, std::move(inherited)); });
            return sentence == "executing /no/such/program failed: No such file or directory" ? 0 : 1;
          }) == 0);
  }
  SECTION("nothing is inherited, and a careless 3 does not slip in") {
    CHECK(in_fork([] {
            if (::dup2(0, 3) != 3) return 1;
            return shell("[ ! -e /proc/self/fd/3 ]").wait(in(10)).code;
          }) == 0);
  }
}

TEST_CASE("a child has this process's environment, arguments and signal mask") {
  ::setenv("REFIT_TEST_VALUE", "two words", 1);
  CHECK(shell("[ \"$REFIT_TEST_VALUE\" = 'two words' ]").wait(in(10)).code == 0);
  ::unsetenv("REFIT_TEST_VALUE");
  CHECK(ChildProcess::spawn("/bin/sh", {"-c", "[ \"$1,$2\" = 'a b,' ]", "name", "a b", ""}, {})
            .wait(in(10))
            .code == 0);
  const std::string blocks_any = "exec grep -q 'SigBlk:[[:space:]]*0*[1-9a-f]' /proc/self/status";
  sigset_t mask, old;
  sigemptyset(&mask);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &mask, &old) == 0);
  CHECK(shell(blocks_any).wait(in(10)).code == 1);
  sigaddset(&mask, SIGUSR2);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0);
  CHECK(shell(blocks_any).wait(in(10)).code == 0);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &old, nullptr) == 0);
}

TEST_CASE("a program that cannot be executed is an error here, with its name and reason") {
  const NoLeak guard;
  CHECK(sentence_of([] { (void)ChildProcess::spawn("/no/such/program", {"x"}, {}); }) ==
        "executing /no/such/program failed: No such file or directory");
  CHECK(sentence_of([] { (void)ChildProcess::spawn("/proc/self/status", {}, UniqueFd(::dup(0))); }) ==
        "executing /proc/self/status failed: Permission denied");
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no zombie
  CHECK(errno == ECHILD);
}

TEST_CASE("an exit state that somebody else collected is an error and not a wait for ever") {
  ChildProcess child = shell("exit 0");
  REQUIRE(::waitpid(child.pid(), nullptr, 0) == child.pid());
  CHECK(contains(sentence_of([&] { (void)child.wait(in(10)); }), "collecting the exit state of process"));
}

TEST_CASE("children start while other threads allocate and take locks") {
  const NoLeak guard;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) std::string(1000, 'x').append("y");
  });
  int failed = 0;
  for (int i = 0; i < 20; ++i) failed += shell("exit 0").wait(in(10)).code != 0;
  stop = true;
  busy.join();
  CHECK(failed == 0);
}

TEST_CASE("a child dies when its parent is killed") {
  const NoLeak guard;
  // The grandchild alone holds the pipe's writing end; that it closes is the grandchild's death.
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t parent = ::fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    try {
      const ChildProcess child = shell("echo up >&3; exec sleep 60", std::move(writing));
      while (true) ::pause();
    } catch (...) {
      ::_exit(1);
    }
  }
  writing = UniqueFd();
  const auto next_read = [&]() -> std::optional<std::string> {
    pollfd one{reading.get(), POLLIN, 0};
    if (::poll(&one, 1, 5000) != 1) return std::nullopt;
    std::array<char, 16> text{};
    const ssize_t count = ::read(reading.get(), text.data(), text.size());
    return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  };
  CHECK(next_read() == "up\n");
  REQUIRE(::kill(parent, SIGKILL) == 0);
  REQUIRE(::waitpid(parent, nullptr, 0) == parent);
  CHECK(next_read() == "");
}

TEST_CASE("the path of the running program is this test's") {
  CHECK(fs::path(own_executable()).filename() == "transport_test");
  CHECK(::access(own_executable().c_str(), X_OK) == 0);
}
