# craton_module(NAME [SIMULATED] [LINK lib...]): a folder of src/craton becomes the static library craton_NAME from its sources,
# and craton_NAME_test from its *_test.cpp files. Folders below it belong to it. SIMULATED: its tests use the simulators of testing/.

function(craton_module name)
  cmake_parse_arguments(ARG "SIMULATED" "" "LINK;USES" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/src/craton/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  if(NOT sources)
    return()
  endif()
  # Kernels for one instruction set: compiled with it, without the precompiled header, and called behind a check of the processor.
  set(avx2 ${sources})
  list(FILTER avx2 INCLUDE REGEX "_avx2\\.cpp$")
  if(avx2)
    set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma" SKIP_PRECOMPILE_HEADERS ON)
  endif()
  add_library(craton_${name} STATIC ${sources})
  set_target_properties(craton_${name} PROPERTIES LINKER_LANGUAGE CXX)
  set_property(GLOBAL APPEND PROPERTY CRATON_MODULES ${name})
  target_include_directories(craton_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include>)
  target_compile_features(craton_${name} PUBLIC cxx_std_20)
  target_compile_options(craton_${name} PRIVATE ${CRATON_WARNINGS})
  foreach(used IN LISTS CRATON_USES_${name})
    if(TARGET craton_${used})
      target_link_libraries(craton_${name} PUBLIC craton_${used})
    endif()
  endforeach()
  target_link_libraries(craton_${name} PUBLIC ${ARG_LINK})
  if(CRATON_TESTS AND tests)
    add_executable(craton_${name}_test ${tests})
    target_compile_options(craton_${name}_test PRIVATE ${CRATON_WARNINGS})
    target_link_libraries(craton_${name}_test PRIVATE craton_${name} GTest::gtest GTest::gmock GTest::gtest_main)
    if(ARG_SIMULATED)
      target_link_libraries(craton_${name}_test PRIVATE craton_testing)
    endif()
    add_test(NAME unit.${name} COMMAND craton_${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 600
                         ENVIRONMENT "${CRATON_TEST_ENVIRONMENT}" SKIP_RETURN_CODE 77)
  endif()
endfunction()

# craton_protobuf(NAME FILE): compiles a .proto of the module into it; only the module itself sees the generated header.
function(craton_protobuf name file)
  set(dir ${CMAKE_SOURCE_DIR}/src/craton/${name})
  string(REPLACE ".proto" "" stem ${file})
  set(out ${CMAKE_BINARY_DIR}/generated/${name})
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
                     COMMAND protobuf::protoc --proto_path=${dir} --cpp_out=${out} ${file}
                     DEPENDS ${dir}/${file} VERBATIM)
  target_sources(craton_${name} PRIVATE ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
  target_include_directories(craton_${name} SYSTEM PRIVATE ${out})
endfunction()

# craton_grpc(NAME FILE): the gRPC services of a .proto of the module as craton_NAME_grpc, with the generated headers (messages and
# services) for whoever links it. Compiling it is slow, so it is built only when something needs it.
function(craton_grpc name file)
  set(dir ${CMAKE_SOURCE_DIR}/src/craton/${name})
  string(REPLACE ".proto" "" stem ${file})
  set(out ${CMAKE_BINARY_DIR}/generated/${name})
  add_custom_command(OUTPUT ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h
                     COMMAND protobuf::protoc --proto_path=${dir} --grpc_out=${out}
                             --plugin=protoc-gen-grpc=${CRATON_GRPC_PLUGIN} ${file}
                     DEPENDS ${dir}/${file} VERBATIM)
  add_library(craton_${name}_grpc STATIC EXCLUDE_FROM_ALL ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
  target_include_directories(craton_${name}_grpc SYSTEM PUBLIC ${out})
  target_link_libraries(craton_${name}_grpc PUBLIC craton_${name} PkgConfig::grpc)
  add_dependencies(craton_${name}_grpc craton_${name})
endfunction()

# Modules that use libtorch share the precompiled header of craton_tensor.
function(craton_torch_module name)
  craton_module(${name} ${ARGN})
  foreach(target craton_${name} craton_${name}_test)
    if(TARGET ${target})
      if(target STREQUAL craton_tensor)
        target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src/craton/tensor/torch.h)
      else()
        target_link_libraries(${target} PRIVATE craton_tensor)
        target_precompile_headers(${target} REUSE_FROM craton_tensor)
      endif()
      # A precompiled header fits only code compiled with the same -fPIC; programs would get -fPIE.
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endforeach()
endfunction()
