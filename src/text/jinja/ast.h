// The syntax tree of a template.  Chains (a + b - c, a.b[0](x)|f) are one node with a list and not
// a tree as deep as they are long, so that the depth of the tree is the depth of the brackets.
// Thread: immutable after the parser.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace weft::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Argument {
  std::string name;  // "": by position
  ExprPtr value;
};

// One step after a primary expression.
struct Postfix {
  enum class Kind { kAttribute, kItem, kSlice, kCall, kFilter, kTest } kind;
  std::string name;            // of the attribute, filter or test
  bool negated = false;        // "is not"
  std::vector<Argument> args;  // of a call, filter or test
  ExprPtr item;                // of kItem
  ExprPtr start, stop, step;   // of kSlice, each may be null
};

enum class Op {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcat,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr {
  enum class Kind {
    kConstant,
    kName,
    kList,
    kTuple,
    kDict,  // parts: key, value, key, value, ..
    kNot,
    kNegate,
    kPlus,
    kArithmetic,  // parts[0] ops[0] parts[1] ops[1] ..
    kCompare,     // the same; each pair must hold
    kAnd,
    kOr,
    kConditional,  // parts: value, condition[, otherwise]
    kPostfix,      // parts[0] and steps
  } kind;
  int line = 0;
  Value constant;
  std::string name;
  size_t name_id = 0;
  std::vector<ExprPtr> parts;
  std::vector<Op> ops;
  std::vector<Postfix> steps;
};

struct Stmt;
using Block = std::vector<Stmt>;

// What "set", "for" and "with" give values to.
struct Target {
  std::vector<size_t> name_ids;  // more than one: unpacks
  std::string attribute;         // of a namespace; then there is one name
};

struct MacroNode {
  std::string name;
  std::vector<std::pair<size_t, ExprPtr>> parameters;  // name and default or null
  std::vector<std::string> parameter_names;
  Block body;
};

struct Stmt {
  enum class Kind {
    kText,
    kPrint,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kWith,
    kFilter,
    kMacro,
    kScope,
    kBreak,
    kContinue
  } kind;
  int line = 0;
  std::string text;
  ExprPtr expr;                                     // printed, iterated or assigned
  std::vector<std::pair<ExprPtr, Block>> branches;  // of kIf: condition and what it guards
  ExprPtr condition;                                // "if" of kFor
  Target target;
  std::vector<std::pair<Target, ExprPtr>> bindings;  // of kWith
  std::vector<Postfix> filters;                      // of kFilter and kSetBlock
  std::shared_ptr<MacroNode> macro;
  size_t name_id = 0;  // of kMacro
  Block body;
  Block otherwise;  // "else" of kIf and kFor
};

inline constexpr size_t kLoopName = 0;  // name_id of "loop"

struct Template {
  Block body;
  std::vector<std::string> names;  // by name_id
};

}  // namespace weft::text::jinja
