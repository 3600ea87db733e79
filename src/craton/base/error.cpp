#include "craton/base/error.h"

#include <cerrno>
#include <cstring>

namespace craton {

Error::Error(ErrorCode code, std::string message, Reaction reaction)
    : code_(code), reaction_(reaction), message_(std::move(message)), text_(message_) {}

Error& Error::with(std::string_view name, std::string_view value) & {
  context_.emplace_back(name, value);
  text_ = message_ + " (";
  for (size_t i = 0; i < context_.size(); ++i) {
    if (i > 0) text_ += ", ";
    text_ += context_[i].first + " " + context_[i].second;
  }
  text_ += ")";
  return *this;
}

Error&& Error::with(std::string_view name, std::string_view value) && {
  return std::move(with(name, value));
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kAlreadyExists: return "already exists";
    case ErrorCode::kOutOfRange: return "out of range";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "input/output";
    case ErrorCode::kResourceExhausted: return "resource exhausted";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kPermission: return "permission";
    case ErrorCode::kPeerLost: return "peer lost";
    case ErrorCode::kGenerationEnded: return "generation ended";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

void fail_errno(std::string_view what, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: code = ErrorCode::kNotFound; break;
    case EEXIST:
    case ENOTEMPTY: code = ErrorCode::kAlreadyExists; break;
    case EACCES:
    case EPERM:
    case EROFS: code = ErrorCode::kPermission; break;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE: code = ErrorCode::kResourceExhausted; break;
    case ETIMEDOUT: code = ErrorCode::kTimeout; break;
    default: break;
  }
  fail(code, "{}: {}", what, std::strerror(error_number));
}

}  // namespace craton
