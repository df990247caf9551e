#include "exec/default_costs.h"

namespace weft::exec {

// The medians of profiles/xeon-spr-2.json, whose equality is tested. In code, because a plan must
// be the same wherever it is compiled and whatever stands on the disk beside the program; and
// measured at start it would differ from day to day. What it decides is where a second meeting
// pays, which is much the same on other servers; --profile has the figures of this one.
plan::CostTable DefaultCosts() {
  return {
      .exchanges = {{"all_reduce", "direct", 2, 848.5, 148.0},
                    {"all_reduce", "two_shot", 2, 493.7, 105.8},
                    {"all_reduce", "halving", 2, 456.0, 105.4},
                    {"reduce_scatter", "direct", 2, 796.8, 133.8},
                    {"reduce_scatter", "halving", 2, 794.0, 133.9},
                    {"all_gather", "direct", 2, 545.8, 173.2},
                    {"all_to_all", "direct", 2, 631.5, 149.7},
                    {"pair_max", "direct", 2, 431.3, 706.1}},
      .meetings = {{2, 152.625}},
      // 31 GB/s of weights; products at 70 % of 242 GFLOP/s and half of 969 GOP/s, what packed
      // kernels reach. They are alike in all schedules and only weigh products against exchanges.
      .weight_kib_ns = 33.0,
      .walk_kib_ns = 35.32714843750001,
      .bf16_mac_ns = 0.0117,
      .int8_mac_ns = 0.0042};
}

}  // namespace weft::exec
