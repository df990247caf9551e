// All-gather: every member copies its peers' shards from their windows.
#include "comm/move_parts.h"

namespace weft::comm {

extern const Method<MoveArgs> kAllGatherDirect;
const Method<MoveArgs> kAllGatherDirect{.name = "direct",
                                        .kind = Collective::kAllGather,
                                        .refuse = RefuseMove,
                                        .phases = MovePhases,
                                        .units = MoveUnits,
                                        .bytes = MoveBytes,
                                        .reads = ReadParts,
                                        .run = RunMove};

}  // namespace weft::comm
