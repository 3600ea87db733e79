#include "craton/checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "craton/base/error.h"

namespace craton::checkpoint {
namespace {

constexpr size_t kMostAxes = 64;

/// Takes {"NAME": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__":
/// {"k": "v"}} and nothing else.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(std::vector<TensorInfo>& tensors, std::map<std::string, std::string>& metadata)
      : tensors_(tensors), metadata_(metadata) {}

  bool null() override { return refuse("a null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a fraction or too large a number");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) return refuse("a number");
    if (list_->size() >= kMostAxes)
      fail(ErrorCode::kCorrupt, "'{}' has a list of more than {} numbers", name_, kMostAxes);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse("too large a number");
    list_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && name_ == "__metadata__") {
      if (!metadata_.emplace(field_, value).second)
        fail(ErrorCode::kCorrupt, "metadata '{}' is given twice", field_);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return refuse("text");
    dtype_ = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ == 2 || list_ != nullptr) return refuse("an object");
    if (++depth_ == 2) {
      dtype_.clear();
      shape_.clear();
      offsets_.clear();
      fields_.clear();
    }
    return true;
  }

  bool key(string_t& key) override {
    if (depth_ == 1) {
      if (!names_.insert(key).second) fail(ErrorCode::kCorrupt, "'{}' is given twice", key);
      name_ = key;
      return true;
    }
    field_ = key;
    if (name_ == "__metadata__") return true;
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail(ErrorCode::kCorrupt, "'{}' has the unknown field '{}'", name_, key);
    }
    if (!fields_.insert(key).second) fail(ErrorCode::kCorrupt, "'{}' has '{}' twice", name_, key);
    return true;
  }

  bool end_object() override {
    if (depth_-- == 2 && name_ != "__metadata__") add_tensor();
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || list_ != nullptr || name_ == "__metadata__" || field_ == "dtype")
      return refuse("a list");
    list_ = field_ == "shape" ? &shape_ : &offsets_;
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail(ErrorCode::kCorrupt, "its header is not JSON at byte {}", position);
  }

 private:
  bool refuse(const char* what) {
    fail(ErrorCode::kCorrupt, "its header has {} where none may be, at '{}'", what, name_);
  }

  void add_tensor() {
    TensorInfo tensor;
    tensor.name = name_;
    if (fields_.size() != 3)
      fail(ErrorCode::kCorrupt, "'{}' lacks dtype, shape or data_offsets", name_);
    const uint64_t element = dtype_bytes(dtype_);
    if (element == 0) fail(ErrorCode::kCorrupt, "'{}' has the unknown type '{}'", name_, dtype_);
    const uint64_t count = element_count(shape_);
    if (offsets_.size() != 2 || offsets_[1] < offsets_[0])
      fail(ErrorCode::kCorrupt, "'{}' has no valid data_offsets", name_);
    const auto bytes = static_cast<uint64_t>(offsets_[1] - offsets_[0]);
    if (count > std::numeric_limits<uint64_t>::max() / element || count * element != bytes) {
      fail(ErrorCode::kCorrupt, "'{}' of {} x {} has {} bytes", name_, count, dtype_, bytes);
    }
    tensor.dtype = dtype_;
    tensor.shape = shape_;
    tensor.offset = static_cast<uint64_t>(offsets_[0]);
    tensor.bytes = bytes;
    tensors_.push_back(std::move(tensor));
  }

  std::vector<TensorInfo>& tensors_;
  std::map<std::string, std::string>& metadata_;
  int depth_ = 0;
  std::string name_, field_, dtype_;
  std::vector<int64_t> shape_, offsets_;
  std::vector<int64_t>* list_ = nullptr;
  std::unordered_set<std::string> names_, fields_;
};

}  // namespace

std::string header_text(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string out = "{";
  try {
    if (!metadata.empty()) out += "\"__metadata__\":" + nlohmann::json(metadata).dump() + ",";
    for (const TensorInfo& tensor : tensors) {
      out += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                         nlohmann::json(tensor.name).dump(), tensor.dtype,
                         fmt::join(tensor.shape, ","), tensor.offset, tensor.offset + tensor.bytes);
    }
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "a tensor's name is not UTF-8");
  }
  if (out.back() == ',') out.pop_back();
  return out + "}";
}

void parse_header(std::string_view header, uint64_t data_bytes, std::vector<TensorInfo>& tensors,
                  std::map<std::string, std::string>& metadata) {
  if (!header.starts_with('{')) fail(ErrorCode::kCorrupt, "its header does not start with '{{'");
  HeaderHandler handler(tensors, metadata);
  nlohmann::json::sax_parse(header, &handler);
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != end) {
      fail(ErrorCode::kCorrupt, "'{}' starts at byte {} of the data, where {} was expected",
           tensor.name, tensor.offset, end);
    }
    end += tensor.bytes;
  }
  if (end != data_bytes)
    fail(ErrorCode::kCorrupt, "its tensors have {} bytes, {} follow the header", end, data_bytes);
}

}  // namespace craton::checkpoint
