// Each law of a plan refuses what breaks it, and nothing else.
#include "plan/verify.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

int StepOf(const Plan& plan, Op op) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.graph.nodes[plan.steps[s].node].op == op) return static_cast<int>(s);
  }
  WEFT_CHECK(false, "no {}", NameOf(op));
}

Step& LastThatWaits(Plan& plan, Wait kind) {
  for (size_t s = plan.steps.size(); s-- > 0;) {
    if (plan.steps[s].wait == kind) return plan.steps[s];
  }
  WEFT_CHECK(false, "nothing waits");
}

struct WrongPlan {
  Law law;
  const char* what;
  int ranks, workers;
  void (*apply)(Plan&);
  const char* names;  // what the message must say
  bool recurrent = false;
};

const WrongPlan kWrongPlans[] = {
    {Law::kOrder, "two steps run each other's nodes", 1, 1,
     [](Plan& p) { std::swap(p.steps[1].node, p.steps[2].node); }, "P1: step 1 "},
    {Law::kOrder, "heads that no attention has", 1, 2,
     [](Plan& p) {
       for (Step& step : p.steps) {
         if (step.split == Split::kHeads) step.heads_of = 1;
       }
     },
     "no attention's"},
    {Law::kWaits, "a product by heads", 1, 2,
     [](Plan& p) {
       Step& step = p.steps[StepOf(p, Op::kMatmul)];
       step.split = Split::kHeads;
       step.heads_of = StepOf(p, Op::kAttention);
     },
     "reaches over"},
    {Law::kWaits, "heads of another layer", 1, 2,
     [](Plan& p) {
       for (Step& step : p.steps) {
         if (step.heads_of > StepOf(p, Op::kAttention)) step.heads_of = StepOf(p, Op::kAttention);
       }
     },
     "L01.attn: value 'L01.attn.q_rope': it reaches over"},
    {Law::kWaits, "workers run into each other", 1, 2,
     [](Plan& p) { LastThatWaits(p, Wait::kRank).wait = Wait::kNone; }, "the other workers' parts"},
    {Law::kWaits, "an exchange waits for its own rank", 2, 2,
     [](Plan& p) { LastThatWaits(p, Wait::kGroup).wait = Wait::kRank; }, "a peer's part"},
    {Law::kMemory, "a product lies on its factor", 1, 1,
     [](Plan& p) {
       const graph::Node& node = p.graph.nodes[StepOf(p, Op::kSiluMul)];
       p.layouts[node.out[0]].offset = p.layouts[node.in[0]].offset;
     },
     "it lies on 'L00.mlp.gate'"},
    {Law::kMemory, "a column takes its neighbour's place", 1, 1,
     [](Plan& p) {
       const graph::Node& qkv = p.graph.nodes[StepOf(p, Op::kMatmul)];
       Layout& v = p.layouts[qkv.out[2]];
       std::swap(v.group[1], v.group[2]);
     },
     "may still be read"},
    {Law::kMemory, "a value is no column of its buffer", 1, 1,
     [](Plan& p) {
       const graph::Node& qkv = p.graph.nodes[StepOf(p, Op::kMatmul)];
       p.layouts[qkv.out[2]].group[2] = qkv.out[1];
     },
     "no column of its own buffer"},
    {Law::kRegions, "every worker does all of it into what all share", 1, 1,
     [](Plan& p) { p.steps[StepOf(p, Op::kAttention)].split = Split::kEach; }, "is its own"},
    {Law::kRegions, "a peer reads what a worker keeps", 2, 1,
     [](Plan& p) {
       const graph::ValueId roots = p.graph.nodes[StepOf(p, Op::kAllReduce)].in[0];
       p.steps[graph::Uses(p.graph).ProducerOf(roots)].split = Split::kEach;
       p.layouts[roots].region = Region::kWorker;
       p.worker_arena_bytes = p.rank_arena_bytes;
     },
     "a peer cannot read it"},
    {Law::kRegions, "the second phase reads what a worker keeps", 2, 1,
     [](Plan& p) {
       Step& step = p.steps[StepOf(p, Op::kAllReduce)];
       step.phases = 2;
       step.split = Split::kEach;
       p.layouts[p.graph.nodes[step.node].out[0]].region = Region::kWorker;
       p.worker_arena_bytes = p.rank_arena_bytes;
     },
     "what one worker keeps"},
    {Law::kBounds, "the arena is too short", 1, 1, [](Plan& p) { p.rank_arena_bytes -= 512; },
     "outside its arena"},
    {Law::kBounds, "a value begins before its arena", 1, 1,
     [](Plan& p) {
       for (Layout& l : p.layouts) {
         if (l.region == Region::kRank && l.offset == 0) l.offset = -64;
       }
     },
     "outside its arena"},
    {Law::kPosts, "nothing is between a post and its wait", 2, 1,
     [](Plan& p) {
       Step& step = LastThatWaits(p, Wait::kGroup);
       step.posted_behind = step.node - 1;
     },
     "nothing of it is under way"},
    {Law::kWaits, "a product by the heads of a recurrence", 1, 2,
     [](Plan& p) {
       Step& step = p.steps[StepOf(p, Op::kMatmul)];
       step.split = Split::kHeads;
       step.heads_of = StepOf(p, Op::kGatedDelta);
     },
     "reaches over", true},
    {Law::kWaits, "a recurrence of keys in turn", 1, 2,
     [](Plan& p) {
       p.graph.nodes[static_cast<size_t>(StepOf(p, Op::kGatedDelta))].Set("tiled", int64_t{1});
     },
     "reaches over", true},
    {Law::kFetches, "weights of a product that is over", 1, 1,
     [](Plan& p) { p.steps.back().fetches = StepOf(p, Op::kMatmul); }, "still to come"},
    {Law::kFetches, "weights of a norm", 1, 1,
     [](Plan& p) { p.steps[0].fetches = StepOf(p, Op::kRmsNorm); }, "no product of weights"},
};

TEST(VerifyPlan, EachLawRefusesItsOwnWrongPlans) {
  std::map<Law, int> refused;
  for (const WrongPlan& wrong : kWrongPlans) {
    const DecoderShape shape =
        wrong.recurrent ? DecoderShape{.key_heads = 4, .value_heads = 8} : DecoderShape{};
    Plan plan =
        Compiled(test::DecoderBody(shape), wrong.ranks, Body(1), PlainTarget(wrong.workers));
    ASSERT_TRUE(VerifyPlan(plan).ok());
    wrong.apply(plan);
    for (Law law : kLaws) {
      const Status status = VerifyLaw(plan, law);
      EXPECT_EQ(status.ok(), law != wrong.law)
          << wrong.what << ": P" << static_cast<int>(law) + 1 << " " << status.message();
    }
    const std::string message(VerifyPlan(plan).message());
    EXPECT_NE(message.find(wrong.names), std::string::npos) << wrong.what << ": " << message;
    ++refused[wrong.law];
  }
  for (Law law : kLaws) EXPECT_GT(refused[law], 0);
}

TEST(VerifyPlan, TakesAnyNumberOfStepsAndLayouts) {
  const Plan lawful = Compiled(test::DecoderBody({}), 1, Body(1), PlainTarget(1));
  Plan plan = lawful;
  plan.steps.pop_back();
  for (Law law : kLaws) EXPECT_FALSE(VerifyLaw(plan, law).ok());
  plan = lawful;
  plan.layouts.pop_back();
  for (Law law : kLaws) EXPECT_FALSE(VerifyLaw(plan, law).ok());
}

struct PlanMutant {
  std::string_view kind;
  // False where this plan has nothing of the kind.
  bool (*apply)(Plan&, Rng&);
};

// A value that has memory.
graph::ValueId AnyLaidOut(const Plan& plan, Rng& rng) {
  std::vector<graph::ValueId> all;
  for (size_t id = 0; id < plan.layouts.size(); ++id) {
    if (plan.layouts[id].region == Region::kRank || plan.layouts[id].region == Region::kWorker)
      all.push_back(static_cast<graph::ValueId>(id));
  }
  return all[rng.Below(all.size())];
}

const PlanMutant kMutants[] = {
    {"drop a wait",
     [](Plan& p, Rng& rng) {
       Step& step = p.steps[rng.Below(p.steps.size())];
       if (step.wait == Wait::kNone) return false;
       step.wait = Wait::kNone;
       return true;
     }},
    {"wait for the rank alone",
     [](Plan& p, Rng& rng) {
       Step& step = p.steps[rng.Below(p.steps.size())];
       if (step.wait != Wait::kGroup) return false;
       step.wait = Wait::kRank;
       return true;
     }},
    {"post too early",
     [](Plan& p, Rng& rng) {
       const size_t s = rng.Below(p.steps.size());
       const auto behind = static_cast<int>(s) - 1 - static_cast<int>(rng.Below(4));
       if (p.steps[s].wait != Wait::kGroup || behind < 0 || p.steps[s].posted_behind == behind)
         return false;
       p.steps[s].posted_behind = behind;
       return true;
     }},
    {"alias a buffer",
     [](Plan& p, Rng& rng) {
       const auto a = AnyLaidOut(p, rng), b = AnyLaidOut(p, rng);
       if (a == b || p.layouts[a].region != p.layouts[b].region ||
           p.layouts[a].offset == p.layouts[b].offset)
         return false;
       p.layouts[a].offset = p.layouts[b].offset;
       return true;
     }},
    {"share what each does",
     [](Plan& p, Rng& rng) {
       Step& step = p.steps[rng.Below(p.steps.size())];
       step.split = step.split == Split::kEach ? Split::kUnits : Split::kEach;
       return true;
     }},
    {"share out by heads",
     [](Plan& p, Rng& rng) {
       Step& step = p.steps[rng.Below(p.steps.size())];
       const int attention = StepOf(p, Op::kAttention);
       if (step.split == Split::kHeads && step.heads_of == attention) return false;
       step.split = Split::kHeads;
       step.heads_of = attention;
       return true;
     }},
    {"another region",
     [](Plan& p, Rng& rng) {
       Layout& l = p.layouts[AnyLaidOut(p, rng)];
       l.region = l.region == Region::kRank ? Region::kWorker : Region::kRank;
       return true;
     }},
    {"another node",
     [](Plan& p, Rng& rng) {
       Step &a = p.steps[rng.Below(p.steps.size())], &b = p.steps[rng.Below(p.steps.size())];
       if (&a == &b) return false;
       std::swap(a.node, b.node);
       return true;
     }},
    {"out of the arena",
     [](Plan& p, Rng& rng) {
       Layout& l = p.layouts[AnyLaidOut(p, rng)];
       l.offset += l.region == Region::kRank ? p.rank_arena_bytes : p.worker_arena_bytes;
       return true;
     }},
    {"drop a step",
     [](Plan& p, Rng& rng) {
       p.steps.erase(p.steps.begin() + static_cast<long>(rng.Below(p.steps.size())));
       return true;
     }},
};

bool SameHands(const Step& a, const Step& b) {
  return a.split == Split::kHeads && b.split == Split::kHeads && a.heads_of == b.heads_of;
}

// Whether a changed plan can go wrong is told by simulating the slowest and the fastest worker: the
// bytes that a step reads must be those that its operand's maker wrote, whoever runs ahead. A wait
// that another wait makes needless, or memory that is free anyway, is an equivalent.
bool CanGoWrong(const Plan& plan) {
  if (plan.steps.size() != plan.graph.nodes.size()) return true;
  const graph::Graph& g = plan.graph;
  const int ranks = g.mesh.ranks(), workers = plan.workers_per_rank;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].node != static_cast<int>(s)) return true;
    // A second post before the first one's wait, or none to wait for, and everybody counts wrongly.
    const int posted = plan.steps[s].posted_behind;
    if (posted < 0) continue;
    if (plan.steps[s].wait != Wait::kGroup) return true;
    for (size_t w = static_cast<size_t>(posted) + 1; w < s; ++w) {
      if (plan.steps[w].wait == Wait::kGroup) return true;
    }
  }
  // Which of all workers (rank-major) step `b` may find anywhere in [low, high] while it runs
  // itself.
  const auto last_rank_wait = [&](size_t at) {
    for (size_t s = at + 1; s-- > 0;) {
      if (plan.steps[s].wait == Wait::kRank) return static_cast<long>(s);
    }
    return -1L;
  };
  const auto last_wait = [&](size_t at,
                             Wait kind) {  // the last wait at or before `at` that binds that far
    for (size_t s = at + 1; s-- > 0;) {
      // What is posted speaks of what came before the post.
      if (plan.steps[s].wait == Wait::kGroup)
        return std::max(plan.steps[s].posted_behind >= 0 ? plan.steps[s].posted_behind + 1L
                                                         : static_cast<long>(s),
                        kind == Wait::kRank ? last_rank_wait(at) : -1L);
      if (kind == Wait::kRank && plan.steps[s].wait == Wait::kRank) return static_cast<long>(s);
    }
    return -1L;
  };
  const auto next_wait = [&](size_t at, Wait kind) {  // the first wait after `at`
    size_t s = at + 1;
    while (s < plan.steps.size() &&
           !(plan.steps[s].wait == Wait::kGroup &&
             (plan.steps[s].posted_behind < 0 ||
              plan.steps[s].posted_behind >= static_cast<int>(at))) &&
           !(kind == Wait::kRank && plan.steps[s].wait == Wait::kRank))
      ++s;
    return static_cast<long>(s);
  };
  std::vector<int> made(g.values.size(), -1);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const auto id : g.nodes[n].out) made[id] = static_cast<int>(n);
  }
  const auto bytes = [&](graph::ValueId id) {
    int64_t most = 0;
    for (int r = 0; r < ranks; ++r) {
      int64_t n = 0;
      for (const auto member : plan.layouts[id].group) {
        const graph::Value& v = g.value(member);
        int64_t one = LocalWidth(g, v, r) * (v.pairs       ? 12
                                             : v.int8_rows ? 1
                                                           : FactsOf(v.dtype).block_bytes);
        if (v.int8_rows) one += LocalWidth(g, v, r) / 32 * 8;
        if (g.nodes[made[member]].Has("roots")) {
          const KLeaves k = LeavesOf(g, g.nodes[made[member]].in[1], r);
          if (k.table != nullptr)
            one *= std::max<int64_t>(
                1, static_cast<int64_t>(MaximalSubtrees(k.table->count(), k.range).size()));
        }
        n += one;
      }
      most = std::max(most, n);
    }
    return most * plan.bucket.rows_max;
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const bool crosses = IsExchange(g.nodes[s].op) && ranks > 1;
    const bool each = plan.steps[s].split == Split::kEach;
    if (plan.steps[s].split == Split::kHeads) {
      // What stands in heads of the attention that it names, and nothing that sums over them.
      const int of = plan.steps[s].heads_of;
      if (of < 0 || of >= static_cast<int>(g.nodes.size()) || g.nodes[of].op != Op::kAttention)
        return true;
      const std::string& layer = g.nodes[of].layer;
      const Op op = g.nodes[s].op;
      if (g.nodes[s].layer != layer) return true;
      if (op != Op::kRope && op != Op::kKvWrite && op != Op::kAttention && op != Op::kRmsNorm)
        return true;
    }
    for (const auto id : g.nodes[s].out) {
      const Layout& l = plan.layouts[id];
      if (l.region != Region::kRank && l.region != Region::kWorker) continue;
      if (l.offset < 0 ||
          l.offset + bytes(id) >
              (l.region == Region::kRank ? plan.rank_arena_bytes : plan.worker_arena_bytes))
        return true;
      // A slice of the work in memory of one worker is lost to the others; all of it in the rank's
      // is written by all at once.
      if (each != (l.region == Region::kWorker)) return true;
    }
    for (const auto id : g.nodes[s].in) {
      if (made[id] < 0) continue;
      const Layout& l = plan.layouts[id];
      if (crosses && id == g.nodes[s].in[0] && l.region == Region::kWorker) return true;
      const bool sliced = plan.steps[made[id]].split != Split::kEach && workers > 1 &&
                          !SameHands(plan.steps[s], plan.steps[made[id]]);
      if (sliced && last_wait(s, Wait::kRank) <= made[id]) return true;
      if (crosses && id == g.nodes[s].in[0] && last_wait(s, Wait::kGroup) <= made[id]) return true;
      // Who may write these bytes between their making and this reading? A worker ahead stands
      // before the next wait; this reader's memory is the rank's (others of the rank write it) or a
      // peer's.
      const long ahead = l.region == Region::kWorker         ? static_cast<long>(s)
                         : crosses && id == g.nodes[s].in[0] ? next_wait(s, Wait::kGroup) - 1
                         : workers > 1                       ? next_wait(s, Wait::kRank) - 1
                                                             : static_cast<long>(s);
      for (long w = made[id]; w <= ahead && w < static_cast<long>(plan.steps.size()); ++w) {
        for (const auto other : g.nodes[w].out) {
          const Layout& m = plan.layouts[other];
          if (other == id || m.region != l.region ||
              (m.region != Region::kRank && m.region != Region::kWorker))
            continue;
          const bool same = m.offset == l.offset;
          const auto holds = [](const Layout& a, graph::ValueId v) {
            return std::count(a.group.begin(), a.group.end(), v) > 0;
          };
          if (same && (holds(m, id) || holds(l, other))) continue;  // another column
          // In place: the step that reads it last, or another column's in-place step, puts its
          // output there.
          const auto in_place = [&](long step) {
            return (g.nodes[step].op == Op::kRope || g.nodes[step].op == Op::kAddRmsNorm) &&
                   g.nodes[step].out[0] == other;
          };
          if (same && in_place(w) &&
              (g.nodes[w].in[0] == id
                   ? w == static_cast<long>(s)
                   : g.nodes[w].op == Op::kRope && g.nodes[made[id]].op == Op::kRope &&
                         m.group.size() == l.group.size()))
            continue;
          if (m.offset < l.offset + bytes(id) && l.offset < m.offset + bytes(other)) return true;
        }
      }
    }
  }
  for (const auto out : g.outputs) {  // read after the last step
    const Layout& l = plan.layouts[out];
    if (l.region != Region::kRank) continue;
    for (size_t w = made[out] + 1; w < plan.steps.size(); ++w) {
      for (const auto other : g.nodes[w].out) {
        const Layout& m = plan.layouts[other];
        if (m.region == l.region && m.offset < l.offset + bytes(out) &&
            l.offset < m.offset + bytes(other))
          return true;
      }
    }
  }
  return false;
}

// A fused step meets in its middle: what peers read inside it is theirs until the next step that
// meets has got so far, and no longer.
TEST(VerifyPlan, KnowsTheMeetingInsideAFusedStep) {
  CompileOptions options;
  options.switches["fuse_matmul_all_reduce_norm"] = graph::Switch::kOn;
  for (const int workers : {1, 3}) {
    const Plan lawful =
        test::Compiled(test::DecoderBody({.layers = 3}), 2, Body(1), PlainTarget(workers), options);
    std::vector<size_t> fused;
    for (size_t s = 0; s < lawful.steps.size(); ++s) {
      if (MeetsInside(lawful.graph.nodes[s])) fused.push_back(s);
    }
    ASSERT_EQ(fused.size(), 5u);
    const auto roots = [&](size_t i) { return lawful.graph.nodes[fused[i]].out.back(); };
    const auto at = [&](size_t i) { return lawful.layouts[roots(i)]; };
    // Two steps' roots are apart, a third's stand where the first's stood.
    EXPECT_NE(at(0).offset, at(1).offset);
    EXPECT_EQ(at(0).region, Region::kRank) << "also where a worker keeps everything else";
    EXPECT_EQ(at(0).offset, at(2).offset);
    Plan overwritten = lawful;
    overwritten.layouts[roots(1)].offset = at(0).offset;
    EXPECT_NE(VerifyPlan(overwritten).message().find("may still be read"), std::string::npos);
    Plan hidden = lawful;
    hidden.layouts[roots(0)].region = Region::kWorker;
    hidden.worker_arena_bytes = std::max(hidden.worker_arena_bytes, hidden.rank_arena_bytes);
    EXPECT_EQ(VerifyLaw(hidden, Law::kRegions).message().substr(0, 2), "P4");
    // The sums of an exchange of two phases are read by peers as well.
    PlainTarget two_phases(workers);
    two_phases.reduce_phases = 2;
    const Plan shared =
        test::Compiled(test::DecoderBody({.layers = 3}), 2, Body(1), two_phases, options);
    EXPECT_EQ(shared.layouts[shared.graph.nodes[fused[0]].out[2]].region, Region::kRank);
    // Nothing waits at the start of a step for what only the middle of the step before has ordered.
    if (workers == 1) continue;
    Plan early = lawful;
    const size_t next = fused[0] + 1;
    ASSERT_EQ(std::count(early.graph.nodes[next].in.begin(), early.graph.nodes[next].in.end(),
                         early.graph.nodes[fused[0]].out[1]),
              1);
    early.steps[fused[0]].split = Split::kUnits;
    early.steps[next].wait = Wait::kNone;
    EXPECT_EQ(VerifyLaw(early, Law::kWaits).message().substr(0, 2), "P2");
  }
}

TEST(VerifyPlan, RefusesRandomWrongWaitsAndMemory) {
  int caught = 0, missed = 0, equivalents = 0, refused_equivalents = 0;
  std::map<std::string, int> by_kind, by_law;
  Rng rng(11);
  for (const DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 2, 3}) {
      for (const int workers : {1, 3}) {
        for (const int32_t rows : {1, 64}) {
          const Plan lawful =
              Compiled(test::DecoderBody(shape), ranks, Body(rows), PlainTarget(workers));
          ASSERT_TRUE(VerifyPlan(lawful).ok());
          ASSERT_FALSE(CanGoWrong(lawful)) << "the judge must take a lawful plan";
          for (int i = 0; i < 80; ++i) {
            const PlanMutant& mutant = kMutants[static_cast<size_t>(i) % std::size(kMutants)];
            Plan plan = lawful;
            if (!mutant.apply(plan, rng)) continue;
            const Status status = VerifyPlan(plan);
            const bool wrong = CanGoWrong(plan);
            if (!status.ok()) ++by_law[status.message().substr(0, 2)];
            if (wrong && status.ok()) ADD_FAILURE() << "let through: " << mutant.kind;
            ++(wrong         ? status.ok() ? missed : caught
               : status.ok() ? equivalents
                             : refused_equivalents);
            if (wrong && !status.ok()) ++by_kind[std::string(mutant.kind)];
          }
        }
      }
    }
  }
  std::printf("%d wrong plans refused, %d let through; %d equivalents let through, %d refused\n",
              caught, missed, equivalents, refused_equivalents);
  EXPECT_GE(caught, 20 * missed) << "less than 95 %";
  EXPECT_GT(caught, 500);
  EXPECT_GT(equivalents, 20);
  for (const PlanMutant& mutant : kMutants)
    EXPECT_GT(by_kind[std::string(mutant.kind)], 0) << mutant.kind;
  for (const char* law : {"P1", "P2", "P3", "P4", "P5", "P6"}) EXPECT_GT(by_law[law], 0) << law;
}

}  // namespace
}  // namespace weft::plan
