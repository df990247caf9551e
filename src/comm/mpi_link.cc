#include "comm/mpi_link.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "comm/hold_up.h"

namespace weft::comm {
namespace {

constexpr int kInFlight = 2;  // messages of one stream: one is packed while the other travels
constexpr int kPollsPerClock = 16;
constexpr int64_t kYieldNs = 2 * kNsPerMs;
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 50'000};
// Who has waited long, as a server without work does, looks up less often; it must not burn a core.
constexpr int64_t kLongestNapNs = 5 * kNsPerMs;
constexpr int64_t kTellNs = 50 * kNsPerMs;

constexpr int kNoticeTag = 1;
// Streams of a pair are numbered, so that two ranks in different places of a plan wait for each
// other instead of reading each other's bytes.
constexpr int kStreamTag = 16;
constexpr int64_t kStreamTags = 16384;

// What polling does when nothing has come for `waited_ns`.
void Idle(int64_t waited_ns, int64_t spin_ns) {
  if (waited_ns < spin_ns) return;
  if (waited_ns < spin_ns + kYieldNs) {
    sched_yield();
  } else {
    const timespec nap = {
        .tv_sec = 0, .tv_nsec = std::clamp<int64_t>(waited_ns / 1000, kNap.tv_nsec, kLongestNapNs)};
    nanosleep(&nap, nullptr);
  }
}

Status MpiError(int code, std::string_view doing) {
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  if (MPI_Error_string(code, text, &size) != MPI_SUCCESS) size = 0;
  return Status::Internal("{}: {}", doing, std::string_view(text, static_cast<size_t>(size)));
}

// One direction to one peer.
struct Lane {
  ByteStream stream;
  bool meets = false;
  int64_t number = 0;    // streams that this lane has carried
  int64_t messages = 0;  // of this stream
  int64_t posted = 0;
  int64_t done = 0;
};

struct State {
  MpiOptions options;
  bool owns_mpi = false;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int ranks = 0;
  device::AbortFlag abort;
  bool told = false;
  bool started = false;  // what the streams hold is under way

  std::vector<Lane> lanes;             // [2 * ranks]: to peer 0, from peer 0, to peer 1, ...
  std::vector<MPI_Request> pending;    // [lanes * kInFlight + 1], the last for a notice
  std::vector<int64_t> message_of;     // [lanes * kInFlight] in that slot, or -1
  std::unique_ptr<std::byte[]> slots;  // [lanes * kInFlight] of message_bytes
  std::vector<int> completed;          // of MPI_Testsome
  std::vector<MPI_Status> statuses;
  std::unique_ptr<GiveUpNotice> notice_in = std::make_unique<GiveUpNotice>();
  std::unique_ptr<GiveUpNotice> notice_out = std::make_unique<GiveUpNotice>();
  std::vector<MPI_Request> notice_sends;
  std::vector<GiveUpNotice> heard;
  Link::Traffic traffic;

  int notice_index() const { return static_cast<int>(pending.size()) - 1; }
  bool is_out(int lane) const { return lane % 2 == 0; }
  int peer_of(int lane) const { return lane / 2; }
  std::byte* SlotAt(int index) const { return slots.get() + index * options.message_bytes; }
  int64_t SizeOf(const Lane& lane, int64_t message) const {
    return std::min(options.message_bytes, lane.stream.bytes() - message * options.message_bytes);
  }

  std::string MessageOf(int lane) const {
    const int from = is_out(lane) ? rank : peer_of(lane);
    return fmt::format("a message from rank {} to rank {}", from,
                       from == rank ? peer_of(lane) : rank);
  }

  Status ListenForNotice();
  void Hear();
  Status Post(int lane_index);
  Status Complete(int index, const MPI_Status& status);
  std::vector<int> Waits() const;
  void Tell(const GiveUpNotice& notice);
  void DropReceives();
  Status Fail(Status reason);
  Status GiveUp(const device::WaitSite& site, int64_t start_ns);
  Status TellAbort();
  Status Poll(int* ended);  // handles what has ended
  Status Start();
  Status Run(const device::WaitSite& site);
};

Status State::ListenForNotice() {
  const int code = MPI_Irecv(notice_in.get(), sizeof(GiveUpNotice), MPI_BYTE, MPI_ANY_SOURCE,
                             kNoticeTag, comm, &pending.back());
  return code == MPI_SUCCESS ? Status() : MpiError(code, "listening to the other ranks");
}

void State::Hear() {
  GiveUpNotice notice = *notice_in;
  notice.text.back() = '\0';
  notice.wait_count = std::clamp<int32_t>(notice.wait_count, 0, notice.waits.size());
  heard.push_back(notice);
}

Status State::Post(int lane_index) {
  Lane& lane = lanes[lane_index];
  const int peer = peer_of(lane_index);
  const int tag = kStreamTag + static_cast<int>(lane.number % kStreamTags);
  // In order: MPI matches messages of one tag in the order in which they were posted.
  while (lane.posted < lane.messages) {
    const int index = lane_index * kInFlight + static_cast<int>(lane.posted % kInFlight);
    if (message_of[index] >= 0) return {};
    const auto size = static_cast<int>(SizeOf(lane, lane.posted));
    std::byte* const slot = SlotAt(index);
    int code;
    if (is_out(lane_index)) {
      lane.stream.Pack(lane.posted * options.message_bytes, {slot, static_cast<size_t>(size)});
      code = MPI_Isend(slot, size, MPI_BYTE, peer, tag, comm, &pending[index]);
      traffic.messages_out += 1;
      traffic.bytes_out += size;
    } else {
      code = MPI_Irecv(slot, size, MPI_BYTE, peer, tag, comm, &pending[index]);
    }
    if (code != MPI_SUCCESS) return MpiError(code, MessageOf(lane_index));
    message_of[index] = lane.posted++;
  }
  return {};
}

Status State::Complete(int index, const MPI_Status& status) {
  const int lane_index = index / kInFlight;
  Lane& lane = lanes[lane_index];
  const int peer = peer_of(lane_index);
  if (status.MPI_ERROR != MPI_SUCCESS) {
    return MpiError(status.MPI_ERROR, MessageOf(lane_index));
  }
  if (!is_out(lane_index)) {
    const int64_t message = message_of[index];
    const auto size = static_cast<int>(SizeOf(lane, message));
    int came = 0;
    MPI_Get_count(&status, MPI_BYTE, &came);
    if (came != size) {
      return Status::Internal("rank {} sent {} bytes to rank {}, which expected {}", peer, came,
                              rank, size);
    }
    lane.stream.Unpack(message * options.message_bytes, {SlotAt(index), static_cast<size_t>(size)});
    traffic.messages_in += 1;
    traffic.bytes_in += size;
  }
  // Only now the slot is free: MPI_Testsome may have ended both slots of a lane.
  message_of[index] = -1;
  ++lane.done;
  return Post(lane_index);
}

std::vector<int> State::Waits() const {
  std::vector<int> out;
  for (int peer = 0; peer < ranks; ++peer) {
    const Lane& to = lanes[2 * peer];
    const Lane& from = lanes[2 * peer + 1];
    if (to.done < to.messages || from.done < from.messages) out.push_back(peer);
  }
  return out;
}

// Small enough to leave at once, also to a peer that will never look.
void State::Tell(const GiveUpNotice& notice) {
  if (std::exchange(told, true)) return;
  *notice_out = notice;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    MPI_Isend(notice_out.get(), sizeof(GiveUpNotice), MPI_BYTE, peer, kNoticeTag, comm,
              &notice_sends[peer]);
  }
}

// What still comes must not be written over memory that its owner takes back.
void State::DropReceives() {
  for (int i = 0; i < notice_index(); ++i) {
    if (pending[i] == MPI_REQUEST_NULL || is_out(i / kInFlight)) continue;
    MPI_Cancel(&pending[i]);
    MPI_Request_free(&pending[i]);
  }
}

Status State::Fail(Status reason) {
  abort.Set(std::move(reason));
  return TellAbort();
}

Status State::TellAbort() {
  const Status reason = abort.reason();
  if (told) return reason;
  DropReceives();
  GiveUpNotice notice{.rank = rank, .code = static_cast<int32_t>(reason.code())};
  notice.SetText(reason.message());
  Tell(notice);
  const int64_t until_ns = SteadyNowNs() + kTellNs;
  int sent = 0;
  while (sent == 0 && SteadyNowNs() < until_ns) {
    if (MPI_Testall(ranks, notice_sends.data(), &sent, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
    if (sent == 0) nanosleep(&kNap, nullptr);
  }
  return reason;
}

Status State::GiveUp(const device::WaitSite& site, int64_t start_ns) {
  const int64_t now_ns = SteadyNowNs();
  const std::vector<int> waits =
      CameLate(rank, now_ns - start_ns, heard) ? std::vector<int>() : Waits();
  DropReceives();
  GiveUpNotice mine{.rank = rank, .waited_ns = now_ns - start_ns};
  mine.SetWaits(waits);
  Tell(mine);
  int sent = 0;
  while (static_cast<int>(heard.size()) < ranks - 1 && SteadyNowNs() < now_ns + Link::kGraceNs) {
    int came = 0;
    if (MPI_Test(&pending.back(), &came, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    if (came != 0) {
      Hear();
      if (!ListenForNotice().ok()) break;
      continue;
    }
    if (MPI_Testall(ranks, notice_sends.data(), &sent, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
    nanosleep(&kNap, nullptr);
  }
  abort.Set(WhyGivenUp(mine, heard, site));
  return abort.reason();
}

Status State::Poll(int* ended) {
  const int code = MPI_Testsome(static_cast<int>(pending.size()), pending.data(), ended,
                                completed.data(), statuses.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return MpiError(code, "polling");
  for (int i = 0; i < *ended; ++i) {
    if (code == MPI_SUCCESS) statuses[i].MPI_ERROR = MPI_SUCCESS;
    if (completed[i] == notice_index()) {
      Hear();
      WEFT_RETURN_IF_ERROR(ListenForNotice());
    } else {
      WEFT_RETURN_IF_ERROR(Complete(completed[i], statuses[i]));
    }
  }
  return {};
}

Status State::Start() {
  if (abort.is_set()) return TellAbort();
  int ended = 0;
  // A notice that is already here is heard before anything is posted: this rank waits for nobody.
  if (Status status = Poll(&ended); !status.ok()) return Fail(status);
  if (!heard.empty()) return {};  // Run() gives up with its site
  started = true;
  for (int i = 0; i < static_cast<int>(lanes.size()); ++i) {
    Lane& lane = lanes[i];
    lane.messages = (lane.stream.bytes() + options.message_bytes - 1) / options.message_bytes;
    if (lane.meets && lane.messages == 0) lane.messages = 1;
    if (lane.messages > 0) ++lane.number;
    if (Status status = Post(i); !status.ok()) return Fail(status);
  }
  return {};
}

Status State::Run(const device::WaitSite& site) {
  if (abort.is_set()) return TellAbort();
  const int64_t start_ns = SteadyNowNs();
  if (!started) WEFT_RETURN_IF_ERROR(Start());
  if (!started) return GiveUp(site, start_ns);
  int ended = 0;
  int64_t idle_since_ns = start_ns;
  for (int64_t polls = 1;; ++polls) {
    if (Status status = Poll(&ended); !status.ok()) return Fail(status);
    // What else was heard is for the next transfer.
    if (std::ranges::all_of(lanes, [](const Lane& l) { return l.done == l.messages; })) break;
    if (!heard.empty()) return GiveUp(site, start_ns);
    if (options.spin_ns > 0 && polls % kPollsPerClock != 0) continue;
    if (abort.is_set()) return TellAbort();
    const int64_t now_ns = SteadyNowNs();
    if (now_ns >= site.deadline_ns) return GiveUp(site, start_ns);
    if (ended > 0) idle_since_ns = now_ns;
    Idle(now_ns - idle_since_ns, options.spin_ns);
  }
  for (Lane& lane : lanes) {
    lane.stream.Clear();
    lane.meets = false;
    lane.messages = lane.posted = lane.done = 0;
  }
  started = false;
  return {};
}

class MpiLink final : public Link {
 public:
  explicit MpiLink(std::unique_ptr<State> state) : state_(std::move(state)) {}
  ~MpiLink() override {
    // MPI may still send from these buffers, or write a late notice into one.
    if (state_->comm != MPI_COMM_NULL) (void)state_.release();
  }
  int rank() const override { return state_->rank; }
  int ranks() const override { return state_->ranks; }
  ByteStream& To(int peer) override { return state_->lanes[2 * peer].stream; }
  ByteStream& From(int peer) override { return state_->lanes[2 * peer + 1].stream; }
  void Meet(int peer) override {
    state_->lanes[2 * peer].meets = state_->lanes[2 * peer + 1].meets = true;
  }
  Status Start() override { return state_->Start(); }
  Status Transfer(const device::WaitSite& site) override { return state_->Run(site); }
  Status Close(const device::WaitSite& site) override;
  device::AbortFlag& abort() override { return state_->abort; }
  Traffic traffic() const override { return state_->traffic; }
  void set_spin_ns(int64_t spin_ns) override { state_->options.spin_ns = spin_ns; }

 private:
  std::unique_ptr<State> state_;
};

Status MpiLink::Close(const device::WaitSite& site) {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) Meet(peer);
  }
  WEFT_RETURN_IF_ERROR(Transfer(site));
  State& s = *state_;
  MPI_Cancel(&s.pending.back());
  MPI_Wait(&s.pending.back(), MPI_STATUS_IGNORE);
  // Everybody has met and nothing is under way, so these do not wait for long.
  MPI_Comm_free(&s.comm);
  s.comm = MPI_COMM_NULL;
  s.abort.Set(Status::Unavailable("the link to the other ranks is closed"));
  s.told = true;
  if (s.owns_mpi) MPI_Finalize();
  return {};
}

}  // namespace

Result<std::unique_ptr<Link>> OpenMpiLink(const MpiOptions& options, const device::WaitSite& site) {
  auto state = std::make_unique<State>();
  state->options = options;
  int started = 0;
  MPI_Initialized(&started);
  int thread_level = 0;
  if (started == 0) {
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &thread_level);
        code != MPI_SUCCESS) {
      return MpiError(code, "starting MPI");
    }
    state->owns_mpi = true;
  } else {
    MPI_Query_thread(&thread_level);
  }
  if (thread_level < MPI_THREAD_SERIALIZED) {
    return Status::Unsupported("this MPI can only be called by the thread that started it");
  }
  // The default is to end the process.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Request copied = MPI_REQUEST_NULL;
  if (const int code = MPI_Comm_idup(MPI_COMM_WORLD, &state->comm, &copied); code != MPI_SUCCESS) {
    return MpiError(code, "joining the ranks");
  }
  const int64_t start_ns = SteadyNowNs();
  for (int done = 0; done == 0;) {
    if (const int code = MPI_Test(&copied, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS) {
      return MpiError(code, "joining the ranks");
    }
    const int64_t waited_ns = SteadyNowNs() - start_ns;
    if (done == 0 && start_ns + waited_ns >= site.deadline_ns) {
      (void)state.release();  // MPI may still write into it
      return Status::Deadline("waited {:.1f} s for all ranks to join",
                              static_cast<double>(waited_ns) / kNsPerSecond);
    }
    if (done == 0) Idle(waited_ns, options.spin_ns);
  }
  MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(state->comm, &state->rank);
  MPI_Comm_size(state->comm, &state->ranks);

  const auto lanes = static_cast<size_t>(2 * state->ranks);
  state->lanes.resize(lanes);
  for (Lane& lane : state->lanes) lane.stream.Reserve(64);
  state->pending.assign(lanes * kInFlight + 1, MPI_REQUEST_NULL);
  state->completed.resize(state->pending.size());
  state->statuses.resize(state->pending.size());
  state->message_of.assign(lanes * kInFlight, -1);
  state->slots = std::make_unique_for_overwrite<std::byte[]>(
      lanes * kInFlight * static_cast<size_t>(options.message_bytes));
  state->notice_sends.assign(static_cast<size_t>(state->ranks), MPI_REQUEST_NULL);
  WEFT_RETURN_IF_ERROR(state->ListenForNotice());
  return std::unique_ptr<Link>(new MpiLink(std::move(state)));
}

}  // namespace weft::comm
