// Switches that break one rule of docs/numerics.md each, so that a test can show that the
// one-answer suite would notice. No flag leads here: only tests fill them in.
#pragma once

#include "kernels/attention/attention.h"

namespace weft::exec {

struct ExecFaults {
  bool leaves_in_rank_order = false;  // rule 4: a rank adds its leaves left to right, then ranks do
  bool bf16_partials = false;  // rule 6: roots are rounded before they cross (1 worker a rank)
  bool order_by_rows = false;  // rule 5: buckets above 16 rows add their leaves left to right
  // Rule 7: a dispatch or combine_rows takes rows out of the window of their holder's neighbour.
  bool rows_of_another_owner = false;
  // Rule 9: an attention of another order in place of the chosen one.
  const kernels::Kernel<kernels::AttentionArgs>* attention = nullptr;
};

}  // namespace weft::exec
