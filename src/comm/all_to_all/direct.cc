// All-to-all: every member copies what is meant for it from its peers' windows.
#include "comm/move_parts.h"

namespace weft::comm {

extern const Method<MoveArgs> kAllToAllDirect;
const Method<MoveArgs> kAllToAllDirect{.name = "direct",
                                       .kind = Collective::kAllToAll,
                                       .refuse = RefuseMove,
                                       .phases = MovePhases,
                                       .units = MoveUnits,
                                       .bytes = MoveBytes,
                                       .reads = ReadParts,
                                       .run = RunMove};

}  // namespace weft::comm
