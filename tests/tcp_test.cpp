// Ranks over TCP within one process: the suite, strangers at the door, ranks that die, hang and lie.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "refit/base/digest.hpp"
#include "refit/transport/tcp.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/rank_suite.hpp"
#include "transport/tcp_mesh.hpp"
#include "transport/tcp_reception.hpp"
#include "transport/tcp_socket.hpp"

using namespace refit;
using namespace refit::transport;
using namespace refit::transport::tcp;
using std::chrono::milliseconds;

namespace {

Deadline in(double seconds) {
  return Deadline::after(std::chrono::duration<double>(seconds));
}

/// Rank 0's door at a free port, and the places of all ranks at it.
struct Meeting {
  explicit Meeting(std::uint32_t ranks, const std::string& host_name = "127.0.0.1")
      : size(ranks), host(host_name), listeners(listen_at(host_name, 0)) {
    port = own_of(listeners.front().get()).bytes().port;
  }
  [[nodiscard]] Place place(std::uint32_t rank) const {
    Place place;
    place.rank = rank;
    place.size = size;
    place.host = host;
    place.port = port;
    place.run = "a run";
    return place;
  }
  [[nodiscard]] Address address() const { return own_of(listeners.front().get()); }
  [[nodiscard]] std::unique_ptr<Session> join(std::uint32_t rank, OnLoss on_loss,
                                              Deadline deadline = in(20)) {
    return join_at(place(rank), rank == 0 ? std::move(listeners) : std::vector<UniqueFd>{},
                   std::move(on_loss), deadline);
  }
  [[nodiscard]] Mesh meet(std::uint32_t rank, Deadline deadline = in(20)) {
    return tcp::meet(place(rank), rank == 0 ? std::move(listeners) : std::vector<UniqueFd>{}, deadline);
  }

  std::uint32_t size;
  std::string host;
  std::vector<UniqueFd> listeners;
  std::uint16_t port = 0;
};

/// What ranks are told, and what they throw.
class Heard {
 public:
  void add(const std::string& sentence) {
    const std::lock_guard locked(lock_);
    sentences_.push_back(sentence);
  }
  [[nodiscard]] std::vector<std::string> sentences() {
    const std::lock_guard locked(lock_);
    return sentences_;
  }
  [[nodiscard]] std::string first(Deadline deadline) {
    while (!deadline.passed()) {
      if (const auto all = sentences(); !all.empty()) return all.front();
      std::this_thread::sleep_for(milliseconds(2));
    }
    return "nothing was heard";
  }

 private:
  std::mutex lock_;
  std::vector<std::string> sentences_;
};

class Threads {
 public:
  void add(std::function<void()> body) {
    threads_.emplace_back([this, body = std::move(body)] {
      try {
        body();
      } catch (const std::exception& error) {
        errors.add(error.what());
      }
    });
  }
  void join() {
    for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  }
  ~Threads() { join(); }
  Heard errors;

 private:
  std::vector<std::thread> threads_;
};

void unexpected(const std::string& sentence) {
  throw std::runtime_error("on_loss: " + sentence);
}

/// Runs the ranks but those of `others`, which somebody else plays.
void run_ranks(Threads& threads, Meeting& meeting, Heard& losses, const std::function<void(Session&)>& body,
               std::uint32_t but = ~0u) {
  for (std::uint32_t rank = 0; rank < meeting.size; ++rank) {
    if (rank == but) continue;
    threads.add([&meeting, &losses, body, rank] {
      const auto session = meeting.join(rank, [&](const std::string& sentence) { losses.add(sentence); });
      body(*session);
    });
  }
}

void suite(Session& session) {
  const auto group = session.group();
  const auto exchange = session.exchange();
  test::check_ranks(*group, *exchange);
  test::require(session.local_rank() == group->rank(), "another local rank");
  test::require(session.ranks_on_this_host() == group->size(), "not all on one host");
}

/// A message on a control connection, as tcp_control.hpp has it.
std::string framed(std::uint32_t kind, const std::string& body, std::uint64_t bytes) {
  std::string message(16, '\0');
  std::memcpy(message.data(), &kind, sizeof kind);
  std::memcpy(message.data() + 8, &bytes, sizeof bytes);
  return message + body;
}
std::string framed(std::uint32_t kind, const std::string& body) {
  return framed(kind, body, body.size());
}
constexpr std::uint32_t kDoing = 1, kGather = 2, kEnding = 3, kSignalled = 5;

/// In threads, which CHECK is not for.
void require_error(const std::string& sentence, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    test::require(error.what() == sentence, error.what() + (" instead of " + sentence));
    return;
  }
  throw std::runtime_error("not thrown: " + sentence);
}

void write_to(const UniqueFd& socket, const std::string& bytes) {
  REQUIRE(send_all(socket.get(), std::as_bytes(std::span(bytes)), in(5)) == Piece::whole);
}

std::string as_text(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

UniqueFd connected(const Address& address) {
  Connected result = connect_to(address, in(5));
  REQUIRE(result.socket);
  return std::move(result.socket);
}

/// Reads until the other end closes; what it said.
std::string read_all(const UniqueFd& socket) {
  std::string text;
  for (char byte = 0;
       receive_all(socket.get(), std::as_writable_bytes(std::span(&byte, 1)), in(10)) == Piece::whole;) {
    text += byte;
  }
  return text;
}

/// Sets variables until it goes.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* name : kAll) ::unsetenv(name);
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kAll) ::unsetenv(name);
  }

 private:
  static constexpr std::array kAll = {
      "RANK",         "WORLD_SIZE",   "LOCAL_RANK",          "LOCAL_WORLD_SIZE",
      "MASTER_ADDR",  "MASTER_PORT",  "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
      "SLURM_PROCID", "SLURM_NTASKS", "REFIT_MASTER_PORT",   "TORCHELASTIC_RESTART_COUNT"};
};

std::map<std::string, std::string> variables() {
  return {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node-0"}, {"MASTER_PORT", "29500"}};
}

}  // namespace

TEST_CASE("one, two and five ranks over TCP pass the suite of ranks") {
  for (const std::uint32_t size : {1, 2, 5}) {
    Meeting meeting(size);
    Heard losses;
    Threads threads;
    run_ranks(threads, meeting, losses, suite);
    threads.join();
    CHECK(threads.errors.sentences() == std::vector<std::string>{});
    CHECK(losses.sentences() == std::vector<std::string>{});
  }
}

TEST_CASE("ranks meet at a name and at an address of IPv6") {
  std::vector<std::string> hosts = {"localhost"};
  const Address six = resolve("::1", 0).addresses.front();
  const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM, 0));
  if (probe && ::bind(probe.get(), six.get(), six.size()) == 0) hosts.emplace_back("::1");
  for (const std::string& host : hosts) {
    Meeting meeting(3, host);
    Heard losses;
    Threads threads;
    run_ranks(threads, meeting, losses, suite);
    threads.join();
    CHECK(threads.errors.sentences() == std::vector<std::string>{});
  }
}

TEST_CASE("large words and a receiver that is late arrive whole") {
  Meeting meeting(3);
  Heard losses;
  Threads threads;
  run_ranks(threads, meeting, losses, [](Session& session) {
    const auto group = session.group();
    const auto exchange = session.exchange();
    const std::string mine(20'000'000, static_cast<char>('a' + group->rank()));
    const std::vector<std::string> all = group->all_gather(mine, in(30));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      test::require(all[rank] == std::string(20'000'000, static_cast<char>('a' + rank)), "other words");
    }
    // What nobody has asked for yet stays with its sender.
    std::vector<std::byte> bytes(30'000'000, std::byte{7});
    const Part part{group->rank() == 0 ? 1u : 0u, bytes};
    if (group->rank() == 0) {
      exchange->start(1, {&part, 1}, {});
      bool late = false;
      try {
        exchange->wait(0, in(0.1));  // an empty round is over at once
        exchange->wait(1, in(30));
      } catch (const Error&) {
        late = true;
      }
      test::require(!late, "a round did not end");
    } else if (group->rank() == 1) {
      bytes.assign(bytes.size(), std::byte{0});
      std::this_thread::sleep_for(milliseconds(200));
      exchange->start(1, {}, {&part, 1});
      exchange->wait(1, in(30));
      test::require(bytes == std::vector<std::byte>(bytes.size(), std::byte{7}), "other bytes");
    }
    group->barrier(in(30));
  });
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{});
}

TEST_CASE("strangers at rank 0's port are dropped or told why, and the ranks meet all the same") {
  Meeting meeting(3);
  const Address address = meeting.address();
  Heard losses;
  Threads threads;
  const auto start = [&](std::uint32_t rank) {
    threads.add([&, rank] {
      const auto session = meeting.join(rank, [&](const std::string& sentence) { losses.add(sentence); });
      suite(*session);
    });
  };
  start(0);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected(address));  // and never a word
  const UniqueFd browser = connected(address);
  write_to(browser, "GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(100'000, 'x'));
  const Hello right{.run = digest_text("a run"), .size = 3, .rank = 2, .port = 1};
  const UniqueFd half = connected(address);
  write_to(half, as_text(right).substr(0, 23));
  { const UniqueFd scanner = connected(address); }
  const UniqueFd zeros = connected(address);
  write_to(zeros, std::string(sizeof(Hello), '\0'));
  CHECK(read_all(zeros).empty());

  const auto turned_away = [&](const std::function<void(Hello&)>& change, const std::string& why) {
    Hello hello = right;
    change(hello);
    const UniqueFd socket = connected(address);
    write_to(socket, as_text(hello));
    const std::string said = read_all(socket);
    CAPTURE(why, said);
    CHECK(contains(said, why));
  };
  turned_away([](Hello& h) { h.protocol = 2; }, "version 2 of the protocol");
  turned_away([](Hello& h) { h.size = 4; }, "it is one of 4 ranks, and rank 0 is one of 3");
  turned_away([](Hello& h) { h.run = 1; }, "another run");
  turned_away([](Hello& h) { h.rank = 3; }, "no rank 3 is expected");
  turned_away([](Hello& h) { h.rank = 0xFFFFFFFF; }, "no rank 4294967295 is expected");
  turned_away([](Hello& h) { h.rank = 0; }, "no rank 0 is expected");
  turned_away([](Hello& h) { h.purpose = Purpose::data; }, "no rank 2 is expected");
  turned_away([](Hello& h) { h.purpose = static_cast<Purpose>(77); }, "no rank 2 is expected");
  {
    Hello first = right;
    first.rank = 1;
    const UniqueFd socket = connected(address);
    write_to(socket, as_text(first));
    turned_away([](Hello& h) { h.rank = 1; }, "there is a rank 1 already");
  }
  start(1);  // whose place is free again
  start(2);
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{});
}

TEST_CASE("a rank that is turned away, and one that meets something else, say so") {
  Meeting meeting(3);
  Threads threads;
  threads.add([&] { (void)meeting.join(0, unexpected, in(1)); });
  Place other = meeting.place(1);
  other.size = 4;
  check_input_error([&] { (void)join(other, unexpected, in(5)); }, "rank 0 at 127.0.0.1",
                    "turned rank 1 away", "one of 4 ranks");
  // Rank 0 gives up, tells the one that came, and both name the one that did not.
  const Error told = error_of([&] { (void)join(meeting.place(1), unexpected, in(10)); });
  CHECK(told.kind() == ErrorKind::runtime);
  CHECK(contains(told.what(), "rank 0 waited too long at 127.0.0.1"));
  CHECK(contains(told.what(), "for rank 2; turned away 127.0.0.1"));
  threads.join();
  CHECK(contains(threads.errors.first(in(0.1)), "for rank 2; turned away"));

  const auto answered_by = [](const std::string& answer, bool stays) {
    Meeting stranger(2);
    std::thread server([&] {
      UniqueFd guest;
      for (const Deadline patience = in(5); !guest && !patience.passed();)
        guest = accept_at(stranger.listeners[0].get());
      Hello hello;
      (void)receive_all(guest.get(), std::as_writable_bytes(std::span(&hello, 1)), in(5));
      (void)send_all(guest.get(), std::as_bytes(std::span(answer)), in(5));
      if (stays) std::this_thread::sleep_for(milliseconds(1500));
      stranger.listeners.clear();
    });
    const Error error = error_of([&] { (void)join(stranger.place(1), unexpected, in(0.3)); });
    server.join();
    return std::string(error.what());
  };
  Answer huge{.bytes = 0xFFFFFFFF};
  const auto text_of = [](const Answer& answer) {
    return std::string(reinterpret_cast<const char*>(&answer), sizeof answer);
  };
  CHECK(contains(answered_by("HTTP/1.1 400 Bad Request\r\n", true), "is no rank of refit"));
  CHECK(contains(answered_by(text_of(huge), true), "is no rank of refit"));
  huge.verdict = Verdict::turned_away;
  CHECK(contains(answered_by(text_of(huge), true), "is no rank of refit"));
  CHECK(contains(answered_by("", true), "waited too long for rank 0 at 127.0.0.1"));
  CHECK(contains(answered_by("", false), "did not find rank 0 at 127.0.0.1"));
}

TEST_CASE("a port that somebody has is refused with the variable that changes it") {
  const Meeting taken(2);
  check_input_error([&] { (void)join(taken.place(0), unexpected, in(1)); }, "Address already in use",
                    "REFIT_MASTER_PORT");
}

TEST_CASE("a rank that dies is named by all others with what it did last") {
  Meeting meeting(3);
  Heard losses;
  Threads threads;
  run_ranks(
      threads, meeting, losses, [](Session& session) { session.group()->barrier(in(20)); }, 2);
  {
    const Mesh dying = meeting.meet(2);
    for (const std::uint32_t rank : {0, 1}) write_to(dying.control[rank], framed(kDoing, "moving\nweights"));
  }
  threads.join();
  const std::vector<std::string> named(2, "rank 2 is gone; the last it did: moving\\nweights");
  CHECK(losses.sentences() == named);
  CHECK(threads.errors.sentences() == named);
}

TEST_CASE("a rank that dies is noticed by ranks that move bytes, and that compute") {
  for (const bool moving : {true, false}) {
    Meeting meeting(2);
    Heard losses;
    Threads threads;
    std::atomic<bool> told = false;
    run_ranks(
        threads, meeting, losses,
        [&](Session& session) {
          const auto exchange = session.exchange();
          std::vector<std::byte> bytes(50'000'000);
          const Part part{1, bytes};
          exchange->start(0, {&part, 1}, {});
          while (!moving && losses.sentences().empty()) std::this_thread::sleep_for(milliseconds(1));
          told = true;
          exchange->wait(0, in(20));
        },
        1);
    { const Mesh dying = meeting.meet(1); }
    threads.join();
    CHECK(told);
    CHECK(losses.sentences() == std::vector<std::string>{"rank 1 is gone; the last it did: starting"});
    CHECK(threads.errors.sentences() == losses.sentences());
  }
}

TEST_CASE("when a rank has abandoned what is under way, nothing touches its buffers any more") {
  Meeting meeting(2);
  Heard losses;
  Threads threads;
  std::atomic<bool> begun = false;
  run_ranks(threads, meeting, losses, [&](Session& session) {
    std::vector<std::byte> bytes(50'000'000, std::byte{7});  // outlives the exchange, which sends from it
    const auto exchange = session.exchange();
    const std::uint32_t other = session.group()->rank() == 0 ? 1 : 0;
    const Part part{other, bytes};
    if (other == 0) {
      exchange->start(0, {&part, 1}, {});
      begun = true;
      session.group()->barrier(in(20));
      return;
    }
    exchange->start(0, {}, {&part, 1});
    while (!begun) std::this_thread::yield();
    exchange->abandon({});
    std::fill(bytes.begin(), bytes.end(), std::byte{9});
    std::this_thread::sleep_for(milliseconds(50));
    test::require(bytes == std::vector<std::byte>(bytes.size(), std::byte{9}), "bytes were received");
    require_error("a round cannot begin: an earlier one was given up", [&] {
      exchange->start(1, {&part, 1}, {});
    });
    session.group()->barrier(in(20));
  });
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{});
}

TEST_CASE("of ranks that die one after the other the first is named") {
  // Rank 2 says that it ends because of rank 1, whose connection to rank 0 is still there.
  Meeting meeting(3);
  Heard losses;
  Threads threads;
  threads.add([&] {
    const auto session = meeting.join(0, [&](const std::string& sentence) { losses.add(sentence); });
    session->group()->barrier(in(20));
  });
  Mesh first, second;
  std::thread other([&] { first = meeting.meet(1); });
  second = meeting.meet(2);
  other.join();
  SECTION("which the last word of the second says") {
    write_to(second.control[0], framed(kEnding, "rank 1 is gone; the last it did: waiting"));
  }
  SECTION("which the first says itself when the second is gone already") {
    second = {};
    std::this_thread::sleep_for(milliseconds(20));
    write_to(first.control[0], framed(kEnding, "rank 1 is gone; the last it did: waiting"));
  }
  SECTION("also when the launcher ended the second before anybody knew of the first") {
    write_to(first.control[0], framed(kDoing, "waiting"));
    write_to(second.control[0], framed(kSignalled, ""));
    second = {};
    std::this_thread::sleep_for(milliseconds(20));
    first = {};
  }
  second = {};
  threads.join();
  CHECK(losses.sentences() == std::vector<std::string>{"rank 1 is gone; the last it did: waiting"});
}

TEST_CASE("a rank that its launcher ended is named when nothing else comes up") {
  Meeting meeting(2);
  Heard losses;
  Threads threads;
  run_ranks(
      threads, meeting, losses, [](Session& session) { session.group()->barrier(in(20)); }, 1);
  {
    const Mesh ended = meeting.meet(1);
    write_to(ended.control[0], framed(kSignalled, ""));
  }
  threads.join();
  CHECK(losses.sentences() == std::vector<std::string>{"rank 1 is gone; the last it did: starting"});
}

TEST_CASE("ranks that do not come, or do not send, are named with what they do") {
  Meeting meeting(3);
  Heard losses;
  Threads threads;
  std::atomic<int> waited = 0;
  run_ranks(threads, meeting, losses, [&](Session& session) {
    const auto group = session.group();
    const auto exchange = session.exchange();
    group->doing(group->rank() == 1 ? "dreaming" : "working");
    group->barrier(in(20));
    std::this_thread::sleep_for(milliseconds(100));  // for the news
    if (group->rank() == 0) {
      require_error("waited too long for rank 1 (dreaming), rank 2 (working)",
                    [&] { group->barrier(in(0.1)); });
    }
    if (group->rank() == 2) {
      std::vector<std::byte> bytes(1000);
      const Part part{1, bytes};
      exchange->start(0, {}, {&part, 1});
      require_error("waited too long for rank 1 (dreaming)", [&] { exchange->wait(0, in(0.1)); });
      require_error("a round cannot begin: an earlier one was given up", [&] { exchange->start(1, {}, {}); });
    }
    ++waited;
    while (waited < 3) std::this_thread::sleep_for(milliseconds(1));
  });
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{});
}

TEST_CASE("a rank that left is gone for those that wait for it") {
  Meeting meeting(2);
  Heard losses;
  Threads threads;
  run_ranks(threads, meeting, losses, [](Session& session) {
    if (session.group()->rank() == 1) session.group()->barrier(in(20));
  });
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{"rank 0 is gone; the last it did: starting"});
  CHECK(losses.sentences() == std::vector<std::string>{});
}

TEST_CASE("what no rank says is refused before anything is allocated") {
  const std::vector<std::string> nonsense = {
      framed(kGather, "", std::uint64_t{1} << 60),
      framed(kDoing, "", 1'000'000),
      framed(kEnding, "", 1'000'000),
      framed(4, "x"),
      framed(77, ""),
      framed(0, ""),
      framed(kGather, "a") + framed(kGather, "b") + framed(kGather, "c"),
      std::string(100, 'x')};
  for (const std::string& bytes : nonsense) {
    Meeting meeting(2);
    Heard losses;
    Threads threads;
    run_ranks(
        threads, meeting, losses,
        [&](Session&) {
          test::require(losses.first(in(10)) == "rank 1 says what no rank of this version says",
                        "not refused");
        },
        1);
    const Mesh liar = meeting.meet(1);
    write_to(liar.control[0], bytes);
    threads.join();
    CHECK(threads.errors.sentences() == std::vector<std::string>{});
  }
}

TEST_CASE("ranks that disagree about the size of a part say both sizes") {
  Meeting meeting(2);
  Heard losses;
  Threads threads;
  run_ranks(threads, meeting, losses, [](Session& session) {
    const auto group = session.group();
    const auto exchange = session.exchange();
    std::vector<std::byte> bytes(group->rank() == 0 ? 300 : 400);
    const Part part{1 - group->rank(), bytes};
    if (group->rank() == 1) {
      exchange->start(0, {&part, 1}, {});
      exchange->wait(0, in(20));
      return;
    }
    exchange->start(0, {}, {&part, 1});
    require_error("rank 1 sent 400 bytes to rank 0, which expected 300", [&] { exchange->wait(0, in(20)); });
  });
  threads.join();
  CHECK(threads.errors.sentences() == std::vector<std::string>{});
}

TEST_CASE("the launcher's variables say where a rank belongs") {
  const auto place_with = [](const std::map<std::string, std::string>& more) {
    std::map<std::string, std::string> all = variables();
    for (const auto& [name, value] : more) all[name] = value;
    const Environment environment(all);
    CHECK(launched());
    return place_from_environment();
  };
  const Place plain = place_with({});
  CHECK(plain.rank == 2);
  CHECK(plain.size == 4);
  CHECK(plain.host == "node-0");
  CHECK(plain.port == 29500);
  CHECK_FALSE(plain.local_rank);
  CHECK_FALSE(plain.ranks_on_this_host);
  const Place local = place_with({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
  CHECK(local.local_rank == 1u);
  CHECK(local.ranks_on_this_host == 2u);
  // torchrun's agent listens at the port itself.
  CHECK(place_with({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}).port == 29501);
  CHECK(place_with({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).port == 29500);
  CHECK(place_with({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"REFIT_MASTER_PORT", "4"}}).port == 4);
  CHECK(place_with({{"TORCHELASTIC_RUN_ID", "a"}}).run != plain.run);
  CHECK(place_with({{"TORCHELASTIC_RESTART_COUNT", "1"}}).run != plain.run);
  CHECK(place_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}).size == 4);
  const Environment slurm(
      {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
  CHECK(launched());
  CHECK(place_from_environment().rank == 5);
  CHECK(place_from_environment().size == 6);
}

TEST_CASE("a process without all of the variables was not launched, and bad values are named") {
  for (const auto& [name, value] : variables()) {
    std::map<std::string, std::string> less = variables();
    less.erase(name);
    const Environment environment(less);
    CHECK_FALSE(launched());
  }
  const std::vector<std::pair<std::string, std::string>> bad = {{"RANK", "4"},
                                                                {"RANK", "-1"},
                                                                {"RANK", ""},
                                                                {"RANK", "two"},
                                                                {"RANK", "1 "},
                                                                {"WORLD_SIZE", "0"},
                                                                {"WORLD_SIZE", "2"},
                                                                {"WORLD_SIZE", "99999999999"},
                                                                {"MASTER_PORT", "0"},
                                                                {"MASTER_PORT", "65536"},
                                                                {"MASTER_PORT", "http"},
                                                                {"REFIT_MASTER_PORT", "0"},
                                                                {"LOCAL_RANK", "-1"},
                                                                {"LOCAL_WORLD_SIZE", "0"},
                                                                {"LOCAL_WORLD_SIZE", "5"},
                                                                {"MASTER_ADDR", ""}};
  for (const auto& [name, value] : bad) {
    std::map<std::string, std::string> all = variables();
    all[name] = value;
    const Environment environment(all);
    // A rank that is too large is that of its size, too.
    const std::string named = name == "WORLD_SIZE" && value == "2" ? "RANK" : name;
    check_input_error([] { (void)place_from_environment(); }, named,
                      "\"" + (named == name ? value : "2") + "\"");
  }
  std::map<std::string, std::string> last = variables();
  last["MASTER_PORT"] = "65535";
  last["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const Environment environment(last);
  check_input_error([] { (void)place_from_environment(); }, "MASTER_PORT", "65535", "REFIT_MASTER_PORT");
}
