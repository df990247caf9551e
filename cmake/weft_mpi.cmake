# Ranks as processes. weft_comm_mpi is src/comm/mpi_*.cc; -DWEFT_MPI=ON links it into weft itself, and its
# tests, programs that mpirun starts, are built wherever MPI is found, from the objects of every other test.
if(WEFT_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
elseif((WEFT_TESTS OR WEFT_BENCH) AND NOT WEFT_SANITIZE)  # Open MPI leaks by design
  find_package(MPI COMPONENTS C QUIET)
endif()
if(NOT MPI_C_FOUND)
  return()
endif()
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/comm/mpi_*.cc)
add_library(weft_comm_mpi STATIC ${sources})
target_link_libraries(weft_comm_mpi PUBLIC weft_comm MPI::MPI_C)
target_compile_definitions(weft_comm_mpi PRIVATE OMPI_SKIP_MPICXX)  # C++ bindings that nobody needs
if(WEFT_MPI)
  target_link_libraries(weft_cli PUBLIC weft_comm_mpi)
  target_compile_definitions(weft_cli PRIVATE WEFT_WITH_MPI)
endif()

if(NOT WEFT_TESTS)
  return()
endif()
function(weft_mpi_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE weft_comm_mpi)
  weft_test_options(${name})
endfunction()

# Every rank runs all its cases; rank 0 reports for all.
weft_mpi_program(weft_comm_mpi_test ${CMAKE_SOURCE_DIR}/tests/comm/mpi_link_test.cc)
set(mpirun ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root --bind-to none)
foreach(ranks 2 4)
  add_test(NAME comm_mpi_${ranks} COMMAND ${mpirun} -n ${ranks} $<TARGET_FILE:weft_comm_mpi_test>)
endforeach()
# Starts jobs of its own, some of whose ranks die.
weft_mpi_program(weft_comm_mpi_loss_test ${CMAKE_SOURCE_DIR}/tests/comm/mpi_loss_test.cc)
target_link_libraries(weft_comm_mpi_loss_test PRIVATE GTest::gtest_main)
weft_mpi_program(weft_comm_mpi_peer ${CMAKE_SOURCE_DIR}/tests/comm/mpi_peer.cc)
target_compile_definitions(weft_comm_mpi_loss_test PRIVATE
  WEFT_MPIRUN="${MPIEXEC_EXECUTABLE}" WEFT_MPI_PEER="$<TARGET_FILE:weft_comm_mpi_peer>")
add_dependencies(weft_comm_mpi_loss_test weft_comm_mpi_peer)
add_test(NAME comm_mpi_loss COMMAND weft_comm_mpi_loss_test)
set_tests_properties(comm_mpi_2 comm_mpi_4 comm_mpi_loss PROPERTIES RUN_SERIAL ON)  # more ranks than cores already
