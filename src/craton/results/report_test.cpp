#include "craton/results/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "craton/base/error.h"
#include "craton/results/svg_chart.h"
#include "craton/runtime/file.h"

namespace craton::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ReconstructionWindow window(int64_t traces, int64_t samples) {
  ReconstructionWindow w;
  w.title = "Window 3 <of> \"F3\"";
  w.caption = "inline 120 & more";
  w.traces = traces;
  w.samples = samples;
  for (int64_t i = 0; i < traces * samples; ++i) {
    const auto value = static_cast<float>(std::sin(0.3 * static_cast<double>(i)));
    w.truth.push_back(value);
    w.reconstruction.push_back(0.9f * value);
    w.input.push_back(i % 3 == 0 ? value : static_cast<float>(kNan));
  }
  return w;
}

ReportInput full_report() {
  ReportInput input;
  for (int64_t step = 1; step <= 2000; ++step) {
    StepMetrics m;
    m.step = step;
    m.workers = step < 900 ? 4 : 3;
    m.loss =
        1.0 / std::sqrt(static_cast<double>(step)) + 0.05 * std::sin(static_cast<double>(step));
    if (step % 100 == 0) m.validation_loss = 0.9 / std::sqrt(static_cast<double>(step));
    if (step == 700) m.loss = m.gradient_norm = kNan;
    m.elapsed_seconds = 0.1 * static_cast<double>(step);
    m.peak_share = 0.4;
    input.metrics.push_back(m);
  }
  input.result.name = "demo <1>";
  input.result.steps = 2000;
  input.result.train_loss = 0.02;
  input.result.validation_loss = 0.25;
  input.result.state_sha256 = "0123abcd";
  input.result.skipped_steps = 1;
  input.baseline_loss = 1.0;
  input.recipe_yaml = "name: demo\nuri: \"<script>alert(1)</script>\"\n";
  input.facts = {{"Data", "F3 </dd>"}};
  input.events = {{RunEvent::Kind::kFailed, 90, 900, 3, "rank 2 was <killed>"}};
  input.figures.push_back(reconstruction_figure(window(16, 24)));
  std::vector<float> section(40 * 60);
  for (size_t i = 0; i < section.size(); ++i) section[i] = static_cast<float>(i % 17) - 8;
  volume::plot::ChartStyle style;
  style.title = "inline 100";
  style.boxes.push_back({5, 5, 16, 24, "16x24"});
  input.figures.push_back(section_figure("Section", "windows", {section, 40, 60}, style));
  return input;
}

TEST(Report, StandsAlone) {
  const std::string html = report_html(full_report());
  EXPECT_THAT(html, HasSubstr("demo &lt;1&gt;"));
  EXPECT_THAT(html, HasSubstr("75 % below predicting zero"));
  EXPECT_THAT(html, HasSubstr("Masked input"));
  EXPECT_THAT(html, HasSubstr("data:image/png;base64,iVBORw0KGgo"));
  EXPECT_THAT(html, HasSubstr("rank 2 was &lt;killed&gt;"));
  EXPECT_THAT(html, HasSubstr("0123abcd"));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  for (const char* outside :
       {"src=\"http", "href=", "url(", "@import", "<script src", "alert(1)</script>"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_LT(html.size(), 1u << 20) << "2,000 steps are thinned";
}

// Python's parser finds elements that are not closed or closed twice.
TEST(Report, IsWellFormed) {
  if (std::system("python3 -c 1") != 0) GTEST_SKIP() << "no python3";
  const runtime::TemporaryDirectory folder;
  write_report(folder.path() / "report.html", full_report());
  std::ofstream(folder.path() / "check.py") << R"(
import html.parser, json, sys
VOID = {'meta', 'input', 'img', 'br'}
class Parser(html.parser.HTMLParser):
    stack, charts = [], 0
    def handle_starttag(self, tag, attrs):
        if tag not in VOID: self.stack.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, (tag, self.stack, self.getpos())
        self.stack.pop()
    def handle_data(self, data):
        if self.stack and self.stack[-1] == 'metadata':
            chart = json.loads(data)
            self.charts += 1
            for s in chart['series']: assert len(s['x']) == len(s['y']) and len(s['x']) <= 900, len(s['x'])
p = Parser()
p.feed(open(sys.argv[1], encoding='utf-8').read())
assert not p.stack, p.stack
assert p.charts == 7, p.charts
)";
  const std::string command = "python3 " + (folder.path() / "check.py").string() + " " +
                              (folder.path() / "report.html").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Report, EmptyRunsHaveOneToo) {
  ReportInput input;
  input.result.name = "empty";
  const std::string html = report_html(input);
  EXPECT_THAT(html, HasSubstr("no data"));
  EXPECT_THAT(html, Not(HasSubstr("Validation windows")));
  EXPECT_EQ(html.find("inf"), std::string::npos);
}

TEST(Figures, SaveAndLoad) {
  const runtime::TemporaryDirectory folder;
  EXPECT_TRUE(load_figures(folder.path() / "figures").empty());
  const std::vector<Figure> saved = full_report().figures;
  save_figures(folder.path() / "figures", saved);
  const std::vector<Figure> loaded = load_figures(folder.path() / "figures");
  ASSERT_EQ(loaded.size(), 2u);
  EXPECT_EQ(loaded[0].kind, Figure::Kind::kReconstruction);
  EXPECT_EQ(loaded[0].title, saved[0].title);
  ASSERT_EQ(loaded[0].panels.size(), 4u);
  EXPECT_EQ(loaded[0].panels[3].label, "Difference");
  EXPECT_EQ(loaded[0].panels[3].png, saved[0].panels[3].png);
  EXPECT_EQ(loaded[1].kind, Figure::Kind::kSection);
  std::ofstream(folder.path() / "figures/figures.json") << "[{\"kind\"";
  EXPECT_THROW(load_figures(folder.path() / "figures"), Error);
}

TEST(Figures, SizesMustFit) {
  ReconstructionWindow w = window(4, 4);
  w.input.pop_back();
  EXPECT_THROW(reconstruction_figure(w), Error);
  EXPECT_NO_THROW(reconstruction_figure(window(1, 1)));
  EXPECT_NO_THROW(reconstruction_figure(window(2, 3000)));
}

TEST(SvgChart, LeavesGapsAndNames) {
  SvgStyle style;
  style.y_title = "a<b";
  const std::string svg = svg_chart({{"one", "one", {1, 2, 3, 4}, {1, kNan, 3, 4}}}, style);
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  const size_t path = svg.find("class=\"line one\" d=\"");
  const std::string d = svg.substr(path, svg.find("/>", path) - path);
  EXPECT_EQ(std::count(d.begin(), d.end(), 'M'), 2) << d;
  EXPECT_THAT(svg, HasSubstr("null"));
  style.log_y = true;
  const std::string logarithmic = svg_chart({{"one", "one", {1, 2, 3}, {0.001, 0, 100}}}, style);
  EXPECT_THAT(logarithmic, Not(HasSubstr("inf")));
  EXPECT_THAT(logarithmic, HasSubstr(">0.01<"));
}

TEST(SvgChart, ThinningKeepsExtremesAndGaps) {
  std::vector<double> x, y;
  for (int i = 0; i < 10000; ++i) {
    x.push_back(i);
    y.push_back(i == 4321 ? 1000 : i == 7777 ? kNan : i % 10);
  }
  thin(x, y, 200);
  EXPECT_LE(x.size(), 301u);
  EXPECT_TRUE(std::is_sorted(x.begin(), x.end()));
  EXPECT_NE(std::find(y.begin(), y.end(), 1000), y.end());
  EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](double v) { return std::isnan(v); }));
  std::vector<double> all_gaps_x(1000, 1), all_gaps_y(1000, kNan);
  thin(all_gaps_x, all_gaps_y, 100);
  EXPECT_LE(all_gaps_x.size(), 100u);
}

TEST(SvgChart, SmoothingHasNoLag) {
  EXPECT_THAT(smooth({1, 2, 3, 4, 5}, 4), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(smooth({0, 3, 0, 3, 0}, 2), ElementsAre(0, 1, 2, 1, 0));
  EXPECT_THAT(smooth({4, kNan, 6}, 2), ElementsAre(4, 5, 6));
  EXPECT_THAT(smooth({1, 5, 3}, 0), ElementsAre(1, 5, 3));
  EXPECT_TRUE(smooth({}, 10).empty());
}

}  // namespace
}  // namespace craton::results
