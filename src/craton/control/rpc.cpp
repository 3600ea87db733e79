#include "craton/control/rpc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "craton/base/error.h"

namespace craton::control {
namespace fs = std::filesystem;
namespace {

RpcModule& load() {
  // What its channels have to say about a peer that has gone is said by the caller.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string tried;
  for (const fs::path& path : {here / kRpcLibrary, here / "../lib/craton" / kRpcLibrary}) {
    if (!fs::exists(path)) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      fail(ErrorCode::kNotFound, "cannot load {}: {}", path.string(), ::dlerror());
    void* function = ::dlsym(library, kRpcFunction);
    if (function == nullptr)
      fail(ErrorCode::kCorrupt, "{} is not Craton's; build it anew", path.string());
    return *reinterpret_cast<RpcModule* (*)()>(function)();
  }
  fail(ErrorCode::kNotFound,
       "there is no {} beside {}; build or install it: commands that talk to a running job need it",
       kRpcLibrary, here.string());
}

}  // namespace

RpcModule& rpc_module() {
  static RpcModule& module = load();
  return module;
}

}  // namespace craton::control
