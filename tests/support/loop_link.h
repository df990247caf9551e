// Links between threads of one process that share nothing but messages: ranks as processes would
// be, without a carrier of their own. A wait that ends names whom it waited for, and breaks all
// links.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/link.h"

namespace weft::support {

class LoopJob {
 public:
  explicit LoopJob(int ranks) : ranks_(ranks) {
    for (int r = 0; r < ranks; ++r) links_.push_back(std::make_unique<End>(this, r));
  }
  comm::Link& link(int rank) { return *links_[static_cast<size_t>(rank)]; }

  // f(link) on a thread of its own for every rank; returns when all have returned.
  template <typename F>
  void RunEach(const F& f) {
    std::vector<std::thread> threads;
    for (const auto& link : links_) threads.emplace_back([&f, &link] { f(*link); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  using Message = std::vector<std::byte>;

  class End final : public comm::Link {
   public:
    End(LoopJob* job, int rank)
        : job_(job),
          rank_(rank),
          to_(static_cast<size_t>(job->ranks_)),
          from_(to_.size()),
          meets_(to_.size()) {}
    int rank() const override { return rank_; }
    int ranks() const override { return job_->ranks_; }
    comm::ByteStream& To(int peer) override { return to_[static_cast<size_t>(peer)]; }
    comm::ByteStream& From(int peer) override { return from_[static_cast<size_t>(peer)]; }
    void Meet(int peer) override { meets_[static_cast<size_t>(peer)] = 1; }
    Status Start() override { return job_->Start(*this); }
    Status Transfer(const device::WaitSite& site) override { return job_->Transfer(*this, site); }
    Status Close(const device::WaitSite& site) override {
      for (int peer = 0; peer < ranks(); ++peer) {
        if (peer != rank_) Meet(peer);
      }
      return Transfer(site);
    }
    device::AbortFlag& abort() override { return abort_; }
    Traffic traffic() const override { return traffic_; }

   private:
    friend LoopJob;
    LoopJob* job_;
    int rank_;
    std::vector<comm::ByteStream> to_, from_;
    std::vector<char> meets_;
    bool started_ = false;
    device::AbortFlag abort_;
    Traffic traffic_;
  };

  // REQUIRES: the lock. Everybody's reason, told as this rank's.
  Status Break(End& end, Status reason) {
    if (broken_.ok())
      broken_ = Status(reason.code(), fmt::format("rank {}: {}", end.rank_, reason.message()));
    end.abort_.Set(std::move(reason));
    changed_.notify_all();
    return end.abort_.reason();
  }

  Status Start(End& end) {
    std::unique_lock lock(mutex_);
    return Start(end, lock);
  }

  Status Start(End& end, const std::unique_lock<std::mutex>&) {
    if (end.abort_.is_set()) return Break(end, end.abort_.reason());
    for (int peer = 0; peer < ranks_; ++peer) {
      const comm::ByteStream& stream = end.to_[static_cast<size_t>(peer)];
      if (stream.bytes() == 0 && end.meets_[static_cast<size_t>(peer)] == 0) continue;
      Message& message =
          boxes_[{end.rank_, peer}].emplace_back(static_cast<size_t>(stream.bytes()));
      stream.Pack(0, message);
      ++end.traffic_.messages_out;
      end.traffic_.bytes_out += stream.bytes();
    }
    end.started_ = true;
    changed_.notify_all();
    return {};
  }

  Status Transfer(End& end, const device::WaitSite& site) {
    std::unique_lock lock(mutex_);
    if (!end.started_) WEFT_RETURN_IF_ERROR(Start(end, lock));
    for (int peer = 0; peer < ranks_; ++peer) {
      const comm::ByteStream& stream = end.from_[static_cast<size_t>(peer)];
      if (stream.bytes() == 0 && end.meets_[static_cast<size_t>(peer)] == 0) continue;
      std::deque<Message>& box = boxes_[{peer, end.rank_}];
      while (box.empty() && broken_.ok() && !end.abort_.is_set()) {
        changed_.wait_for(lock, std::chrono::milliseconds(1));
        if (SteadyNowNs() < site.deadline_ns) continue;
        return Break(end, Status::Deadline("waited for rank {} ({})", peer, site.what));
      }
      if (end.abort_.is_set()) return Break(end, end.abort_.reason());
      if (box.empty()) {  // broken
        end.abort_.Set(broken_);
        return broken_;
      }
      const Message message = std::move(box.front());
      box.pop_front();
      if (static_cast<int64_t>(message.size()) != stream.bytes()) {
        return Break(end, Status::Internal("rank {} sent {} bytes, expected {}", peer,
                                           message.size(), stream.bytes()));
      }
      stream.Unpack(0, message);
      ++end.traffic_.messages_in;
      end.traffic_.bytes_in += stream.bytes();
    }
    for (int peer = 0; peer < ranks_; ++peer) {
      end.to_[static_cast<size_t>(peer)].Clear();
      end.from_[static_cast<size_t>(peer)].Clear();
      end.meets_[static_cast<size_t>(peer)] = 0;
    }
    end.started_ = false;
    return {};
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status broken_;
  std::map<std::pair<int, int>, std::deque<Message>> boxes_;  // [from, to]
  std::vector<std::unique_ptr<End>> links_;
};

}  // namespace weft::support
