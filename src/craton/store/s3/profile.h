#pragma once

#include <map>
#include <string>
#include <string_view>

#include "craton/store/environment.h"

namespace craton::store::s3 {

/// The settings of one profile of the files ~/.aws/config and ~/.aws/credentials (or
/// AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE); the credentials file wins. Nested settings of
/// "s3 =" are named "s3.addressing_style".
struct Profile {
  std::string name = "default";
  bool found = false;
  std::map<std::string, std::string, std::less<>> settings;

  std::string_view get(std::string_view setting) const;
};

/// `name` "": AWS_PROFILE, or "default". Files that are not there are no error.
Profile read_profile(const std::string& name, const Environment& environment);

/// Adds the settings of profile `name` in the text of one file. Sections are "[name]" or, in the
/// config file, "[profile name]". Lines that fit nothing are skipped, as the AWS tools do.
void parse_profile(std::string_view text, Profile& profile);

}  // namespace craton::store::s3
