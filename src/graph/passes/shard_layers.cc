// shard_layers: the projection behind attention of layer l lives on one rank of those that share
// it, read in place or fetched ahead, so that FlashComm2's regrouping does not keep it once per odp
// member. Where ranks share memory there is nothing to save: weights are packed once, per leaf, and
// a rank that computes with more leaves than it owns reads them where they are (numerics 4). So the
// pass refuses; it is for ranks that are processes with memory of their own.
#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.of("shard_layers") != Switch::kOn) return "layer_sharding is not asked for";
  return "ranks share memory: every weight exists once already, and is read in place";
}

int Run(Graph&, const PassContext&) { return 0; }

}  // namespace

extern const Pass kShardLayers;
const Pass kShardLayers{"shard_layers", Numerics::kExact,
                        "regrouped weights of a layer live on one rank", Refuse, Run};

}  // namespace weft::graph
