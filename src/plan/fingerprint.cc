// Fields are hashed as they stand: printing them first took a third of the time of a compile.
#include "plan/fingerprint.h"

#include "base/hash.h"

namespace weft::plan {
namespace {

class Fields {
 public:
  // A length in front of everything that varies in number, so that no two lists read alike.
  Fields& Text(std::string_view text) {
    hash_.AddValue(static_cast<int64_t>(text.size()));
    hash_.Add(text);
    return *this;
  }
  template <typename T>
  Fields& Number(T value) {
    hash_.AddValue(value);
    return *this;
  }
  template <typename List, typename Visit>
  Fields& Each(const List& list, const Visit& visit) {
    hash_.AddValue(static_cast<int64_t>(list.size()));
    for (const auto& item : list) visit(item);
    return *this;
  }
  template <typename List>
  Fields& Numbers(const List& list) {
    return Each(list, [&](auto n) { Number(n); });
  }
  uint64_t Digest() const { return hash_.Digest(); }

 private:
  Hash64Stream hash_;
};

void Add(Fields& f, const graph::Graph& g) {
  f.Text(g.model);
  f.Each(g.mesh.axes, [&](const graph::MeshAxis& a) { f.Text(a.name).Number(a.size); });
  f.Each(g.tables, [&](const graph::AxisTable& t) {
    f.Text(t.name).Numbers(t.leaves.starts()).Number(t.follows).Number(t.follow_width);
  });
  f.Each(g.values, [&](const graph::Value& v) {
    f.Text(v.name).Number(v.kind).Number(v.dtype).Number(v.int8_rows).Number(v.pairs);
    f.Each(v.dims, [&](const graph::Dim& d) { f.Number(d.sym).Number(d.n).Number(d.table); });
    f.Each(v.on,
           [&](const graph::Placement& p) { f.Number(p.kind).Number(p.dim).Number(p.order); });
  });
  f.Each(g.nodes, [&](const graph::Node& n) {
    f.Number(n.op).Numbers(n.in).Numbers(n.out).Text(n.layer);
    f.Each(n.attrs, [&](const graph::Attr& a) {
      f.Text(a.key).Number(a.value.index());
      if (const auto* i = std::get_if<int64_t>(&a.value)) f.Number(*i);
      if (const auto* d = std::get_if<double>(&a.value)) f.Number(*d);
      if (const auto* s = std::get_if<std::string>(&a.value)) f.Text(*s);
    });
  });
  f.Numbers(g.outputs);
}

}  // namespace

uint64_t FingerprintOf(const Plan& plan) {
  Fields f;
  f.Number(kNumericsVersion);
  f.Number(plan.bucket.kind).Number(plan.bucket.rows_min).Number(plan.bucket.rows_max);
  f.Number(plan.bucket.mode).Number(plan.bucket.hash_logits);
  f.Text(plan.target)
      .Number(plan.costs_hash)
      .Number(plan.workers_per_rank)
      .Number(plan.shared_memory)
      .Text(plan.schedule)
      .Text(plan.schedule_note);
  Add(f, plan.graph);
  f.Each(plan.passes, [&](const graph::PassReport& r) {
    f.Text(r.name).Number(r.rewrites).Text(r.refusal).Number(r.asked);
  });
  f.Each(plan.steps, [&](const Step& s) {
    f.Number(s.node)
        .Number(s.lane)
        .Number(s.split)
        .Number(s.heads_of)
        .Number(s.wait)
        .Number(s.posted_behind)
        .Number(s.fetches);
    f.Number(s.partials).Number(s.phases).Text(s.impl);
    f.Each(s.refused, [&](const Refused& r) { f.Text(r.impl).Text(r.reason); });
    f.Number(s.cost.weight_bytes).Number(s.cost.row_bytes).Number(s.cost.row_flops);
    f.Number(s.cost.row_wire_bytes);
  });
  f.Each(plan.layouts,
         [&](const Layout& l) { f.Number(l.region).Number(l.offset).Numbers(l.group); });
  f.Number(plan.rank_arena_bytes).Number(plan.worker_arena_bytes);
  return f.Digest();
}

}  // namespace weft::plan
