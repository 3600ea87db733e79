#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace craton {

/// What went wrong.
enum class ErrorCode {
  kInvalidArgument,    ///< user input that cannot be meant: recipe, option, header
  kNotFound,           ///< a file, key, volume or checkpoint that is not there
  kAlreadyExists,      ///< the output is already there
  kOutOfRange,         ///< a coordinate or offset outside of what exists
  kCorrupt,            ///< bytes that contradict themselves
  kUnsupported,        ///< well-formed, but not handled by this build
  kIo,                 ///< the operating system or a server refused
  kResourceExhausted,  ///< memory, disk or budget is used up
  kTimeout,            ///< a deadline passed
  kPermission,         ///< not allowed
  kPeerLost,           ///< another worker is gone
  kGenerationEnded,    ///< the membership changed; whatever waited must stop waiting
  kCancelled,          ///< asked to stop
  kInternal,           ///< a fault of this program
};

/// How far the damage reaches, that is: what the catcher does about it.
enum class Reaction {
  kAbort,        ///< this command or worker ends
  kRetry,        ///< the same call may succeed later
  kReconfigure,  ///< go on in the next generation; caught in one place, the step loop
  kRestore,      ///< state must be restored from a peer or a checkpoint
};

/// The one exception type. `what()` is a single line that a user can act on; context names key, rank, generation, file, line.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, Reaction reaction = Reaction::kAbort);

  ErrorCode code() const { return code_; }
  Reaction reaction() const { return reaction_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return text_.c_str(); }

  /// Adds a fact such as ("key", "amplitude/c/0/0/1"); shown in parentheses behind the message.
  Error& with(std::string_view name, std::string_view value) &;
  Error&& with(std::string_view name, std::string_view value) &&;
  const std::vector<std::pair<std::string, std::string>>& context() const { return context_; }

 private:
  ErrorCode code_;
  Reaction reaction_;
  std::string message_;
  std::string text_;
  std::vector<std::pair<std::string, std::string>> context_;
};

std::string_view to_string(ErrorCode code);

/// Throws Error(code) with a formatted message: `fail(ErrorCode::kNotFound, "no volume at {}", uri)`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Error of the last failed system call: "cannot open x: No such file or directory". Picks the code from errno.
[[noreturn]] void fail_errno(std::string_view what, int error_number);

}  // namespace craton
