// The graphs of the model files: what each says as text, and what a checkpoint must have for it.
// Covers src/models/llama.cc src/models/qwen2.cc src/models/qwen3.cc src/models/qwen3_moe.cc src/models/qwen3_next.cc src/models/qwen3_5.cc
#include "models/decoder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "graph/verify.h"
#include "support/golden_text.h"
#include "support/model_graphs.h"
#include "support/tiny_folders.h"

namespace weft::models {
namespace {

using graph::Op;
using support::DecoderSpec;
using support::NamesOf;
using support::SparseCheckpoint;
using support::TensorSpec;

// What each family is in our files, with everything on that it may have.
std::vector<DecoderSpec> Families() {
  return {{.architecture = "LlamaForCausalLM",
           .tied = false,
           .attention_bias = true,
           .output_bias = true,
           .mlp_bias = true},
          {.architecture = "LlamaForCausalLM"},
          {.architecture = "MistralForCausalLM"},
          {.architecture = "Qwen2ForCausalLM", .attention_bias = true},
          {.architecture = "Qwen3ForCausalLM",
           .tied = false,
           .attention_bias = true,
           .output_bias = true,
           .qk_norm = true},
          {.architecture = "Qwen3ForCausalLM", .qk_norm = true}};
}

std::vector<std::string> TinyModels() {
  std::vector<std::string> names;
  for (const std::string& folder : support::TinyFolders()) {
    const std::string name = std::filesystem::path(folder).filename();
    if (FindModel(support::OpenTiny(name)->config()).ok()) names.push_back(name);
  }
  return names;
}

void Replace(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

// The lines of a body's text that are of one layer, called as if it were the first.
std::string LayerText(const std::string& text, int layer) {
  const std::string name = fmt::format("L{:02}", layer), next = fmt::format("@L{:02}", layer + 1);
  const std::string file = fmt::format("layers.{}.", layer);
  const std::string states[] = {"kv.", "conv.", "gdn."};
  std::string out;
  for (const std::string& line : support::LinesOf(text)) {
    const auto has = [&](const std::string& what) { return line.find(what) != std::string::npos; };
    if (has(next) || line.starts_with("return")) continue;
    bool mine = has(name) || has(file);
    for (const std::string& state : states) mine = mine || has(" " + state + std::to_string(layer));
    if (mine) out += line + "\n";
  }
  if (layer > 0) Replace(&out, fmt::format("L{:02}.mlp_residual", layer - 1), "embed.embedding");
  Replace(&out, name, "L00");
  Replace(&out, file, "layers.0.");
  for (const std::string& state : states) {
    for (const char* before : {" ", "("})
      Replace(&out, before + state + std::to_string(layer), before + state + "0");
  }
  // The table that is followed is a number among those of all layers.
  for (size_t at = 0; (at = out.find("follows ", at)) != std::string::npos; ++at)
    out.erase(at + 8, out.find(' ', at + 8) - at - 8);
  return out;
}

// What decides which blocks a layer has.
std::pair<io::LayerKind, bool> KindOfLayer(const io::ModelConfig& config, int layer) {
  return {config.KindOf(layer), config.IsMoe(layer)};
}

// The lines of no layer.
std::string FrontText(const std::string& text) {
  std::string out;
  for (const std::string& line : support::LinesOf(text)) {
    bool front = true;
    for (const char* layers : {"L", "layers.", " kv.", " conv.", " gdn."})
      front = front && line.find(layers) == std::string::npos;
    if (front) out += line + "\n";
  }
  return out;
}

TEST(Graphs, OfTheTinyModelsAreTheOnesUnderReview) {
  for (const std::string& name : TinyModels()) {
    const std::unique_ptr<io::Checkpoint> checkpoint = support::OpenTiny(name);
    const std::string body = Print(support::BodyOf(*checkpoint));
    const io::ModelConfig& config = checkpoint->config();
    std::map<std::pair<io::LayerKind, bool>, int> first;  // of each kind
    std::string layers;
    for (int layer = 0; layer < config.layers; ++layer) {
      const auto [alike, is_first] = first.try_emplace(KindOfLayer(config, layer), layer);
      if (is_first) layers += LayerText(body, layer);
      EXPECT_TRUE(LayerText(body, layer) == LayerText(body, alike->second))
          << name << ": layers " << alike->second << " and " << layer << " are alike";
    }
    std::string drafts;
    for (const graph::Graph& draft : support::DraftsOf(*checkpoint)) drafts += Print(draft);
    if (!drafts.empty()) drafts += Print(support::HeadOf(*checkpoint, {.normed = true}));
    support::ExpectGolden(
        fmt::format("models/graphs/{}.txt", name),
        FrontText(body) + layers + Print(support::HeadOf(*checkpoint)) +
            Print(support::HeadOf(*checkpoint, {.sample = true, .hash_logits = true})) + drafts);
  }
}

TEST(Graphs, OfDraftHeadsAreLawfulAndDifferInWhatTheyRead) {
  int heads = 0;
  for (const std::string& name : TinyModels()) {
    const std::unique_ptr<io::Checkpoint> checkpoint = support::OpenTiny(name);
    const std::vector<graph::Graph> drafts = support::DraftsOf(*checkpoint);
    if (drafts.empty()) continue;
    ++heads;
    for (const graph::Graph& draft : drafts)
      EXPECT_TRUE(Verify(draft).ok()) << Verify(draft).message();
    // Behind the body the model's last norm comes first.
    EXPECT_EQ(drafts[0].nodes.size(), drafts[1].nodes.size() + 1);
    EXPECT_EQ(support::BodyOf(*checkpoint).model, checkpoint->config().family + ".body");
  }
  EXPECT_EQ(heads, 2);
}

TEST(Graphs, AreLawfulInWordsOfIntention) {
  for (const DecoderSpec& spec : Families()) {
    const SparseCheckpoint checkpoint = support::OpenSparse(spec);
    const graph::Graph body = support::BodyOf(*checkpoint);
    EXPECT_TRUE(Verify(body).ok()) << Verify(body).message();
    for (const graph::Node& node : body.nodes) {
      EXPECT_NE(node.op, Op::kMatmul) << "a model says what it wants, not how";
      EXPECT_FALSE(IsExchange(node.op)) << "and knows no ranks";
    }
    for (const bool sample : {false, true}) {
      for (const bool hash : {false, true}) {
        const graph::Graph head = support::HeadOf(*checkpoint, {sample, hash});
        EXPECT_TRUE(Verify(head).ok()) << Verify(head).message();
        EXPECT_EQ(head.outputs.size(), hash ? 2u : 1u);
        const Op last = head.nodes[head.ProducerOf(head.outputs[0])].op;
        EXPECT_EQ(last, sample ? Op::kSample : Op::kArgmax);
      }
    }
  }
}

TEST(Graphs, ComputeInTheModelDtypeAndGiveFloat32Logits) {
  const SparseCheckpoint checkpoint = support::OpenSparse(DecoderSpec{});
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const graph::Graph g = support::BodyOf(*checkpoint, {.model_dtype = dtype});
    for (const graph::Value& v : g.values) {
      if (v.kind == graph::ValueKind::kTemp || v.kind == graph::ValueKind::kState) {
        EXPECT_EQ(v.dtype, dtype) << v.name;
      }
      if (v.kind == graph::ValueKind::kParam && v.dims.size() == 2) {
        EXPECT_EQ(v.dtype, DType::kBF16) << v.name;
      }
      if (v.kind == graph::ValueKind::kParam && v.dims.size() == 1) {
        EXPECT_EQ(v.dtype, DType::kF32) << v.name;
      }
    }
  }
  const graph::Graph head = support::HeadOf(*checkpoint);
  for (const graph::Node& node : head.nodes) {
    if (node.op == Op::kLmHead) {
      EXPECT_EQ(head.value(node.out[0]).dtype, DType::kF32);
    }
  }
}

TEST(Graphs, TiedWeightsExistOnce) {
  for (const bool tied : {true, false}) {
    DecoderSpec spec;
    spec.tied = tied;
    const SparseCheckpoint checkpoint = support::OpenSparse(spec);
    std::vector<std::string> tables;
    for (const graph::Graph& g : {support::BodyOf(*checkpoint), support::HeadOf(*checkpoint)}) {
      for (const graph::Value& v : g.values) {
        const bool whole = v.kind == graph::ValueKind::kParam && v.dims[0].n == spec.vocab;
        if (!whole) continue;
        tables.push_back(v.name);
        EXPECT_EQ(g.tables[v.dims[0].table].leaves, LeafTable::Make(spec.vocab, 32));
      }
    }
    // One name is one tensor: embedding and head read the same panels.
    const std::string embed = "model.embed_tokens.weight";
    EXPECT_EQ(tables, (std::vector<std::string>{embed, tied ? embed : "lm_head.weight"}));
  }
}

TEST(Graphs, OfAFamilyHaveItsTraitsWhateverTheFileSays) {
  struct Trait {
    const char* architecture;
    bool qkv_bias, head_norms;
  };
  for (const Trait& t :
       {Trait{"LlamaForCausalLM", false, false}, Trait{"Qwen2ForCausalLM", true, false},
        Trait{"Qwen3ForCausalLM", false, true}}) {
    DecoderSpec spec{
        .architecture = t.architecture, .attention_bias = t.qkv_bias, .qk_norm = t.head_norms};
    if (std::string_view(t.architecture) == "Qwen2ForCausalLM") {
      // Its config.json has no key for the biases that it has always had.
      std::string config = spec.Config();
      Replace(&config, R"("attention_bias": true, )", "");
      EXPECT_EQ(support::Refusal(*support::OpenSparse(config, spec.Tensors())), "");
    }
    const SparseCheckpoint checkpoint = support::OpenSparse(spec);
    EXPECT_EQ(support::Refusal(*checkpoint), "");
    const graph::Graph g = support::BodyOf(*checkpoint);
    EXPECT_EQ(support::NodesOf(g, Op::kRmsNorm, "L00.attn").size(), t.head_norms ? 2u : 0u);
    // The other families' tensors are strangers here.
    for (const char* name : {"q_proj.bias", "q_norm.weight"}) {
      const std::string tensor = std::string("model.layers.0.self_attn.") + name;
      std::vector<TensorSpec> tensors = spec.Tensors();
      const bool known = std::any_of(tensors.begin(), tensors.end(),
                                     [&](const TensorSpec& s) { return s.name == tensor; });
      EXPECT_EQ(known, std::string(name) == "q_proj.bias" ? t.qkv_bias : t.head_norms);
      if (known) continue;
      tensors.push_back({tensor, DType::kBF16, {16}});
      EXPECT_NE(support::Refusal(*support::OpenSparse(spec.Config(), tensors))
                    .find("'" + tensor + "' [16] is no part of a "),
                std::string::npos);
    }
  }
}

TEST(Graphs, NeedEveryTensorOfTheirFamilyInItsShape) {
  int tried = 0;
  for (const DecoderSpec& spec : Families()) {
    const std::vector<TensorSpec> whole = spec.Tensors();
    EXPECT_EQ(support::Refusal(*support::OpenSparse(spec.Config(), whole)), "");
    for (size_t i = 0; i < whole.size(); ++i) {
      std::vector<TensorSpec> tensors = whole;
      tensors.erase(tensors.begin() + static_cast<long>(i));
      const SparseCheckpoint without = support::OpenSparse(spec.Config(), tensors);
      EXPECT_EQ(support::Refusal(*without),
                fmt::format("{}: tensor '{}' is missing", without.folder->path(), whole[i].name));
      tensors = whole;
      tensors[i].shape.back() += 32;
      const SparseCheckpoint wrong = support::OpenSparse(spec.Config(), tensors);
      EXPECT_EQ(support::Refusal(*wrong),
                fmt::format("{}: tensor '{}' has shape [{}], [{}] expected", wrong.folder->path(),
                            whole[i].name, fmt::join(tensors[i].shape, ", "),
                            fmt::join(whole[i].shape, ", ")));
      ++tried;
    }
  }
  EXPECT_GT(tried, 100);
}

}  // namespace
}  // namespace weft::models
