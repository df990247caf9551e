// From what the user wrote after --model to a path that Checkpoint::Open takes.
// Thread: any.  Errors: kInvalid for a name that can be neither, kNotFound with the places that
// were tried. A name from the cache is checked letter by letter before it becomes part of a path.
#pragma once

#include <string>

#include "base/result.h"

namespace weft::io {

// `model`: a directory with config.json or with one .gguf model, a .gguf file, or "org/name" of the
// Hugging Face cache under `cache_root` (its "hub" directory; empty: there is none), at `revision`
// (a branch under refs/, or a snapshot). Nothing is downloaded.
Result<std::string> LocateModel(const std::string& model, const std::string& cache_root,
                                const std::string& revision = "main");

}  // namespace weft::io
