#include "plan/choose_schedule.h"

#include <fmt/format.h>

#include "plan/fingerprint.h"

namespace weft::plan {
namespace {

std::string LabelOf(const BucketSchedule& row) {
  std::string label(NameOf(row.schedule));
  if (row.mesh.axes.size() == 2) label += fmt::format("/{}", row.mesh.axes[0].size);
  return label;
}

}  // namespace

Result<Plan> CompileCheapest(const std::vector<BucketSchedule>& candidates, const Bucket& bucket,
                             const CostTable& costs, const CompileRow& compile) {
  // A range is judged where it is fullest: that is where time is spent.
  const int64_t rows = bucket.rows_max;
  Plan best;
  double least = 0;
  std::string note =
      fmt::format("auto, us by the cost table for {} row{}:", rows, rows == 1 ? "" : "s");
  for (const BucketSchedule& row : candidates) {
    WEFT_ASSIGN_OR_RETURN(Plan plan, compile(row));
    const double ns = EstimateNs(plan, costs, rows);
    note += fmt::format(" {} {:.0f}", LabelOf(row), ns / 1000);
    const bool first = best.steps.empty();
    if (!first && ns >= least * (1 - kScheduleSavingLeast)) continue;
    best = std::move(plan);
    least = ns;
  }
  best.schedule_note = std::move(note);
  best.fingerprint = FingerprintOf(best);
  return best;
}

}  // namespace weft::plan
