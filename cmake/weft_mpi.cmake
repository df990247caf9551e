# -DWEFT_MPI=ON: the files src/comm/mpi_*.cc, MPI itself, and their tests, which are programs that
# mpirun starts.
if(NOT WEFT_MPI)
  return()
endif()
find_package(MPI REQUIRED COMPONENTS C)
weft_uses(comm MPI::MPI_C)
target_compile_definitions(weft_comm PRIVATE OMPI_SKIP_MPICXX)  # C++ bindings that nobody needs
target_compile_definitions(weft_cli PRIVATE WEFT_WITH_MPI)

if(NOT WEFT_TESTS)
  return()
endif()
function(weft_mpi_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE weft_comm GTest::gtest GTest::gmock)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
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
