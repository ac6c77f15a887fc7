import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import kafkajs from "kafkajs";

import { Server } from "../coterie.js";

let kafka;

before(async () => {
  kafka = await Server.start();
});
beforeEach(() => kafka.post("/v1/reset"));
after(() => kafka.stop());

test("a commit survives a coordinator that moved", async () => {
  await kafka.post("/v1/topics", { name: "orders" });
  await kafka.post("/v1/topics/orders/records", {
    records: [{ value: "first" }, { value: "second" }],
  });
  const fault = await kafka.post("/v1/faults", {
    kind: "reply",
    api: "OffsetCommit",
    error: "NOT_COORDINATOR",
    group: "billing",
    times: 2,
  });
  assert.deepEqual(await readAndCommit(2), ["first", "second"]);
  assert.equal((await kafka.get(`/v1/faults/${fault.id}`)).hits, 2);
  const group = await kafka.get("/v1/groups/billing");
  assert.deepEqual(group.offsets, [{ topic: "orders", partition: 0, offset: 2 }]);
});

test("offsets of a group that was away for a week are gone", async () => {
  await kafka.post("/v1/topics", {
    name: "orders",
    config: { "retention.ms": "-1" }, // keep the records
  });
  await kafka.post("/v1/topics/orders/records", { records: [{ value: "first" }] });
  await readAndCommit(1);
  await kafka.post("/v1/clock/advance", { days: 8 });
  // Read again: without a committed offset the consumer starts at the first record.
  assert.deepEqual(await readAndCommit(1), ["first"]);
});

/** Read records as a member of the group billing, commit, and leave it. */
async function readAndCommit(count) {
  const { Kafka, logLevel } = kafkajs;
  const client = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING });
  const consumer = client.consumer({ groupId: "billing" });
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  const values = [];
  try {
    await new Promise((resolve, reject) => {
      consumer.on("consumer.crash", ({ payload }) => reject(payload.error));
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ topic, partition, message }) => {
            values.push(message.value.toString());
            const offset = String(Number(message.offset) + 1);
            await commit(consumer, { topic, partition, offset });
            if (values.length >= count) resolve();
          },
        })
        .catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
  return values;
}

/** Commit again after an error that passes: kafkajs leaves that to the application. */
async function commit(consumer, offset) {
  for (;;) {
    try {
      return await consumer.commitOffsets([offset]);
    } catch (error) {
      if (!error.retriable) throw error;
    }
  }
}
