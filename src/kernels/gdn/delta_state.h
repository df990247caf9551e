// Where the recurrent states of the gated delta rule are, shared by the kernels and by whoever
// holds the pool: one slot per sequence, in floats.
//
//   states  [value heads][ceil(Dv / 16)][Dk][16]   S[i][j] of a head, by tiles of 16 columns j
//   log     [log_max][value heads] records of      gamma, then 15 floats that nobody touches;
//                                                  k [Dk rounded up to 16], e [Dv rounded up to 16]
//
// Columns beyond Dv are computed as columns with v = 0: they are +0 and stay it. What a record
// holds beyond Dk is never touched. Every value head logs its own copy of k, though several may
// share a key head: it reads the old one and writes the new one in the same step as the others do.
// A slot and the pool's base are 64-byte aligned (a slot is a multiple of 16 floats).
#pragma once

#include <cstdint>

namespace weft::kernels {

inline constexpr int kDeltaTile = 16;

struct DeltaStateLayout {
  int value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int log_max = 0;

  static int64_t Padded(int64_t n) { return (n + kDeltaTile - 1) / kDeltaTile * kDeltaTile; }

  int tiles() const { return static_cast<int>(Padded(value_dim) / kDeltaTile); }
  int64_t tile_floats() const { return int64_t{key_dim} * kDeltaTile; }
  int64_t head_floats() const { return tiles() * tile_floats(); }
  int64_t state_floats() const { return value_heads * head_floats(); }
  int64_t record_floats() const { return kDeltaTile + Padded(key_dim) + Padded(value_dim); }
  int64_t slot_floats() const { return state_floats() + log_max * value_heads * record_floats(); }

  // From a slot's beginning.
  int64_t head_offset(int head) const { return head * head_floats(); }
  int64_t element_offset(int head, int i, int j) const {
    return head_offset(head) + j / kDeltaTile * tile_floats() + i * kDeltaTile + j % kDeltaTile;
  }
  int64_t record_offset(int row, int head) const {
    return state_floats() + (int64_t{row} * value_heads + head) * record_floats();
  }
  // From a record's beginning.
  static constexpr int64_t gamma_offset() { return 0; }
  static constexpr int64_t key_offset() { return kDeltaTile; }
  int64_t error_offset() const { return kDeltaTile + Padded(key_dim); }
};

}  // namespace weft::kernels
