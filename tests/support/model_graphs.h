// Graphs of checkpoints, in words of intention.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "models/model.h"
#include "support/sparse_checkpoint.h"

namespace weft::support {

inline const models::Model& ModelOf(const io::Checkpoint& checkpoint) {
  auto model = models::FindModel(checkpoint.config());
  WEFT_CHECK(model.ok(), "{}", model.status().message());
  return **model;
}

// REQUIRES: the model takes the checkpoint.
inline graph::Graph BodyOf(const io::Checkpoint& checkpoint,
                           const models::ModelOptions& options = {}) {
  auto body = ModelOf(checkpoint).build_body(checkpoint, options);
  WEFT_CHECK(body.ok(), "{}", body.status().message());
  return std::move(body).value();
}
inline graph::Graph HeadOf(const io::Checkpoint& checkpoint, const models::HeadOptions& head = {}) {
  auto graph = ModelOf(checkpoint).build_head(checkpoint, {}, head);
  WEFT_CHECK(graph.ok(), "{}", graph.status().message());
  return std::move(graph).value();
}

// The draft head's graphs, behind the body and behind itself; none if there is no head.
inline std::vector<graph::Graph> DraftsOf(const io::Checkpoint& checkpoint) {
  std::vector<graph::Graph> drafts;
  const models::Model& model = ModelOf(checkpoint);
  if (model.build_draft == nullptr || !models::HasDraftHead(checkpoint)) return drafts;
  for (const models::DraftInput from : {models::DraftInput::kBody, models::DraftInput::kDraft}) {
    auto graph = model.build_draft(checkpoint, {}, from);
    WEFT_CHECK(graph.ok(), "{}", graph.status().message());
    drafts.push_back(std::move(graph).value());
  }
  return drafts;
}

// Why a model does not take a checkpoint: what its graphs miss, then what they do not read; "" if
// it takes it.
inline std::string Refusal(const io::Checkpoint& checkpoint) {
  const models::Model& model = ModelOf(checkpoint);
  auto body = model.build_body(checkpoint, {});
  if (!body.ok()) return std::string(body.status().message());
  auto head = model.build_head(checkpoint, {}, {});
  if (!head.ok()) return std::string(head.status().message());
  const graph::Graph* read[] = {&*body, &*head};
  return std::string(models::CheckAllUsed(checkpoint, read).message());
}

// The names of a node's inputs or outputs.
inline std::vector<std::string> NamesOf(const graph::Graph& g,
                                        const std::vector<graph::ValueId>& ids) {
  std::vector<std::string> names;
  for (const graph::ValueId id : ids) names.push_back(g.value(id).name);
  return names;
}

// The nodes of a layer that are of one op.
inline std::vector<const graph::Node*> NodesOf(const graph::Graph& g, graph::Op op,
                                               std::string_view layer) {
  std::vector<const graph::Node*> nodes;
  for (const graph::Node& node : g.nodes) {
    if (node.op == op && node.layer == layer) nodes.push_back(&node);
  }
  return nodes;
}

}  // namespace weft::support
