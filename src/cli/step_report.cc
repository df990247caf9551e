#include "cli/step_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::cli {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;

Work& Work::operator+=(const Work& other) {
  bytes += other.bytes;
  bf16 += other.bf16;
  int8 += other.int8;
  fp32 += other.fp32;
  return *this;
}

Work WorkOf(const plan::Plan& plan, const plan::Step& step, const StepShape& shape, int64_t rows) {
  const Graph& g = plan.graph;
  const Node& node = g.nodes[step.node];
  Work work;
  work.bytes = static_cast<double>(step.cost.weight_bytes);
  if (node.op == Op::kExpertMatmul) {
    // The plan counts the most experts that tokens can go to; a router that has no favourites meets
    // fewer.
    const double per_token = static_cast<double>(g.value(node.in[0]).dims[0].n);
    work.bytes = 0;
    for (graph::ValueId id : OperandsOf(node).weights) {
      const graph::Value& w = g.value(id);
      const double experts = static_cast<double>(w.dims[0].n),
                   met =
                       experts * (1 - std::pow(1 - per_token / experts, static_cast<double>(rows)));
      work.bytes += met * static_cast<double>(BytesOf(w.dtype, w.dims[1].n * w.dims[2].n));
    }
  }
  if (node.op == Op::kMatmul || node.op == Op::kExpertMatmul || IsFused(node.op)) {
    const graph::MatmulOperands operands =
        OperandsOf(IsFused(node.op) ? ChainOf(node).matmul : node);
    const double operations = static_cast<double>(step.cost.row_flops * rows);
    if (g.value(operands.x).int8_rows) {
      work.int8 = operations;
    } else {
      (g.value(operands.x).dtype == DType::kF32 ? work.fp32 : work.bf16) = operations;
    }
  }
  if (node.op == Op::kAttention) {
    int64_t q_width = 0, kv_width = 0;
    for (int r = 0; r < g.mesh.ranks(); ++r) {
      q_width += plan::LocalWidth(g, g.value(node.in[0]), r);
      kv_width += plan::LocalWidth(g, g.value(node.in[1]), r);
    }
    const DType dtype = g.value(node.in[0]).dtype;
    const double last = shape.position + shape.rows;
    // Row i of a sequence sees position + i + 1 keys.
    const double keys = shape.rows * (shape.position + (shape.rows + 1) / 2.0);
    work.bytes =
        2.0 * static_cast<double>(kv_width * FactsOf(dtype).block_bytes) * last * shape.sequences;
    (dtype == DType::kF32 ? work.fp32 : work.bf16) =
        4.0 * static_cast<double>(q_width) * keys * shape.sequences;
  }
  return work;
}

Work WorkOf(const plan::Plan& plan, const StepShape& shape, int64_t rows) {
  Work all;
  for (const plan::Step& step : plan.steps) all += WorkOf(plan, step, shape, rows);
  return all;
}

Bound BoundOf(const Work& work, const MachineLimits& limits, int threads) {
  Bound bound;
  const auto rate = [&](const std::string& name) {
    const Limit* limit = limits.Find(name, threads);
    return limit == nullptr ? 0.0 : limit->value;
  };
  const auto add = [](double rate, double amount, double* ns) {
    if (rate > 0) *ns += amount / rate;
  };
  double memory = 0, compute = 0;
  add(rate("read"), work.bytes, &memory);
  const std::pair<const char*, double> kinds[] = {
      {"bf16", work.bf16}, {"int8", work.int8}, {"fp32", work.fp32}};
  std::string most = "bf16";
  double most_amount = 0;
  for (const auto& [name, amount] : kinds) {
    // Where two FMAs on widened halves beat vdpbf16ps, they are the limit of bf16.
    add(name == std::string("bf16") ? std::max(rate("bf16"), rate("fp32")) : rate(name), amount,
        &compute);
    if (amount > most_amount) most = name, most_amount = amount;
  }
  bound.ns = std::max(memory, compute);
  bound.by = memory >= compute ? "memory" : most;
  return bound;
}

std::string SiteOf(const Graph& g, const Node& node) {
  const std::string op(graph::NameOf(node.op));
  const Value& y = g.value(node.out[0]);
  if (y.kind == graph::ValueKind::kState) return op;
  std::string_view name = y.name;
  // Forms of a value that expanding a word or a pass made on the way are told by the value's own
  // name.
  constexpr std::string_view kForms[] = {".roots",   ".int8",      ".gathered", ".rows",
                                         ".columns", ".regrouped", ".part"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view form : kForms) {
      if (!name.ends_with(form)) continue;
      name.remove_suffix(form.size());
      again = true;
    }
  }
  if (const size_t dot = name.rfind('.'); dot != name.npos) name.remove_prefix(dot + 1);
  return name == op ? op : fmt::format("{} {}", op, name);
}

TraceReport ReportOf(const exec::StepTrace& trace, int steps, const StepShape& shape) {
  TraceReport report;
  report.steps = steps;
  std::map<std::string, OpTime> ops;
  const double per = 1.0 / (static_cast<double>(steps) * trace.workers());
  double waits = 0;
  std::map<std::string, std::pair<double, double>> counts;  // calls, waits
  for (int w = 0; w < trace.workers(); ++w) {
    for (const exec::StepEvent& e : trace.EventsOf(w)) {
      const plan::Step& step = e.plan->steps[e.step];
      const Node& node = e.plan->graph.nodes[step.node];
      const std::string site = SiteOf(e.plan->graph, node);
      OpTime& op = ops[site];
      op.op = site;
      op.impl = step.impl;
      op.ns += static_cast<double>(e.end_ns - e.start_ns) * per;
      report.busy_ns += static_cast<double>(e.end_ns - e.start_ns) * per;
      if (e.waited) {
        op.wait_ns += static_cast<double>(e.start_ns - e.ready_ns) * per;
        report.wait_ns += static_cast<double>(e.start_ns - e.ready_ns) * per;
        counts[site].second += per;
        waits += per;
      }
      if (e.phase > 0) continue;
      counts[site].first += per;
      if (w > 0) continue;
      const bool head = e.plan->bucket.kind == plan::Bucket::Kind::kHead;
      Work work = WorkOf(*e.plan, step, shape,
                         head ? shape.head_rows() : int64_t{shape.sequences} * shape.rows);
      work.bytes /= steps, work.bf16 /= steps, work.int8 /= steps, work.fp32 /= steps;
      op.work += work;
    }
  }
  report.waits = static_cast<int>(waits + 0.5);
  for (auto& [site, op] : ops) {
    op.count = static_cast<int>(counts[site].first + 0.5);
    op.waits = static_cast<int>(counts[site].second + 0.5);
    report.ops.push_back(op);
  }
  std::stable_sort(report.ops.begin(), report.ops.end(), [](const OpTime& a, const OpTime& b) {
    return a.ns + a.wait_ns > b.ns + b.wait_ns;
  });
  return report;
}

Json ToJson(const Work& work) {
  Json out;
  out.Set("bytes", work.bytes);
  out.Set("bf16", work.bf16);
  out.Set("int8", work.int8);
  out.Set("fp32", work.fp32);
  return out;
}

Json ToJson(const TraceReport& report) {
  Json out;
  out.Set("steps", report.steps);
  out.Set("busy_us", report.busy_ns / 1e3);
  out.Set("wait_us", report.wait_ns / 1e3);
  out.Set("waits", report.waits);
  Json ops{Json::Array{}};
  for (const OpTime& op : report.ops) {
    Json one;
    one.Set("op", op.op);
    one.Set("impl", op.impl);
    one.Set("count", op.count);
    one.Set("us", op.ns / 1e3);
    one.Set("wait_us", op.wait_ns / 1e3);
    one.Set("waits", op.waits);
    one.Set("work", ToJson(op.work));
    ops.Push(std::move(one));
  }
  out.Set("ops", std::move(ops));
  return out;
}

}  // namespace weft::cli
