# Everything here is a Debian package; tools/install-dependencies installs them.
set(CRATON_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(BZip2 REQUIRED)
find_package(PNG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(blosc REQUIRED IMPORTED_TARGET blosc)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
# libzfp ships neither a pkg-config file nor, on every release, a CMake package.
find_library(CRATON_ZFP zfp)
find_path(CRATON_ZFP_INCLUDE zfp.h)

if(CRATON_TESTS)
  find_package(GTest REQUIRED)
  set(CRATON_TEST_ENVIRONMENT "OPENBLAS_NUM_THREADS=1;OMP_NUM_THREADS=1"
      "OPENBLAS_CORETYPE=Haswell" "ATEN_CPU_CAPABILITY=avx2" "ONEDNN_MAX_CPU_ISA=AVX2"
      "CRATON_TEST_BIN=${CMAKE_BINARY_DIR}/bin")
endif()
if(CRATON_BENCH)
  find_package(benchmark REQUIRED)
endif()
if(CRATON_TORCH)
  find_package(Torch REQUIRED)
  find_package(OpenMP REQUIRED COMPONENTS CXX)  # at::parallel_for is a template: it runs serially in code compiled without
endif()
