// Copying parts: what all-gather and all-to-all have in common. Internal to comm.
// Unit: up to kMoveBlock bytes of one row of one part.
#pragma once

#include <string>

#include "comm/method.h"

namespace weft::comm {

inline constexpr int64_t kMoveBlock = 4096;

std::string RefuseMove(const MoveArgs& a);
int MovePhases(const MoveArgs& a);
int64_t MoveUnits(const MoveArgs& a, int phase);
int64_t MoveBytes(const MoveArgs& a);
void ReadParts(const MoveArgs& a, int phase, ReadVisit visit);
int64_t RunMove(const MoveArgs& a, int phase, Slice units);

}  // namespace weft::comm
