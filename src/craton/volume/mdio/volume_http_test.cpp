// Volumes from a web server that fails in the ways that have been met in the field: the samples are
// right, or there is an error; never zeros, never NaN.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "craton/base/error.h"
#include "craton/store/http/http_store.h"
#include "craton/testing/http_fault_server.h"
#include "craton/volume/sampling/loader.h"
#include "craton/volume/volume.h"

namespace craton::volume {
namespace {

using namespace std::chrono_literals;
using testing::HttpAnswer;
using testing::HttpFaultServer;
using testing::HttpRequest;

constexpr int64_t kSide = 32;

float value_at(int64_t i, int64_t j, int64_t k) {
  return static_cast<float>(1 + (i * kSide + j) * kSide + k);
}

/// Objects of a volume of 32^3 in chunks of 8^3, plain or in shards of 16^3, by path.
std::map<std::string, std::string> make_objects(bool sharded) {
  static int counter = 0;
  const std::string uri = "memory://http-volume-" + std::to_string(++counter);
  VolumeSpec spec;
  spec.name = "PostStack3DTime";
  for (const char* name : {"inline", "crossline", "time"}) {
    Axis axis{name, "", {}};
    for (int64_t i = 0; i < kSide; ++i) axis.coordinates.push_back(static_cast<double>(i));
    spec.axes.push_back(std::move(axis));
  }
  spec.chunk_shape = {8, 8, 8};
  if (sharded) spec.shard_shape = {16, 16, 16};
  auto writer = create_volume(uri, spec);
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t c = 0; c < 4; ++c) {
        std::vector<float> samples;
        for (int64_t i = 0; i < 8; ++i)
          for (int64_t j = 0; j < 8; ++j)
            for (int64_t k = 0; k < 8; ++k)
              samples.push_back(value_at(8 * a + i, 8 * b + j, 8 * c + k));
        writer->write_chunk(std::vector<int64_t>{a, b, c}, samples);
      }
  writer->finish();
  std::map<std::string, std::string> out;
  const auto store = store::open_store(uri);
  for (const auto& object : store->list("")) {
    const auto bytes = *store->get(object.key);
    out["/v/" + object.key] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  return out;
}

/// Serves the objects, with `spoil` for what happens to an answer.
class FaultyVolume {
 public:
  using Spoil = std::function<void(const std::string& target, int times_asked, HttpAnswer&)>;

  FaultyVolume(bool sharded, Spoil spoil)
      : objects_(make_objects(sharded)),
        spoil_(std::move(spoil)),
        server_([this](const HttpRequest& request) { return answer(request); }) {
    store::http::Limits limits;
    limits.first_byte = limits.stall = 300ms;
    limits.overall = 20s;
    limits.backoff_base = limits.backoff_cap = 1ms;
    limits.attempts = 3;
    store_ = std::make_shared<store::http::HttpStore>(store::http::parse_url(server_.url() + "/v"),
                                                      limits);
  }
  std::shared_ptr<const Volume> open() { return open_volume(store_); }
  void expect_right_samples() {
    std::vector<float> samples(kSide * kSide * kSide);
    open()->read(std::vector<int64_t>{0, 0, 0}, std::vector<int64_t>{kSide, kSide, kSide}, samples);
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j)
        for (int64_t k = 0; k < kSide; ++k)
          ASSERT_EQ(samples[static_cast<size_t>((i * kSide + j) * kSide + k)], value_at(i, j, k));
  }

 private:
  HttpAnswer answer(const HttpRequest& request) {
    const auto it = objects_.find(request.target);
    HttpAnswer out;
    if (it == objects_.end()) {
      out.status = 404;
      return out;
    }
    out = testing::serve_object(request, it->second);
    const std::string what =
        request.target +
        (std::string(request.headers.get("range")).starts_with("bytes=-") ? " end" : "");
    spoil_(request.target, ++asked_[what], out);
    return out;
  }

  std::map<std::string, std::string> objects_;
  std::map<std::string, int> asked_;
  Spoil spoil_;
  HttpFaultServer server_;
  std::shared_ptr<store::http::HttpStore> store_;
};

TEST(VolumeOverHttp, EachFaultOnceForEachObjectChangesNothing) {
  const std::map<std::string, std::function<void(HttpAnswer&)>> faults = {
      {"unavailable", [](HttpAnswer& a) { a.status = 503; }},
      {"slow down", [](HttpAnswer& a) { a.status = 429; }},
      {"cut", [](HttpAnswer& a) { a.cut_after = a.body.size() / 2; }},
      {"closed", [](HttpAnswer& a) { a.close_at_once = true; }},
      {"damaged", [](HttpAnswer& a) { a.body.assign(a.body.size(), '\xa5'); }},
      {"another range",
       [](HttpAnswer& a) {
         for (auto& [name, value] : a.headers)
           if (name == "Content-Range") value = "bytes 1-2/3";
       }},
      {"a wrong length",
       [](HttpAnswer& a) {
         a.announced = a.body.size() + 5;
         a.cut_after = a.body.size();
       }},
  };
  for (const bool sharded : {false, true}) {
    for (const auto& [name, fault] : faults) {
      SCOPED_TRACE(name);
      FaultyVolume volume(sharded, [&](const std::string& target, int times, HttpAnswer& answer) {
        const bool is_chunk = target.find("/amplitude/c/") != target.npos;
        if (times == 1 && is_chunk && !answer.body.empty()) fault(answer);
      });
      volume.expect_right_samples();
    }
  }
}

TEST(VolumeOverHttp, OnlyWhatIsNotThereReadsAsZero) {
  for (const int status : {404, 403, 500, 503, 416}) {
    FaultyVolume volume(false, [&](const std::string& target, int, HttpAnswer& answer) {
      if (!target.ends_with("/amplitude/c/1/2/3")) return;
      answer.status = status;
      answer.body.clear();
    });
    std::vector<float> chunk(8 * 8 * 8, 7.0f);
    const auto read = [&] { volume.open()->read_chunk(std::vector<int64_t>{1, 2, 3}, chunk); };
    if (status == 404) {
      read();
      EXPECT_THAT(chunk, ::testing::Each(0.0f));
    } else {
      EXPECT_THROW(read(), Error) << status;
    }
  }
}

TEST(VolumeOverHttp, AnErrorNamesTheObject) {
  FaultyVolume volume(true, [&](const std::string& target, int, HttpAnswer& answer) {
    if (target.ends_with("/amplitude/c/1/0/1")) answer.status = 503;
  });
  std::vector<float> chunk(8 * 8 * 8);
  try {
    volume.open()->read_chunk(std::vector<int64_t>{2, 0, 2}, chunk);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("amplitude/c/1/0/1"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("503"));
  }
}

TEST(VolumeOverHttp, ManyReadersStayWithinTheirBudgets) {
  FaultyVolume volume(false, [](const std::string&, int, HttpAnswer&) {});
  SamplerSettings settings;
  settings.window = {8, 16, 16};
  settings.validation_fraction = 0;
  settings.working_set_bytes = 64 << 10;
  const auto sampler =
      std::make_shared<WindowSampler>(std::vector<SampledVolume>{{volume.open()}}, settings);
  std::vector<std::unique_ptr<WindowLoader>> readers;
  for (int r = 0; r < 8; ++r) {
    readers.push_back(std::make_unique<WindowLoader>(
        sampler, LoaderSettings{.threads = 2, .budget_bytes = 96 << 10}));
    std::vector<int64_t> future;
    for (int64_t n = r; n < 200; n += 8) future.push_back(n);
    readers.back()->expect(future);
  }
  std::vector<float> window(8 * 16 * 16);
  for (int64_t n = 0; n < 200; ++n) readers[static_cast<size_t>(n % 8)]->take(n, window);
  for (const auto& reader : readers) EXPECT_LE(reader->metrics().peak_bytes, 96u << 10);
}

}  // namespace
}  // namespace craton::volume
