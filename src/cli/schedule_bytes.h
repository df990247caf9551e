// What a schedule's exchanges move in one layer, by formula: from the model's widths and trees,
// without the placements that a plan counts by. The two are compared where a schedule is measured.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.h"
#include "plan/schedule.h"
#include "tensor/leaf_table.h"

namespace weft::cli {

// A dense layer: products q k v, attention's output o, gate and up, down.
struct LayerShape {
  std::string name;                        // "L05"
  int64_t hidden = 0, heads = 0, ffn = 0;  // elements of a row: of the residual, into o, into down
  LeafTable heads_leaves, ffn_leaves;      // of what o and down sum over
  // Bytes of an element that enters a product, as it crosses: 2, 4, or 1.25 of int8 rows, which
  // carry a scale and a sum per 32.
  double qkv_in = 0, o_in = 0, gate_in = 0, down_in = 0;
  int64_t rounded = 2;  // bytes of an element that a product makes
};
// Of the middle layer of a plan with schedule plain on several ranks; nullopt: it has another form.
std::optional<LayerShape> MiddleLayerOf(const plan::Plan& plain);

// Steps of that layer, with their exact bytes as the plan counts them.
int64_t PlannedBytes(const plan::Plan& plan, std::string_view layer, int64_t rows);
int64_t PlannedBytes(const plan::Plan& plan, int64_t rows);

// With b = 4 a root for what is reduced and the element's own bytes for what moves, all ranks
// together:
//   all-reduce direct  4 R (t-1) h       two_shot, halving  4 R (t-1)/t h + b (t-1) h
//   reduce-scatter     4 R (t-1)/t h     all-gather         b (t-1) h
//   all-to-all over odp  b (1 - 1/|odp|) h
// R: roots of all t members, h: elements of a row. Exact where t divides the rows.
// `method`: of plain all-reduces.
double FormulaBytes(const LayerShape& layer, plan::Schedule schedule, int ranks, int otp,
                    std::string_view method_o, std::string_view method_down, int64_t rows);

}  // namespace weft::cli
