// exchange_experts: rows go from those who own them to those whose experts they meet, and to nobody
// else.
//   x R = f(all_gather(s)); ids R = route(g(all_gather(s))); y = dispatch(x R, group_routes(ids))
//     ->   x' = f(s); ids' = route(g(s)); ids R = all_gather(ids'); y = dispatch_rows(x', group_routes(ids), ids)
// Laws: scores, the choice of experts and quantisation are token-wise, so they may be done before
// rows meet; a dispatch moves rows and changes none. With the ids of all tokens everybody knows who
// needs which row, so no count is sent.
#include <fmt/format.h>

#include <utility>

#include "graph/passes/own_rows.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.ranks == 1) return "one rank has all the rows";
  return c.of("sequence_parallel") == Switch::kOn
             ? ""
             : "the schedule is not sp, fc1 or fc1+fc2: every rank has all the rows";
}

// Bytes a row that leave their rank, to one peer.
struct Bytes {
  double spared = 0, taken = 0;
};

class Exchange {
 public:
  Exchange(Graph& g, const PassContext& c)
      : g_(g), own_(g), always_(c.of("exchange_experts") == Switch::kOn) {}

  int Run() {
    std::vector<bool> taken(g_.nodes.size());  // group_routes, route and dispatch
    int rewrites = 0;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (g_.nodes[n].op != Op::kGroupRoutes) continue;
      std::set<int> made, readers;
      if (!Look(static_cast<int>(n), &made, &readers)) continue;
      own_.Want(made);
      for (const int reader : readers) taken[static_cast<size_t>(reader)] = true;
      ++rewrites;
    }
    if (rewrites == 0) return 0;
    std::vector<Node> nodes = std::exchange(g_.nodes, {});
    std::vector<ValueId> ids_of(g_.values.size(), kNoValue);  // by grouping
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      if (node.op == Op::kGroupRoutes) ids_of[static_cast<size_t>(node.out[0])] = node.in[0];
      if (taken[n] && node.op == Op::kRoute) {
        own_.AppendOwn(node);
        for (const ValueId id : node.out)
          g_.nodes.push_back(MoveOnAll(g_, Op::kAllGather, own_.Own(id), id, node.layer));
        continue;
      }
      if (taken[n] && node.op == Op::kDispatch) {
        const ValueId groups = node.in[1];
        node.op = Op::kDispatchRows;
        node.in = {own_.Own(node.in[0]), groups, ids_of[static_cast<size_t>(groups)]};
        node.Set("axes", AllAxes(g_));
        g_.nodes.push_back(std::move(node));
        continue;
      }
      own_.Append(std::move(node), static_cast<int>(n));
    }
    return rewrites;
  }

  // Why a layer is left as it is; "" if there is none.
  std::string Why() {
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      std::set<int> made, readers;
      if (g_.nodes[n].op == Op::kGroupRoutes) Look(static_cast<int>(n), &made, &readers);
    }
    return why_;
  }

 private:
  // The grouping's rows can be dispatched by their owners, and that pays: nodes to make of own
  // rows, and nodes that are to be rewritten.
  bool Look(int grouping, std::set<int>* made, std::set<int>* rewritten) {
    const Node& group = g_.nodes[static_cast<size_t>(grouping)];
    const auto leave = [&](std::string why) {
      if (why_.empty()) why_ = fmt::format("{}: {}", group.layer, why);
      return false;
    };
    const int router = own_.uses().ProducerOf(group.in[0]);
    if (router < 0 || !own_.Possible(group.in[0]))
      return leave("who is routed where is not told by gathered rows");
    Bytes bytes;
    int dispatched = 0;
    if (g_.nodes[static_cast<size_t>(router)].op == Op::kRoute) {
      own_.Collect(group.in[0], made);
      rewritten->insert(router);
      for (const ValueId id : g_.nodes[static_cast<size_t>(router)].out)
        bytes.taken += static_cast<double>(RowBytes(g_, id));
    }
    for (const int reader : own_.uses().ReadersOf(group.out[0])) {
      const Node& dispatch = g_.nodes[static_cast<size_t>(reader)];
      if (dispatch.op != Op::kDispatch) continue;
      if (!own_.Possible(dispatch.in[0]))
        return leave(
            fmt::format("'{}' is not made of gathered rows", g_.value(dispatch.in[0]).name));
      own_.Collect(dispatch.in[0], made);
      rewritten->insert(reader);
      ++dispatched;
      bytes.taken += MeetsAnExpert(group) * static_cast<double>(RowBytes(g_, dispatch.in[0]));
    }
    if (dispatched == 0) return leave("its rows are dispatched already");
    const std::string stays = Spare(*made, *rewritten, &bytes);
    if (always_ || bytes.spared > bytes.taken) return true;
    return leave(fmt::format("a peer would take {:.0f} bytes a row in place of {:.0f}{}",
                             bytes.taken, bytes.spared, stays));
  }

  // The part of a rank's rows that a peer has an expert for, if all experts are chosen alike.
  double MeetsAnExpert(const Node& group) const {
    double none = 1;
    for (int64_t i = 0; i < g_.value(group.out[0]).dims[0].n; ++i)
      none *= 1 - 1.0 / g_.mesh.ranks();
    return 1 - none;
  }

  // Adds what gathers nobody reads any more had moved; says who still reads one.
  std::string Spare(const std::set<int>& made, const std::set<int>& rewritten, Bytes* bytes) const {
    std::set<int> gone = rewritten;
    for (const int n : made) {
      for (const ValueId id : g_.nodes[static_cast<size_t>(n)].out) {
        for (const int reader : own_.uses().ReadersOf(id)) {
          if (SlicesRows(g_, g_.nodes[static_cast<size_t>(reader)])) gone.insert(reader);
        }
      }
    }
    AddDead(g_, own_.uses(), made, &gone);
    std::string stays;
    for (const int n : made) {
      const Node& node = g_.nodes[static_cast<size_t>(n)];
      if (!GathersRows(g_, node)) continue;
      if (gone.contains(n)) bytes->spared += static_cast<double>(RowBytes(g_, node.out[0]));
      for (const int reader : own_.uses().ReadersOf(node.out[0])) {
        const Node& other = g_.nodes[static_cast<size_t>(reader)];
        if (!stays.empty() || gone.contains(reader)) continue;
        stays = fmt::format(": {} at {} reads '{}' gathered", NameOf(other.op), other.layer,
                            g_.value(node.out[0]).name);
      }
    }
    return stays;
  }

  Graph& g_;
  OwnRows own_;
  const bool always_;
  std::string why_;
};

int Run(Graph& g, const PassContext& c) { return Exchange(g, c).Run(); }

std::string Why(const Graph& g, const PassContext& c) {
  Graph copy = g;
  return Exchange(copy, c).Why();
}

}  // namespace

extern const Pass kExchangeExperts;
const Pass kExchangeExperts{"exchange_experts",
                            Numerics::kExact,
                            "rows go from their owners to the ranks of their experts, not to all",
                            Refuse,
                            Run,
                            Why};

}  // namespace weft::graph
