#include "text/jinja/value.h"

namespace weft::text::jinja {
namespace {

constexpr size_t kIndexFrom = 16;

}  // namespace

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none", "boolean", "integer", "number",
                                         "string",    "list", "mapping", "loop",    "function"};
  return kNames[value_.index()];
}

bool Value::Truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_double()) return as_double() != 0;
  if (is_string()) return !as_string().empty();
  if (is_list()) return !as_list().items.empty();
  if (is_dict()) return as_dict().is_namespace || !as_dict().members.empty();
  return true;
}

const Value* Dict::Find(std::string_view key) const {
  if (members.size() > kIndexFrom) {
    const auto found = index_.find(std::string(key));
    return found == index_.end() ? nullptr : &members[found->second].second;
  }
  for (const Member& member : members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

void Dict::Set(std::string_view key, Value value) {
  if (const Value* found = Find(key)) {
    *const_cast<Value*>(found) = std::move(value);
    return;
  }
  members.emplace_back(key, std::move(value));
  if (members.size() == kIndexFrom + 1) {
    for (size_t i = 0; i < members.size(); ++i) index_.emplace(members[i].first, i);
  } else if (members.size() > kIndexFrom + 1) {
    index_.emplace(key, members.size() - 1);
  }
}

bool Dict::Erase(std::string_view key) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].first != key) continue;
    members.erase(members.begin() + static_cast<ptrdiff_t>(i));
    index_.clear();
    if (members.size() > kIndexFrom) {
      for (size_t j = 0; j < members.size(); ++j) index_.emplace(members[j].first, j);
    }
    return true;
  }
  return false;
}

Result<Value> FromJson(const Json& json, Heap& heap, int depth_max) {
  if (depth_max < 0) return Status::Invalid("the values for the template are nested too deeply");
  if (json.is_null()) return Value(None{});
  if (json.is_bool()) return Value(json.as_bool());
  if (json.is_int()) return Value(json.as_int());
  if (json.is_double()) return Value(json.as_double());
  if (json.is_string()) return Value(json.as_string());
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.as_array().size());
    for (const Json& item : json.as_array()) {
      WEFT_ASSIGN_OR_RETURN(Value value, FromJson(item, heap, depth_max - 1));
      items.push_back(std::move(value));
    }
    return Value(heap.NewList(std::move(items)));
  }
  Dict* dict = heap.NewDict();
  for (const auto& [key, member] : json.as_object()) {
    WEFT_ASSIGN_OR_RETURN(Value value, FromJson(member, heap, depth_max - 1));
    dict->Set(key, std::move(value));
  }
  return Value(dict);
}

}  // namespace weft::text::jinja
