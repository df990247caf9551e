#include "exec/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <set>
#include <span>
#include <thread>

#include "base/check.h"
#include "kernels/matmul/pack.h"

namespace weft::exec {

using graph::Graph;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;
using kernels::kPanelOutputs;

namespace {

int64_t PanelsOf(int64_t outputs) { return (outputs + kPanelOutputs - 1) / kPanelOutputs; }

LeafTable LeavesOfDim(const Graph& g, const graph::Dim& dim) {
  return dim.table < 0 ? LeafTable::Whole(dim.n) : g.tables[dim.table].leaves;
}

// The last two dimensions of a param are a matrix; a first of three counts experts.
const graph::Dim& OutputsOf(const Value& v) { return v.dims[v.dims.size() - 2]; }
const graph::Dim& InputsOf(const Value& v) { return v.dims.back(); }

// One leaf to pack: where it comes from and where it goes.
struct Job {
  const models::WeightSource* source;
  int64_t expert, n_begin, n_count, k_begin, k_count;
  std::byte* to;
  std::atomic<int>* left;  // jobs of this tensor that are not done
  int k_leaves;
};

int64_t PackedBytes(const Job& job) {
  return PanelsOf(job.n_count) * kernels::PanelBytes(job.source->dtype(), job.k_count);
}

void Pack(const Job& job) {
  const models::WeightSource& source = *job.source;
  const int64_t panel_bytes = kernels::PanelBytes(source.dtype(), job.k_count),
                row_bytes = source.row_bytes();
  // Rows whose columns are in another order are put right in a copy.
  std::vector<std::byte> reordered(
      source.columns_in_order() ? 0 : static_cast<size_t>(kPanelOutputs * row_bytes));
  const std::byte* rows[kPanelOutputs];
  std::byte* to = job.to;
  for (int64_t n = 0; n < job.n_count; n += kPanelOutputs, to += panel_bytes) {
    const int count = static_cast<int>(std::min<int64_t>(kPanelOutputs, job.n_count - n));
    for (int i = 0; i < count; ++i) {
      rows[i] = source.Row(job.expert, job.n_begin + n + i);
      if (source.columns_in_order()) continue;
      std::byte* copy = reordered.data() + i * row_bytes;
      source.ReadRow(job.expert, job.n_begin + n + i, copy);
      rows[i] = copy;
    }
    kernels::PackPanel(source.dtype(), rows, count, job.k_begin, job.k_count, to);
  }
}

// The file's pages go as soon as they are packed, or loading would need room for the weights twice:
// those of whole rows at once, those of a tensor that is cut along K when its last leaf is packed.
// Rows of another param may lie between; if they are still to be packed, their pages are read once
// more.
void DropSource(const io::Checkpoint& checkpoint, const Job& job) {
  const bool last = job.left->fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (job.k_leaves == 1) {
    const std::span<const std::byte> rows =
        job.source->Extent(job.expert, job.n_begin, job.n_count);
    checkpoint.DropPages(rows.data(), static_cast<int64_t>(rows.size()));
  } else if (last) {
    for (const io::Tensor* tensor : job.source->tensors) checkpoint.DropPages(*tensor);
  }
}

}  // namespace

kernels::PackedMatrix PackedTable::matrix(DType dtype, int64_t n, int64_t k) const {
  kernels::PackedMatrix m;
  m.dtype = dtype;
  m.n = n;
  m.k = k;
  m.panels = static_cast<int>(panel_begin.size()) - 1;
  m.k_leaves = static_cast<int>(k_begin.size()) - 1;
  m.panel_begin = panel_begin.data();
  m.k_begin = k_begin.data();
  m.data = data.data();
  return m;
}

Result<std::unique_ptr<Weights>> Weights::Load(const io::Checkpoint& checkpoint,
                                               const std::vector<const Graph*>& graphs, int threads,
                                               const Progress& progress, const Wanted& wanted) {
  auto weights = std::make_unique<Weights>();
  std::map<std::string, models::WeightSource> sources;
  // Sizes first: one region holds all, so that huge pages are not broken between tensors.
  int64_t total = 0;
  std::vector<std::pair<std::string, int64_t>> offsets;
  std::set<std::string> filters;  // small matrices that are read as float32, not multiplied by
  for (const Graph* g : graphs) {
    for (const graph::Node& node : g->nodes) {
      if (node.op == graph::Op::kCausalConv) filters.insert(g->value(node.in[2]).name);
    }
    for (const Value& v : g->values) {
      if (v.kind != ValueKind::kParam || sources.count(v.name) > 0) continue;
      WEFT_ASSIGN_OR_RETURN(sources[v.name], models::FindWeight(checkpoint, v.name));
      if (v.dims.size() == 1 || filters.contains(v.name)) {
        weights->vectors_[v.name] = sources[v.name].Values();
        continue;
      }
      Matrix m{v.dtype,
               v.dims.size() == 3 ? v.dims[0].n : 1,
               LeavesOfDim(*g, OutputsOf(v)),
               LeavesOfDim(*g, InputsOf(v)),
               {}};
      offsets.push_back({v.name, total});
      for (int n = 0; n < m.n_leaves.count(); ++n) {
        for (int k = 0; k < m.k_leaves.count(); ++k) {
          total += m.experts * PanelsOf(m.n_leaves.width(n)) *
                   kernels::PanelBytes(m.dtype, m.k_leaves.width(k));
        }
      }
      weights->matrices_.emplace(v.name, std::move(m));
    }
  }
  WEFT_ASSIGN_OR_RETURN(weights->memory_,
                        device::Memory::Allocate(total, device::kAnyNode, "weights"));

  std::vector<Job> jobs;
  std::deque<std::atomic<int>> left;
  for (auto& [name, offset] : offsets) {
    Matrix& m = weights->matrices_.find(name)->second;
    left.emplace_back(0);
    std::byte* to = weights->memory_.data() + offset;
    for (int64_t leaf = 0; leaf < m.experts * m.n_leaves.count() * m.k_leaves.count(); ++leaf) {
      const int k = static_cast<int>(leaf % m.k_leaves.count()),
                n = static_cast<int>(leaf / m.k_leaves.count() % m.n_leaves.count());
      const int64_t panel_bytes = kernels::PanelBytes(m.dtype, m.k_leaves.width(k));
      jobs.push_back({&sources[name], leaf / m.k_leaves.count() / m.n_leaves.count(),
                      m.n_leaves.start(n), m.n_leaves.width(n), m.k_leaves.start(k),
                      m.k_leaves.width(k), to, &left.back(), m.k_leaves.count()});
      std::vector<const std::byte*>& panels = m.panels.emplace_back();
      for (int64_t p = 0; p < PanelsOf(m.n_leaves.width(n)); ++p, to += panel_bytes)
        panels.push_back(to);
    }
  }

  if (wanted) {
    std::vector<const std::byte*> panels = wanted(*weights);
    std::sort(panels.begin(), panels.end());
    std::erase_if(jobs, [&](const Job& job) {
      const auto first = std::lower_bound(panels.begin(), panels.end(), job.to);
      return first == panels.end() || *first >= job.to + PackedBytes(job);
    });
  }
  total = 0;
  for (const Job& job : jobs) {
    total += PackedBytes(job);
    job.left->fetch_add(1, std::memory_order_relaxed);
  }
  weights->packed_bytes_ = total;

  std::atomic<size_t> next{0};
  std::atomic<int64_t> done{0};
  const auto work = [&](bool reports) {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < jobs.size();) {
      Pack(jobs[i]);
      DropSource(checkpoint, jobs[i]);
      done.fetch_add(PackedBytes(jobs[i]), std::memory_order_relaxed);
      if (reports && progress) progress(done.load(std::memory_order_relaxed), total);
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work, false);
  work(true);
  for (std::thread& t : helpers) t.join();
  if (progress) progress(total, total);
  return weights;
}

const Weights::Matrix& Weights::MatrixOf(const std::string& name) const {
  const auto it = matrices_.find(name);
  WEFT_CHECK(it != matrices_.end(), "no matrix '{}'", name);
  return it->second;
}

PackedTable Weights::TableOf(const Graph& g, const std::vector<ValueId>& weights, int rank,
                             bool all_ranks, int64_t expert) const {
  PackedTable table;
  table.panel_begin.push_back(0);
  const auto range = [&](ValueId id, int from_last, const LeafTable& leaves) -> LeafRange {
    const int dim = static_cast<int>(g.value(id).dims.size()) - from_last;
    if (g.value(id).dims[dim].table < 0 || all_ranks) return {0, leaves.count()};
    return graph::LeavesOf(g, g.value(id), dim, rank);
  };
  // Outputs without leaves may be cut between any two blocks of panels.
  const auto outputs = [&](ValueId id, const LeafTable& leaves) -> graph::ElementRange {
    if (OutputsOf(g.value(id)).table >= 0 || all_ranks) return {0, leaves.size()};
    return ElementsOf(g, g.value(id), static_cast<int>(g.value(id).dims.size()) - 2, rank);
  };
  // K first: it is the same for all (several weights share one input).
  const Matrix& first = MatrixOf(g.value(weights[0]).name);
  const LeafRange k_range = range(weights[0], 1, first.k_leaves);
  for (int k = k_range.begin; k <= k_range.end; ++k) {
    table.k_begin.push_back(
        static_cast<int32_t>(first.k_leaves.start(k) - first.k_leaves.start(k_range.begin)));
  }
  for (int k = k_range.begin; k < k_range.end; ++k) {
    for (ValueId id : weights) {
      const Matrix& m = MatrixOf(g.value(id).name);
      const LeafRange n_range = range(id, 2, m.n_leaves);
      const graph::ElementRange own = outputs(id, m.n_leaves);
      for (int n = n_range.begin; n < n_range.end; ++n) {
        const auto& panels = m.panels[static_cast<size_t>(
            (expert * m.n_leaves.count() + n) * m.k_leaves.count() + k)];
        for (size_t p = 0; p < panels.size(); ++p) {
          const int64_t at = m.n_leaves.start(n) + static_cast<int64_t>(p) * kPanelOutputs;
          if (at < own.begin || at >= own.end) continue;
          table.data.push_back(panels[p]);
          if (k > k_range.begin) continue;
          const int64_t width =
              std::min({m.n_leaves.start(n + 1), own.end, at + kPanelOutputs}) - at;
          table.panel_begin.push_back(table.panel_begin.back() + static_cast<int32_t>(width));
        }
      }
    }
  }
  return table;
}

std::vector<float> Weights::VectorOf(const Graph& g, ValueId param, int rank) const {
  const Value& v = g.value(param);
  const auto it = vectors_.find(v.name);
  WEFT_CHECK(it != vectors_.end(), "no vector '{}'", v.name);
  const graph::ElementRange own = ElementsOf(g, v, 0, rank);
  const int64_t columns = v.dims.size() == 1 ? 1 : v.dims[1].n;
  return {it->second.begin() + own.begin * columns, it->second.begin() + own.end * columns};
}

}  // namespace weft::exec
