#include "craton/results/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "craton/base/base64.h"
#include "craton/base/units.h"
#include "craton/results/report_style.h"
#include "craton/results/svg_chart.h"
#include "craton/runtime/file.h"

namespace craton::results {
namespace {

using Row = std::pair<std::string, std::string>;

constexpr int kHalfWidth = 500, kHalfHeight = 220;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite";
}

/// A column of the metrics over steps.
template <typename Value>
Series column(const std::vector<StepMetrics>& metrics, std::string label, std::string style,
              Value value) {
  Series series;
  series.label = std::move(label);
  series.style = std::move(style);
  for (const StepMetrics& m : metrics) {
    series.x.push_back(static_cast<double>(m.step));
    series.y.push_back(value(m));
  }
  return series;
}

std::string tile(const std::string& value, const std::string& label,
                 const std::string& style = "") {
  return fmt::format(R"(<div class="tile"><b class="{}">{}</b><span>{}</span></div>)", style,
                     escape_html(value), escape_html(label));
}

std::string legend(const std::vector<Series>& series) {
  std::string out = R"(<div class="legend">)";
  for (const Series& s : series) {
    if (!s.label.empty())
      out += fmt::format(R"(<span><i class="{}"></i>{}</span>)", s.style, escape_html(s.label));
  }
  return out + "</div>";
}

std::string tiles(const ReportInput& input) {
  const Result& r = input.result;
  std::string out = R"(<div class="tiles">)";
  if (r.validation_loss) {
    const bool good = input.baseline_loss && *r.validation_loss < *input.baseline_loss;
    std::string label = "validation loss";
    if (good && *input.baseline_loss > 0) {
      label +=
          fmt::format(", {:.0f} % below {}", 100 * (1 - *r.validation_loss / *input.baseline_loss),
                      input.baseline_name);
    }
    out += tile(loss_text(*r.validation_loss), label, good ? "good" : "");
  }
  out += tile(loss_text(r.train_loss), "training loss");
  out += tile(fmt::format("{}", r.steps),
              r.skipped_steps > 0 ? fmt::format("steps, {} skipped", r.skipped_steps) : "steps");
  out += tile(format_count(r.samples_per_second), "samples/s");
  if (!input.metrics.empty() && input.metrics.back().peak_share > 0) {
    double share = 0;
    for (const StepMetrics& m : input.metrics)
      share += m.peak_share / static_cast<double>(input.metrics.size());
    out += tile(percent(share), "of peak FLOP/s");
  }
  out += tile(percent(r.data_wait_share), "waiting for data");
  out += tile(format_seconds(r.seconds),
              fmt::format("on {} worker{}", r.workers, r.workers == 1 ? "" : "s"));
  return out + "</div>";
}

std::vector<Series> loss_series(const std::vector<StepMetrics>& metrics) {
  Series raw = column(metrics, "training", "faint", [](const StepMetrics& m) { return m.loss; });
  Series smoothed = raw;
  smoothed.label = "training, smoothed";
  smoothed.style = "one";
  smoothed.y = smooth(raw.y, static_cast<double>(metrics.size()) / 25);
  Series validation;
  validation.label = "validation";
  validation.style = "two";
  for (const StepMetrics& m : metrics) {
    if (!m.validation_loss) continue;
    validation.x.push_back(static_cast<double>(m.step));
    validation.y.push_back(*m.validation_loss);
  }
  validation.dots = validation.x.size() <= 60;
  std::vector<Series> all = {std::move(raw), std::move(smoothed)};
  if (!validation.x.empty()) all.push_back(std::move(validation));
  return all;
}

std::string loss_section(const ReportInput& input) {
  const auto series = loss_series(input.metrics);
  SvgStyle style;
  style.x_title = "step";
  style.y_title = "loss";
  if (input.baseline_loss) style.reference = {*input.baseline_loss, input.baseline_name};
  for (const RunEvent& event : input.events) {
    if (event.kind == RunEvent::Kind::kFailed || event.kind == RunEvent::Kind::kRestored) {
      style.marks.push_back({static_cast<double>(event.step), event.text, true});
    }
  }
  std::string out =
      R"(<h2>Loss</h2><div class="card scale"><input type="radio" name="scale" id="linear" checked><input type="radio" name="scale" id="log">)";
  out +=
      R"(<div class="head">)" + legend(series) +
      R"(<span class="switch"><label for="linear">linear</label><label for="log">log</label></span></div>)";
  out += R"(<div class="on-linear">)" + svg_chart(series, style) + "</div>";
  style.log_y = true;
  return out + R"(<div class="on-log">)" + svg_chart(series, style) + "</div></div>";
}

std::string half_card(const std::string& title, const std::vector<Series>& series, SvgStyle style) {
  style.x_title = "step";
  style.y_title = title;
  style.width = kHalfWidth;
  style.height = kHalfHeight;
  return fmt::format(R"(<div class="card"><div class="head"><h3>{}</h3>{}</div>{}</div>)",
                     escape_html(title), series.size() > 1 ? legend(series) : "",
                     svg_chart(series, style));
}

std::string training_section(const ReportInput& input) {
  const auto& metrics = input.metrics;
  SvgStyle plain, zero, percents;
  zero.from_zero = true;
  percents.from_zero = true;
  percents.at_least = 1;
  percents.unit = " %";
  std::string out = R"(<h2>Training</h2><div class="two-up">)";
  out += half_card(
      "Learning rate",
      {column(metrics, "learning rate", "one", [](const auto& m) { return m.learning_rate; })},
      zero);
  out += half_card(
      "Gradient norm",
      {column(metrics, "gradient norm", "one", [](const auto& m) { return m.gradient_norm; })},
      zero);
  out += half_card(
      "Samples per second",
      {column(metrics, "samples/s", "one", [](const auto& m) { return m.samples_per_second; })},
      zero);
  out += half_card(
      "Waiting for data, % of the step",
      {column(metrics, "data wait", "one", [](const auto& m) { return 100 * m.data_wait_share; })},
      percents);
  return out + "</div>";
}

std::string image(const Panel& panel) {
  return fmt::format(R"(<img alt="{}" src="data:image/png;base64,{}">)", escape_html(panel.label),
                     encode_base64(panel.png));
}

std::string figures_section(const ReportInput& input, Figure::Kind kind, const std::string& title) {
  std::string out;
  for (const Figure& figure : input.figures) {
    if (figure.kind != kind) continue;
    out += fmt::format(
        R"(<figure class="card"><div class="head"><h3>{}</h3></div><figcaption>{}</figcaption><div class="{}">)",
        escape_html(figure.title), escape_html(figure.caption),
        kind == Figure::Kind::kSection ? "wide" : "four");
    for (const Panel& panel : figure.panels)
      out += "<div>" + image(panel) + escape_html(panel.label) + "</div>";
    out += "</div></figure>";
  }
  return out.empty() ? "" : fmt::format("<h2>{}</h2>{}", title, out);
}

std::pair<const char*, const char*> name_of(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::kStarted:
      return {"started", "started"};
    case RunEvent::Kind::kJoined:
      return {"joined", "joined"};
    case RunEvent::Kind::kLeft:
      return {"left", "left"};
    case RunEvent::Kind::kFailed:
      return {"failed", "failed"};
    case RunEvent::Kind::kResized:
      return {"resized", "resized"};
    case RunEvent::Kind::kResumed:
      return {"resumed", "resumed"};
    case RunEvent::Kind::kRestored:
      return {"restored", "went back"};
    case RunEvent::Kind::kCheckpoint:
      return {"checkpoint", "checkpoint"};
    case RunEvent::Kind::kSkipped:
      return {"skipped", "skipped"};
    case RunEvent::Kind::kFinished:
      return {"finished", "finished"};
  }
  return {"", ""};
}

bool is_bad(RunEvent::Kind kind) {
  return kind == RunEvent::Kind::kFailed || kind == RunEvent::Kind::kRestored ||
         kind == RunEvent::Kind::kSkipped;
}

std::string clock_text(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : format_seconds(seconds);
}

/// Workers over time as steps of a stair, from the metrics, with what happened as marks.
std::string workers_chart(const ReportInput& input) {
  Series workers;
  workers.label = "workers";
  workers.style = "one";
  for (const StepMetrics& m : input.metrics) {
    // Earlier steps are from before this run started, and so is their clock.
    if (m.step <= input.result.resumed_from_step) continue;
    const auto count = static_cast<double>(m.workers);
    if (!workers.y.empty() && workers.y.back() != count) {
      workers.x.push_back(m.elapsed_seconds);
      workers.y.push_back(workers.y.back());
    }
    workers.x.push_back(m.elapsed_seconds);
    workers.y.push_back(count);
  }
  SvgStyle style;
  style.x_title = "seconds";
  style.y_title = "workers";
  style.from_zero = true;
  style.height = 170;
  for (const RunEvent& event : input.events) {
    if (event.kind != RunEvent::Kind::kCheckpoint)
      style.marks.push_back({event.elapsed_seconds, event.text, is_bad(event.kind)});
  }
  return svg_chart({workers}, style);
}

std::string events_section(const ReportInput& input) {
  if (input.events.empty()) return "";
  std::string rows;
  for (const RunEvent& event : input.events) {
    const auto [style, name] = name_of(event.kind);
    rows += fmt::format(
        R"(<tr><td class="n">{}</td><td class="n">{}</td><td><span class="tag {}">{}</span></td><td class="n">{}</td><td>{}</td></tr>)",
        clock_text(event.elapsed_seconds), event.step, style, name,
        event.workers > 0 ? fmt::format("{}", event.workers) : "", escape_html(event.text));
  }
  return R"(<h2>What happened</h2><div class="card"><div class="head"><h3>Workers over time</h3></div>)" +
         workers_chart(input) +
         "<table><thead><tr><th>time</th><th>step</th><th>event</th><th>workers</th><th></th></"
         "tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

std::string results_section(const Result& r) {
  std::vector<Row> rows = {
      {"Steps", fmt::format("{}{}", r.steps, r.stopped ? " (stopped on request)" : "")},
      {"Training loss", loss_text(r.train_loss)},
      {"Validation loss", r.validation_loss ? loss_text(*r.validation_loss) : "none"},
      {"Parameters", format_count(static_cast<double>(r.parameters))},
      {"Workers", fmt::format("{} ({})", r.workers, r.strategy)},
      {"Time", fmt::format("{}, of it {} inside steps", format_seconds(r.seconds),
                           format_seconds(r.training_seconds))},
      {"Goodput", percent(r.goodput)},
      {"Failures", fmt::format("{}; {} without progress, {} steps done again", r.failures,
                               format_seconds(r.downtime_seconds), r.lost_steps)},
      {"Skipped steps", fmt::format("{}", r.skipped_steps)},
      {"Started, finished", fmt::format("{}, {}", r.started, r.finished)}};
  if (r.resumed_from_step > 0)
    rows.insert(rows.begin() + 1, {"Resumed from step", fmt::format("{}", r.resumed_from_step)});
  std::string out = R"(<h2>Results</h2><div class="card"><table><tbody>)";
  for (const auto& [name, value] : rows) {
    out += fmt::format(R"(<tr><th>{}</th><td class="n">{}</td></tr>)", escape_html(name),
                       escape_html(value));
  }
  out += fmt::format("<tr><th>State SHA-256</th><td><code>{}</code></td></tr>",
                     escape_html(r.state_sha256));
  return out + "</tbody></table></div>";
}

}  // namespace

std::string report_html(const ReportInput& input) {
  const std::string name = escape_html(input.result.name);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">"
      "<title>{} - Craton</title><style>{}</style></head><body><main>",
      name, kReportStyle);
  out += fmt::format(
      R"(<header><div><h1>{}</h1><p class="soft">Training report, {}</p></div><button id="theme" type="button">light / dark</button></header>)",
      name, escape_html(input.result.finished));
  if (!input.facts.empty()) {
    out += R"(<dl class="facts">)";
    for (const auto& [label, value] : input.facts) {
      out += fmt::format("<dt>{}</dt><dd>{}</dd>", escape_html(label), escape_html(value));
    }
    out += "</dl>";
  }
  out += tiles(input) + loss_section(input);
  out += figures_section(input, Figure::Kind::kReconstruction, "Validation windows");
  out += figures_section(input, Figure::Kind::kSection, "What a window covers");
  out += training_section(input) + events_section(input) + results_section(input.result);
  out += fmt::format(
      R"(<h2>Recipe</h2><details class="card"><summary>The exact recipe, defaults filled in</summary><pre>{}</pre></details>)",
      escape_html(input.recipe_yaml));
  return out + fmt::format(
                   "<footer>Craton</footer></main><div "
                   "id=\"tip\"></div><script>{}</script></body></html>\n",
                   kReportScript);
}

void write_report(const std::filesystem::path& path, const ReportInput& input) {
  runtime::write_file_atomically(path, report_html(input));
}

}  // namespace craton::results
