# weft_room(<name> [COLD] [APART <regex>] [DEPS room...])
# The library weft_<name> of src/<name>/**.cc and the test program weft_<name>_test of
# tests/<name>/**_test.cc. A room without sources is header-only. COLD: weft_cold.
# APART: files of one shape, which give what is theirs alone the same names; weft_unity leaves them.
#
# Files named *_avx512.cc or *_amx.cc get that instruction set; nothing else does. Such a file exports its
# table entry alone (tools/tidy.py counts the weak symbols), so the flags cannot leak.
set(WEFT_AVX512_FLAGS
  -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16
  -Wno-uninitialized -Wno-maybe-uninitialized  # GCC 12 warns about its own _mm512_undefined_*
  CACHE INTERNAL "")

function(weft_room name)
  cmake_parse_arguments(ROOM "COLD" "APART" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/(main|mpi_[a-z_]*)\\.cc$")  # cmake/weft_libraries.cmake, weft_mpi.cmake
  if(sources)
    add_library(weft_${name} STATIC ${sources})
    set(scope PUBLIC)
    foreach(source IN LISTS sources)
      if(source MATCHES "_avx512\\.cc$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${WEFT_AVX512_FLAGS}")
      elseif(source MATCHES "_amx\\.cc$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${WEFT_AVX512_FLAGS};-mamx-tile;-mamx-int8")
      endif()
    endforeach()
  else()
    add_library(weft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(weft_${name} ${scope} weft_options fmt::fmt Threads::Threads)
  if(ROOM_COLD)
    weft_cold(weft_${name})
  endif()
  if(sources)
    weft_unity(weft_${name} "${ROOM_APART}" ${sources})
  endif()
  foreach(dep IN LISTS ROOM_DEPS)
    target_link_libraries(weft_${name} ${scope} weft_${dep})
  endforeach()

  weft_test_program(${name} DEPS ${name})
endfunction()

# weft_cold(<target>): half the compile time where none of its loops is ever hot.
function(weft_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# weft_unity(<target> <apart> <source>...): compiles the sources several at a time where WEFT_UNITY asks for it,
# but for those that match the regex apart. Most of a small file's compile time is its headers and templates,
# which a batch pays once. A file with options of its own stays alone.
function(weft_unity target apart)
  if(NOT WEFT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  if(apart)
    list(FILTER ARGN INCLUDE REGEX "${apart}")
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# What every test program is built with. What is tested stands in the libraries, at their own level; the
# tests themselves take a third less time to build at -O1, and GoogleTest, a third of what is left, is
# parsed once.
function(weft_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1 -g0>
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # so that ccache keeps objects that use the parsed header
  target_link_libraries(${target} PRIVATE weft_options fmt::fmt GTest::gtest GTest::gmock)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE
    WEFT_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests" WEFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(NOT TARGET weft_test_headers)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/weft_test_headers.cc CONTENT "")
    add_library(weft_test_headers OBJECT ${CMAKE_BINARY_DIR}/weft_test_headers.cc)
    target_precompile_headers(weft_test_headers PRIVATE
      <algorithm> <functional> <map> <memory> <optional> <string> <vector>
      <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>)
    weft_test_options(weft_test_headers)
  elseif(NOT target STREQUAL weft_test_headers)
    target_precompile_headers(${target} REUSE_FROM weft_test_headers)
  endif()
endfunction()

# weft_test_program(<name> DEPS room...)
# The test program weft_<name>_test of tests/<name>/**_test.cc, if there are any. A file *_avx512.cc
# beside them is built for that instruction set, as in src/.
function(weft_test_program name)
  if(NOT WEFT_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cc)
  list(FILTER tests EXCLUDE REGEX "/mpi_[a-z_]*_test\\.cc$")  # cmake/weft_mpi.cmake
  if(NOT tests)
    return()
  endif()
  file(GLOB_RECURSE avx512 CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_avx512.cc)
  set_source_files_properties(${avx512} PROPERTIES
    COMPILE_OPTIONS "${WEFT_AVX512_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
  add_executable(weft_${name}_test ${tests} ${avx512})
  weft_test_options(weft_${name}_test)
  weft_unity(weft_${name}_test "")
  # They hold AVX-512 sources over emulated instructions, all of it unrolled: minutes at -O3, one at
  # -O1, and what they compare is small.
  foreach(test IN LISTS tests)
    if(test MATCHES "_(avx512|amx)_test\\.cc$")
      set_source_files_properties(${test} PROPERTIES
        COMPILE_OPTIONS "-O0;-U_FORTIFY_SOURCE" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  foreach(dep IN LISTS TEST_DEPS)
    target_link_libraries(weft_${name}_test PRIVATE weft_${dep})
  endforeach()
  target_link_libraries(weft_${name}_test PRIVATE GTest::gtest_main)
  add_test(NAME ${name} COMMAND weft_${name}_test)
  # The longest begins first, or the others are done while it still runs.
  if(name STREQUAL "one_answer")
    set_tests_properties(${name} PROPERTIES COST 600)
  endif()
endfunction()
