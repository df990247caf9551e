// Runners of steps that exchange while they compute. Internal to bind.cc. Thread: as runner.h.
#pragma once

#include <utility>
#include <vector>

#include "exec/exchange_runners.h"
#include "exec/rank_tables.h"
#include "fused/matmul_all_reduce_norm.h"
#include "fused/matmul_reduce_scatter.h"

namespace weft::exec {

// Args with the flags that they wait for and the counts of what they did. A virtual rank has no
// thread of its own: the reference runs the stages as phases and waits for nobody.
template <typename Args>
class FusedRunner : public Runner {
 public:
  FusedRunner(const BindContext& c, comm::Collective kind, int64_t* done)
      : fabric_(c.fabric), flags_(c.flags), actor_{0, c.rank, c.worker}, kind_(kind), done_(done) {}
  bool awaits() const override { return true; }
  void Run(const Live& live, int phase) override {
    SetRows(live);
    Count(phase == 0, RunStage(args_, phase));
  }

 protected:
  virtual void SetRows(const Live& live) = 0;
  void Count(bool call, const fused::FusedWork& work) {
    *done_ += work.units;
    fabric_->Count(actor_, kind_, call && actor_.worker == 0 ? 1 : 0, work.bytes);
  }

  Args args_;
  comm::Fabric* fabric_;
  fused::TileFlags* flags_;
  comm::Actor actor_;
  comm::Collective kind_;
  int64_t* done_;  // units of this worker at this op
};

class MatmulAllReduceNormRunner final : public FusedRunner<fused::MatmulAllReduceNormArgs> {
 public:
  // `matmuls` and `reductions`: of each tile.
  MatmulAllReduceNormRunner(const BindContext& c, int64_t* done,
                            fused::MatmulAllReduceNormArgs args,
                            const std::vector<kernels::MatmulArgs>& matmuls,
                            std::vector<Reduction> reductions, LiveRows rows)
      : FusedRunner(c, comm::Collective::kAllReduce, done),
        reductions_(std::move(reductions)),
        rows_(std::move(rows)) {
    args_ = args;
    for (size_t t = 0; t < matmuls.size(); ++t) {
      reductions_[t].Point();
      tiles_.push_back({matmuls[t], reductions_[t].args});
    }
    args_.tiles = tiles_.data();
    args_.tile_count = static_cast<int>(tiles_.size());
  }
  int phases() const override { return fused::StagesOf(args_); }
  Status RunAwaiting(const Live& live, const device::WaitSite& site,
                     fused::TileTimes* times) override {
    SetRows(live);
    fused::FusedWork work;
    WEFT_RETURN_IF_ERROR(fused::RunMatmulAllReduceNorm(args_, *flags_, site, &work, times));
    Count(true, work);
    return Status::Ok();
  }

 private:
  void SetRows(const Live& live) override {
    const int64_t rows = rows_.Count(live);
    for (size_t t = 0; t < tiles_.size(); ++t) {
      kernels::MatmulArgs& matmul = tiles_[t].matmul;
      matmul.rows = matmul.x.rows = rows;
      matmul.xq.rows = matmul.int8_activations ? rows : 0;
      reductions_[t].SetRows(live);
      tiles_[t].reduce.rows = rows;
    }
    args_.norm.x.rows = args_.norm.y.rows = args_.norm.residual.rows = rows;
  }

  std::vector<fused::MatmulAllReduceNormArgs::Tile> tiles_;
  std::vector<Reduction> reductions_;
  LiveRows rows_;
};

class MatmulReduceScatterRunner final : public FusedRunner<fused::MatmulReduceScatterArgs> {
 public:
  MatmulReduceScatterRunner(const BindContext& c, int64_t* done,
                            fused::MatmulReduceScatterArgs args, Reduction reduction)
      : FusedRunner(c, comm::Collective::kReduceScatter, done), reduction_(std::move(reduction)) {
    args_ = args;
    reduction_.Point();
    args_.reduce = reduction_.args;
  }
  int phases() const override { return fused::kScatterStages; }
  Status RunAwaiting(const Live& live, const device::WaitSite& site,
                     fused::TileTimes* times) override {
    SetRows(live);
    fused::FusedWork work;
    WEFT_RETURN_IF_ERROR(fused::RunMatmulReduceScatter(args_, *flags_, site, &work, times));
    Count(true, work);
    return Status::Ok();
  }

 private:
  void SetRows(const Live& live) override {
    reduction_.SetRows(live);
    args_.reduce.rows = reduction_.args.rows;
    kernels::MatmulArgs& matmul = args_.matmul;
    matmul.rows = matmul.x.rows = args_.reduce.rows;
    matmul.xq.rows = matmul.int8_activations ? matmul.rows : 0;
  }

  Reduction reduction_;
};

}  // namespace weft::exec
