#include "craton/base/fault_point.h"

namespace craton {

const std::vector<FaultPoint>& fault_points() {
  static const std::vector<FaultPoint> points = {
      {"compute.before", "before forward of a micro-batch"},
      {"compute.after", "after backward of a micro-batch"},
      {"context.exchange", "before something is sent to a worker that shares the window"},
      {"reduce.send", "before a bucket's sums go to their holders"},
      {"reduce.collect", "after a primary has added up a bucket"},
      {"store.send", "before a primary hands a bucket's slots to its backups"},
      {"store.before_ack", "all slots of a backup are stored, not yet acknowledged"},
      {"store.after_ack", "a backup has acknowledged"},
      {"commit.before",
       "all acknowledgements are here, the commit is not entered; flip: in this worker's memory"},
      {"commit.sent", "the own part of the commit is sent, the others' not yet received"},
      {"commit.after", "the commit is complete, nothing applied"},
      {"apply.middle", "some chunks are applied, others not"},
      {"apply.after", "all chunks are applied, parameters not yet given out"},
      {"gather.sent", "own parameters are given out, the others' not yet received"},
      {"gather.after", "the step is over"},
      {"report.before", "fenced, before the report"},
      {"report.after", "reported, waiting for the decision"},
      {"transfer.chunk", "before a chunk of a second copy is sent"},
      {"transfer.received", "a chunk of a second copy has arrived"},
      {"admit.before", "a newcomer has been named a member, not yet connected"},
      {"admit.after", "a newcomer is connected, before its first step"},
      {"checkpoint.write", "before a checkpoint file is written"},
      {"checkpoint.between", "a worker's part is written, the manifest is not"},
      {"object.publish", "an object of a file store is written, not yet under its name"},
      {"cache.write", "an entry of the node's cache is begun, nothing is in it"},
      {"cache.full", "full: as if the cache's disk took no more bytes"},
      {"cache.publish", "an entry of the node's cache is written, not yet under its name"},
      {"cache.evict", "before an entry of the node's cache is removed"},
      {"copy.object", "an object of a copied volume is there"},
      {"copy.commit", "all of a copied volume is there but its root documents"},
      {"volume.chunk", "before a chunk of a volume is written"},
      {"volume.column", "all chunks of a column are written, not yet recorded"},
      {"volume.recorded", "a chunk column is recorded as written"},
      {"volume.finish", "all chunks are written, the rest is not"},
      {"volume.commit", "a volume is complete, not yet visible"},
      {"volume.visible", "a volume is visible, its journal not yet removed"},
      {"export.block", "before a block of traces is written"},
      {"export.recorded", "a block of traces is recorded as written"},
      {"export.commit", "a file is complete, not yet visible"},
      {"operator.before_persist", "the operator has decided, nothing is on disk"},
      {"operator.after_persist", "the decision is on disk, nobody has heard of it"},
  };
  return points;
}

}  // namespace craton
