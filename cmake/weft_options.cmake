# Flags that every target of weft is built with, carried by a target and not by global variables.
add_library(weft_options INTERFACE)
target_compile_features(weft_options INTERFACE cxx_std_20)
# -march=x86-64-v3 is the floor and -ffp-contract=off the rule of docs/numerics.md 2: an FMA is there
# because the contract says so, never because a compiler found one.
target_compile_options(weft_options INTERFACE
  -march=x86-64-v3 -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wvla -Wno-restrict -Wno-stringop-overflow -Wno-missing-field-initializers -fno-strict-aliasing
  $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>
  -fstack-protector-strong)
target_include_directories(weft_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(WEFT_SANITIZE)
  # A finding ends the program, or a test would print it and pass.
  target_compile_options(weft_options INTERFACE
    -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
