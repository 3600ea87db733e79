#pragma once

namespace craton::results {

/// The page's style sheet; both colour schemes.
extern const char* const kReportStyle;
/// Tooltips of charts and the switch between colour schemes. The page reads well without it.
extern const char* const kReportScript;

}  // namespace craton::results
