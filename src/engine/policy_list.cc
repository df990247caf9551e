#include <array>

#include "engine/scheduler/policy.h"

namespace weft::engine {
namespace {

constexpr std::array<const Policy*, 2> kPolicies{&kFcfs, &kPriority};

}  // namespace

const Policy* FindPolicy(std::string_view name) {
  for (const Policy* policy : kPolicies) {
    if (policy->name == name) return policy;
  }
  return nullptr;
}

std::string PolicyNames() {
  std::string names;
  for (const Policy* policy : kPolicies) {
    if (!names.empty()) names += ", ";
    names += policy->name;
  }
  return names;
}

}  // namespace weft::engine
