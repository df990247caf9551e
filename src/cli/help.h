// How --help looks: one column of flags with what they take, one of what they do and the default.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace weft::cli {

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

}  // namespace weft::cli
