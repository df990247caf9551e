#include "plan/lanes.h"

#include <algorithm>
#include <tuple>

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::ValueId;

namespace {

class Weaver {
 public:
  Weaver(const Plan& plan, const Weave& weave)
      : g_(plan.graph),
        weave_(weave),
        workers_(plan.workers_per_rank),
        shared_memory_(plan.shared_memory),
        made_at_(g_.values.size()),
        missing_(g_.nodes.size()),
        unshared_(g_.values.size()),
        unmet_(g_.values.size()) {
    const graph::Uses uses(g_);
    readers_.resize(g_.nodes.size());
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      std::vector<int> makers;
      for (ValueId id : g_.nodes[n].in) {
        if (const int maker = uses.ProducerOf(id); maker >= 0) makers.push_back(maker);
      }
      // Who reads a version of a state does so before it is written over.
      if (WritesState(g_.nodes[n].op)) {
        for (int reader : uses.ReadersOf(g_.nodes[n].in[0])) {
          if (reader != static_cast<int>(n)) makers.push_back(reader);
        }
      }
      std::sort(makers.begin(), makers.end());
      makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
      missing_[n] = static_cast<int>(makers.size());
      for (int maker : makers) readers_[static_cast<size_t>(maker)].push_back(static_cast<int>(n));
    }
  }

  std::vector<int> Order() {
    std::vector<int> ready, order;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (missing_[n] == 0) ready.push_back(static_cast<int>(n));
    }
    while (!ready.empty()) {
      const auto best = std::min_element(ready.begin(), ready.end(), [&](int a, int b) {
        return std::tuple(WaitOf(a), SinceOf(a), a) < std::tuple(WaitOf(b), SinceOf(b), b);
      });
      const int n = *best;
      ready.erase(best);
      Run(n);
      order.push_back(n);
      for (int reader : readers_[static_cast<size_t>(n)]) {
        if (--missing_[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
      }
    }
    return order;
  }

 private:
  Wait WaitOf(int n) const {
    const Node& node = g_.nodes[static_cast<size_t>(n)];
    const auto any = [&](const std::vector<bool>& of) {
      return std::any_of(node.in.begin(), node.in.end(),
                         [&](ValueId id) { return of[static_cast<size_t>(id)]; });
    };
    // Of an exchange peers hold the first operand; others are the rank's own.
    const bool exchange = weave_.exchange[static_cast<size_t>(n)];
    if ((exchange && (unmet_[static_cast<size_t>(node.in[0])] || !shared_memory_)) ||
        MeetsInside(node))
      return Wait::kGroup;
    return any(unshared_) ? Wait::kRank : Wait::kNone;
  }

  // A transfer that could have been under way for longest is waited for first.
  int SinceOf(int n) const {
    return shared_memory_ || WaitOf(n) != Wait::kGroup
               ? 0
               : made_at_[static_cast<size_t>(g_.nodes[static_cast<size_t>(n)].in[0])];
  }

  void Run(int n) {
    const Wait wait = WaitOf(n);
    ++ran_;
    if (wait != Wait::kNone) std::fill(unshared_.begin(), unshared_.end(), false);
    if (wait == Wait::kGroup) std::fill(unmet_.begin(), unmet_.end(), false);
    for (ValueId id : g_.nodes[static_cast<size_t>(n)].out) {
      made_at_[static_cast<size_t>(id)] = ran_;
      unmet_[static_cast<size_t>(id)] = true;
      unshared_[static_cast<size_t>(id)] = workers_ > 1 && !weave_.each[static_cast<size_t>(n)];
    }
  }

  const Graph& g_;
  const Weave& weave_;
  const int workers_;
  const bool shared_memory_;
  int ran_ = 0;
  std::vector<int> made_at_;               // by value: how many had run when it was made
  std::vector<int> missing_;               // by node: operands that nobody has made yet
  std::vector<std::vector<int>> readers_;  // by node
  std::vector<bool> unshared_,
      unmet_;  // by value: made since the last wait of the rank, of all ranks
};

}  // namespace

int InterleaveLanes(Plan& plan, const Weave& weave) {
  const std::vector<int> order = Weaver(plan, weave).Order();
  std::vector<Node> nodes;
  std::vector<Step> steps;
  int overtook = 0;
  int first = 0;  // of those that have not run yet, the one that stood first
  std::vector<bool> ran(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto n = static_cast<size_t>(order[i]);
    const bool ahead = order[i] != first;
    ran[n] = true;
    while (static_cast<size_t>(first) < ran.size() && ran[static_cast<size_t>(first)]) ++first;
    nodes.push_back(std::move(plan.graph.nodes[n]));
    steps.push_back(std::move(plan.steps[n]));
    steps.back().node = static_cast<int>(i);
    steps.back().lane = ahead ? 1 : 0;
    overtook += ahead;
  }
  plan.graph.nodes = std::move(nodes);
  plan.steps = std::move(steps);
  return overtook;
}

}  // namespace weft::plan
