// Every name of simd/avx512.h as a function over memory. Two files include this: in one the names
// are the instructions, in the other their emulation, and the test compares the two tables.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/simd/avx512.h"
#include "kernels/simd/math.h"

namespace weft::kernels::testing {

struct OperationInput {
  alignas(64) std::byte a[64];
  std::byte b[64];
  std::byte c[64];
  uint16_t mask;
};

struct Operation {
  const char* name;
  bool floats;  // the result is 16 floats, of which a NaN may have any payload
  void (*run)(const OperationInput& in, std::byte* out);  // out: 64 bytes, zeros before
};

extern const std::span<const Operation> kNativeOperations;

namespace {

using V = v512::F16x;

WEFT_INLINE const float* FloatsAt(const std::byte* p) { return reinterpret_cast<const float*>(p); }
WEFT_INLINE float* FloatsAt(std::byte* p) { return reinterpret_cast<float*>(p); }

WEFT_INLINE void Put(std::byte* out, v512::Words x) { v512::StoreWords(out, x); }
WEFT_INLINE void Put(std::byte* out, v512::Floats x) { v512::StoreFloats(FloatsAt(out), x); }
WEFT_INLINE void Put(std::byte* out, V x) { x.Store(FloatsAt(out)); }
WEFT_INLINE void Put(std::byte* out, F8 x) { x.Store(FloatsAt(out)); }

struct Loaded {
  v512::Words a, b, c;
  v512::Floats x, y, z;
  V p, q, r;
  v512::Shorts s;
  v512::Mask m;
};

WEFT_INLINE Loaded Load(const OperationInput& in) {
  Loaded l;
  l.a = v512::LoadWords(in.a);
  l.b = v512::LoadWords(in.b);
  l.c = v512::LoadWords(in.c);
  l.x = v512::LoadFloats(FloatsAt(in.a));
  l.y = v512::LoadFloats(FloatsAt(in.b));
  l.z = v512::LoadFloats(FloatsAt(in.c));
  l.p = V::Load(FloatsAt(in.a));
  l.q = V::Load(FloatsAt(in.b));
  l.r = V::Load(FloatsAt(in.c));
  l.s = v512::LoadShorts(in.a);
  l.m = static_cast<v512::Mask>(in.mask);
  return l;
}

#define WEFT_OPERATION(name, floats, expression)                 \
  {                                                              \
    name, floats, [](const OperationInput& in, std::byte* out) { \
      [[maybe_unused]] const Loaded l = Load(in);                \
      Put(out, expression);                                      \
    }                                                            \
  }
#define WEFT_STORE(name, floats, statement)                      \
  {                                                              \
    name, floats, [](const OperationInput& in, std::byte* out) { \
      [[maybe_unused]] const Loaded l = Load(in);                \
      statement;                                                 \
    }                                                            \
  }

constexpr Operation kOperations[] = {
    WEFT_OPERATION("ZeroFloats", true, v512::ZeroFloats()),
    WEFT_OPERATION("ZeroWords", false, v512::ZeroWords()),
    WEFT_OPERATION("LoadFloats", false, l.x),
    WEFT_OPERATION("BroadcastFloat", false, v512::BroadcastFloat(in.a + 4)),
    WEFT_OPERATION("LoadWords", false, l.a),
    WEFT_OPERATION("BroadcastWord", false, v512::BroadcastWord(in.a + 4)),
    WEFT_OPERATION("SetBytes", false, v512::SetBytes(static_cast<int>(in.a[5]))),
    WEFT_OPERATION("SetWords", false, v512::SetWords(-7)),
    WEFT_OPERATION("And", false, v512::And(l.a, l.b)),
    WEFT_OPERATION("Or", false, v512::Or(l.a, l.b)),
    WEFT_OPERATION("Xor", false, v512::Xor(l.a, l.b)),
    WEFT_OPERATION("ShiftLeft 4", false, v512::ShiftLeft(l.a, 4)),
    WEFT_OPERATION("ShiftLeft 16", false, v512::ShiftLeft(l.a, 16)),
    WEFT_OPERATION("ShiftRight 4", false, v512::ShiftRight(l.a, 4)),
    WEFT_OPERATION("ShiftRight 16", false, v512::ShiftRight(l.a, 16)),
    WEFT_OPERATION("Subtract", false, v512::Subtract(l.a, l.b)),
    WEFT_OPERATION("SubtractBytes", false, v512::SubtractBytes(l.a, l.b)),
    WEFT_OPERATION("Add words", false, v512::Add(l.a, l.b)),
    WEFT_OPERATION("ToWords", false, v512::ToWords(l.x)),
    WEFT_OPERATION("JoinHalves", false, v512::JoinHalves(l.a, l.b)),
    WEFT_STORE("StoreBytesOfHalves", false, v512::StoreBytesOfHalves(out, l.a)),
    WEFT_STORE("StoreBytes", false, v512::StoreBytes(out, l.a)),
    WEFT_OPERATION("ToFloats", true, v512::ToFloats(l.a)),
    WEFT_OPERATION("FloatBits", false, v512::FloatBits(l.x)),
    WEFT_OPERATION("BitsToFloats", false, v512::BitsToFloats(l.a)),
    WEFT_OPERATION("Largest", false,
                   V::Set(v512::Largest(V::IfNaN(l.p, V::Zero(), l.p).v)) + V::Zero()),
    WEFT_OPERATION("Add floats", true, v512::Add(l.x, l.y)),
    WEFT_OPERATION("Multiply", true, v512::Multiply(l.x, l.y)),
    WEFT_OPERATION("Fma", true, v512::Fma(l.x, l.y, l.z)),
    WEFT_OPERATION("LowHalf", false, v512::LowHalf(l.x)),
    WEFT_OPERATION("HighHalf", false, v512::HighHalf(l.x)),
    WEFT_OPERATION("FirstLanes", false, v512::SetWords(FirstLanes(in.mask % 32 - 8))),
    WEFT_OPERATION("Select floats", false, v512::Select(l.m, l.x, l.y)),
    WEFT_OPERATION("LoadFloats masked", false, v512::LoadFloats(l.m, FloatsAt(in.b))),
    WEFT_OPERATION("LoadWords masked", false, v512::LoadWords(l.m, in.b)),
    WEFT_STORE("StoreFloats masked", false, v512::StoreFloats(l.m, FloatsAt(out), l.x)),
    WEFT_STORE("LoadShorts", false, v512::StoreShorts(out, v512::LoadShorts(in.b + 2))),
    WEFT_STORE("LoadShorts masked", false, v512::StoreShorts(out, v512::LoadShorts(l.m, in.b))),
    WEFT_STORE("StoreShorts masked", false, v512::StoreShorts(l.m, out, l.s)),
    WEFT_OPERATION("Widen", false, v512::Widen(l.s)),
    WEFT_OPERATION("LoadHalves", true, v512::LoadHalves(in.a)),
    WEFT_OPERATION("LoadUnsignedBytes", false, v512::LoadUnsignedBytes(in.a)),
    WEFT_OPERATION("LoadSignedBytes", false, v512::LoadSignedBytes(in.a)),
    // Far from the ends of int32: the emulation may be built to stop at an overflow.
    WEFT_OPERATION("DotInt8", false, v512::DotInt8(v512::ShiftRight(l.a, 4), l.b, l.c)),
    WEFT_OPERATION("DotBf16", true, v512::DotBf16(l.x, l.b, l.c)),
    WEFT_STORE("RoundToBf16", false, v512::StoreShorts(out, v512::RoundToBf16(l.x))),
    WEFT_STORE("Store16 masked", false, Store16(l.m, reinterpret_cast<Bf16*>(out), l.p)),
    WEFT_OPERATION("Load16", false, Load16(reinterpret_cast<const Bf16*>(in.a))),
    WEFT_OPERATION("Load16 masked", false, Load16(l.m, reinterpret_cast<const Bf16*>(in.a))),
    WEFT_OPERATION("F16x +", true, l.p + l.q),
    WEFT_OPERATION("F16x -", true, l.p - l.q),
    WEFT_OPERATION("F16x *", true, l.p* l.q),
    WEFT_OPERATION("F16x /", true, l.p / l.q),
    WEFT_OPERATION("F16x Fma", true, V::Fma(l.p, l.q, l.r)),
    // As above: a denormal may leave a maximum as itself (a comparison and a move) or as zero
    // (vmaxps), and the addition after it reads zero in either case.
    WEFT_OPERATION("F16x Max", true, V::Max(l.p, l.q) + V::Zero()),
    WEFT_OPERATION("F16x AddExponent", true, V::AddExponent(l.p, l.q)),
    WEFT_OPERATION("F16x IfLess", true, V::IfLess(l.p, l.q, l.r, l.p)),
    WEFT_OPERATION("F16x IfNaN", true, V::IfNaN(l.p, l.q, l.r)),
    WEFT_OPERATION("F16x Exp", true, Exp(l.p)),
    WEFT_OPERATION("F16x Silu", true, Silu(l.p)),
    WEFT_OPERATION("F16x Sigmoid", true, Sigmoid(l.p)),
};

#undef WEFT_OPERATION
#undef WEFT_STORE

}  // namespace
}  // namespace weft::kernels::testing
