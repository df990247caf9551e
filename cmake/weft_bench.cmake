# One program per bench/ops/*_bench.cc: a kernel family against the limits of the machine, which the
# same program measures.
file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/ops/*_bench.cc)
if(NOT WEFT_MPI)
  list(FILTER benches EXCLUDE REGEX "/mpi_[a-z_]*_bench\\.cc$")
endif()
foreach(bench IN LISTS benches)
  get_filename_component(name ${bench} NAME_WE)
  add_executable(${name} ${bench})
  target_link_libraries(${name} PRIVATE weft_kernels weft_comm weft_fused)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/bench ${CMAKE_SOURCE_DIR}/tests)
endforeach()
