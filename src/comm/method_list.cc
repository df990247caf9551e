// All methods, in the order of trying. What is best for a size is the plan's cost table's to say;
// without one the order below is: direct, because few rows are the common step.
#include <array>

#include "comm/method.h"

namespace weft::comm {

extern const Method<ReduceArgs> kAllReduceDirect;
extern const Method<ReduceArgs> kAllReduceTwoShot;
extern const Method<ReduceArgs> kAllReduceHalving;
extern const Method<ReduceArgs> kReduceScatterDirect;
extern const Method<ReduceArgs> kReduceScatterHalving;
extern const Method<MoveArgs> kAllGatherDirect;
extern const Method<MoveArgs> kAllToAllDirect;
extern const Method<DispatchRowsArgs> kDispatchRowsDirect;
extern const Method<CombineRowsArgs> kCombineRowsDirect;
extern const Method<PairMaxArgs> kPairMaxDirect;

std::string_view NameOf(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kReduceScatter: return "reduce_scatter";
    case Collective::kAllGather: return "all_gather";
    case Collective::kAllToAll: return "all_to_all";
    case Collective::kDispatchRows: return "dispatch_rows";
    case Collective::kCombineRows: return "combine_rows";
    case Collective::kPairMax: return "pair_max";
  }
  return "unknown";
}

std::span<const Method<ReduceArgs>* const> AllReduceMethods() {
  static constexpr std::array kMethods{&kAllReduceDirect, &kAllReduceTwoShot, &kAllReduceHalving};
  return kMethods;
}

std::span<const Method<ReduceArgs>* const> ReduceScatterMethods() {
  static constexpr std::array kMethods{&kReduceScatterDirect, &kReduceScatterHalving};
  return kMethods;
}

std::span<const Method<MoveArgs>* const> AllGatherMethods() {
  static constexpr std::array kMethods{&kAllGatherDirect};
  return kMethods;
}

std::span<const Method<MoveArgs>* const> AllToAllMethods() {
  static constexpr std::array kMethods{&kAllToAllDirect};
  return kMethods;
}

std::span<const Method<DispatchRowsArgs>* const> DispatchRowsMethods() {
  static constexpr std::array kMethods{&kDispatchRowsDirect};
  return kMethods;
}

std::span<const Method<CombineRowsArgs>* const> CombineRowsMethods() {
  static constexpr std::array kMethods{&kCombineRowsDirect};
  return kMethods;
}

std::span<const Method<PairMaxArgs>* const> PairMaxMethods() {
  static constexpr std::array kMethods{&kPairMaxDirect};
  return kMethods;
}

}  // namespace weft::comm
