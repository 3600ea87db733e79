#pragma once

#include <memory>
#include <string>

#include "craton/store/http/client.h"
#include "craton/store/object_store.h"

namespace craton::store::http {

/// What reading means over HTTP, for every store that is a web server.
class RemoteStore : public ObjectStore {
 public:
  std::optional<Bytes> get(std::string_view key) override;
  std::optional<std::span<const std::byte>> get_into(std::string_view key, Bytes& buffer) override;
  /// From twice `Limits::part_bytes` on in parallel ranges of one version of the object.
  std::optional<Bytes> get_range(std::string_view key, uint64_t offset, uint64_t length) override;
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t length) override;
  std::optional<ObjectInfo> head(std::string_view key) override;

 protected:
  RemoteStore(std::shared_ptr<Service> service, const Limits& limits)
      : client_(std::move(service), limits) {}

  void fetch_many(std::span<const ObjectRead> reads, size_t parallel,
                  const ReadSink& sink) override;
  /// A request for `key`; kInvalidArgument for what is no key.
  virtual Call make_call(std::string_view method, std::string_view key) const = 0;
  /// Explains a refusal to read.
  virtual void add_hint(Error& error) const {}
  /// Whether an answer means that there is no such object. Throws where it means something worse.
  virtual bool is_missing(const Call& call) const = 0;

  Client client_;

 private:
  struct Slot;
  void run(Call& call);
  void start(Slot& slot, const ObjectRead& read);
  ObjectFound found(Slot& slot, const ObjectRead& read);
  bool read(std::string_view key, BodyReader& reader);
  std::optional<Bytes> get_parts(std::string_view key, uint64_t offset, uint64_t length);
};

}  // namespace craton::store::http
