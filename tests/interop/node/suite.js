// Cases of the gRPC client rocketmq-client-nodejs, through a proxy.
// env: PROXY_ADDR, PREFIX (of the topics and the group that are configured beforehand), LEFT_OUT (names of
// cases), PAR (cases at a time). args: parts of names of the cases to run (none = all). Ends with "N passed, N failed".
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');

const PREFIX = process.env.PREFIX || 'grpc';
const LEFT_OUT = (process.env.LEFT_OUT || '').split(',');
const RUN = (Date.now() % 1e8).toString(36);
const [NORMAL, FIFO, DELAY, TRANSACTION] =
  ['normal', 'fifo', 'delay', 'transaction'].map(kind => `${PREFIX}_${kind}`);
const ORDERLY_GROUP = `${PREFIX}_g_fifo`;
const AWAIT_MS = 3000;
const INVISIBLE_MS = 30000;
const CASE_MS = 150000;
// Numbers of FilterType.SQL and TransactionResolution in the protocol.
const SQL = 2;
const [COMMIT, ROLLBACK] = [1, 2];

const silent = () => {};
const logger = { info: silent, warn: silent, error: silent, debug: silent, trace: silent, log: silent };
const base = {
  endpoints: process.env.PROXY_ADDR || '127.0.0.1:8081', namespace: '', logger, requestTimeout: 10000,
};

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const text = message => message.body.toString();

function check(holds, what) {
  if (!holds) throw new Error(what);
}

function same(found, expected, what) {
  const [is, must] = [found, expected].map(value => JSON.stringify(value));
  check(is === must, `${what}: expected ${must}, got ${is}`);
}

async function until(seconds, what, holds) {
  const end = Date.now() + seconds * 1000;
  while (!holds()) {
    check(Date.now() < end, `timed out waiting for ${what()}`);
    await sleep(20);
  }
}

/** One case: a tag and a group of its own, and the clients to shut down at its end. */
class Scene {
  constructor(name) {
    this.tag = name + RUN;
    this.group = `${PREFIX}_g_${name}_${RUN}`;
    this.clients = [];
  }

  async started(client) {
    await client.startup();
    this.clients.push(client);
    return client;
  }

  producer(topics, options = {}) {
    return this.started(new Producer({ ...base, topics, ...options }));
  }

  /** A consumer of a group that has nothing left from before. */
  async simple(topic, expression, group = this.group) {
    const subscriptions = new Map([[topic, expression]]);
    const options = { ...base, consumerGroup: group, subscriptions, awaitDuration: AWAIT_MS };
    const consumer = await this.started(new SimpleConsumer(options));
    // The group begins where a queue ends when it is first asked for: all queues, before the sends.
    for (let i = 0; i < 5; i++) {
      for (const message of await consumer.receive(32, INVISIBLE_MS)) await consumer.ack(message);
    }
    return consumer;
  }

  async push(topic, consumes) {
    const consume =
      async message => (consumes(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE);
    const subscriptions = new Map([[topic, this.tag]]);
    const options = { ...base, consumerGroup: this.group, subscriptions, messageListener: { consume } };
    await this.started(new PushConsumer(options));
    await sleep(AWAIT_MS);
  }

  message(topic, body, options = {}) {
    return { topic, tag: this.tag, keys: ['key1'], body: Buffer.from(body), ...options };
  }
}

/** Receives until there are `count` different bodies, or `seconds` are over. */
async function drain(consumer, count, seconds, invisible = INVISIBLE_MS, ack = true) {
  const got = new Map();
  const end = Date.now() + seconds * 1000;
  while (got.size < count && Date.now() < end) {
    for (const message of await consumer.receive(32, invisible)) {
      got.set(text(message), message);
      if (ack) await consumer.ack(message);
    }
  }
  return got;
}

const CASES = {
  async send(scene) {
    const producer = await scene.producer([NORMAL]);
    const properties = new Map([['a', 'b']]);
    const receipt = await producer.send(scene.message(NORMAL, 'one', { properties }));
    same(receipt.messageId.length, 34, 'length of a message id');
    const numbers = [...Array(30).keys()];
    const sent = await Promise.all(numbers.map(i => producer.send(scene.message(NORMAL, 'b' + i))));
    same(new Set(sent.map(each => each.messageId)).size, 30, 'different ids');
  },

  async simple_receive_ack(scene) {
    const consumer = await scene.simple(NORMAL, scene.tag);
    const producer = await scene.producer([NORMAL]);
    const word = '\u65e5\u672c h\u00e9llo ';
    const properties = new Map([['u', word]]);
    for (let i = 0; i < 20; i++) await producer.send(scene.message(NORMAL, word + i, { properties }));
    const got = await drain(consumer, 20, 60);
    same(got.size, 20, 'messages');
    const third = got.get(word + 3);
    same(third.properties.get('u'), word, 'property');
    same([third.tag, third.topic, third.keys[0]], [scene.tag, NORMAL, 'key1'], 'tag, topic and key');
    same(third.deliveryAttempt, 1, 'attempt');
  },

  async simple_redelivery(scene) {
    const consumer = await scene.simple(NORMAL, scene.tag);
    await (await scene.producer([NORMAL])).send(scene.message(NORMAL, 'again'));
    same((await drain(consumer, 1, 60, 10000, false)).size, 1, 'first');
    const second = await drain(consumer, 1, 60, 10000);
    same(second.get('again')?.deliveryAttempt, 2, 'attempt');
  },

  async simple_change_invisible(scene) {
    const consumer = await scene.simple(NORMAL, scene.tag);
    await (await scene.producer([NORMAL])).send(scene.message(NORMAL, 'changed'));
    const first = await drain(consumer, 1, 60, 120000, false);
    same(first.size, 1, 'first');
    const start = Date.now();
    await consumer.changeInvisibleDuration(first.get('changed'), 10000);
    same((await drain(consumer, 1, 80, 10000)).size, 1, 'second');
    const seconds = (Date.now() - start) / 1000;
    check(seconds > 6 && seconds < 80, `again after ${seconds} s`);
  },

  async push_consume(scene) {
    const got = new Set();
    await scene.push(NORMAL, message => got.add(text(message)));
    const producer = await scene.producer([NORMAL]);
    for (let i = 0; i < 50; i++) await producer.send(scene.message(NORMAL, 'b' + i));
    await until(60, () => `50 messages, got ${got.size}`, () => got.size === 50);
  },

  async push_retry(scene) {
    const attempts = [];
    await scene.push(NORMAL, message => attempts.push(message.deliveryAttempt) > 1);
    await (await scene.producer([NORMAL])).send(scene.message(NORMAL, 'again'));
    await until(100, () => `2 attempts, got ${attempts}`, () => attempts.length >= 2);
    same(attempts, [1, 2], 'attempts');
  },

  async tag_or_filter(scene) {
    const consumer = await scene.simple(NORMAL, `A${scene.tag}||B${scene.tag}`);
    const producer = await scene.producer([NORMAL]);
    for (const letter of 'ABC') {
      const tag = letter + scene.tag;
      for (let i = 0; i < 5; i++) await producer.send(scene.message(NORMAL, letter + i, { tag }));
    }
    const got = [...(await drain(consumer, 11, 15)).keys()];
    same(got.length, 10, 'messages');
    check(!got.some(body => body.startsWith('C')), `got ${got}`);
  },

  async sql_filter(scene) {
    const expression = `run = '${scene.tag}' AND a BETWEEN 3 AND 6`;
    const consumer = await scene.simple(NORMAL, new FilterExpression(expression, SQL));
    const producer = await scene.producer([NORMAL]);
    for (let i = 0; i < 10; i++) {
      const properties = new Map([['run', scene.tag], ['a', `${i}`]]);
      await producer.send(scene.message(NORMAL, 'q' + i, { properties }));
    }
    const got = [...(await drain(consumer, 5, 15)).keys()];
    same(got.sort(), ['q3', 'q4', 'q5', 'q6'], 'messages');
  },

  async fifo_order_simple(scene) {
    const consumer = await scene.simple(FIFO, scene.tag, ORDERLY_GROUP);
    const producer = await scene.producer([FIFO]);
    const numbers = [...Array(10).keys()];
    for (const i of numbers) {
      for (const messageGroup of ['o1', 'o2']) {
        await producer.send(scene.message(FIFO, `${messageGroup}:${i}`, { messageGroup }));
      }
    }
    const seen = { o1: [], o2: [] };
    const end = Date.now() + 90000;
    for (let count = 0; count < 20 && Date.now() < end;) {
      for (const message of await consumer.receive(4, INVISIBLE_MS)) {
        const [order, number] = text(message).split(':');
        seen[order].push(Number(number));
        await consumer.ack(message);
        count++;
      }
    }
    same(seen, { o1: numbers, o2: numbers }, 'order');
  },

  async delay(scene) {
    let came = 0;
    await scene.push(DELAY, () => (came ||= Date.now()));
    const producer = await scene.producer([DELAY]);
    const due = Date.now() + 5000;
    await producer.send(scene.message(DELAY, 'later', { delay: 5000 }));
    await until(60, () => 'the message', () => came);
    check(came > due - 1000, `delivered ${due - came} ms before its time`);
  },

  async delay_recall(scene) {
    const came = new Set();
    await scene.push(DELAY, message => came.add(text(message)));
    const producer = await scene.producer([DELAY]);
    const receipt = await producer.send(scene.message(DELAY, 'back', { delay: 8000 }));
    await producer.send(scene.message(DELAY, 'stays', { delay: 10000 }));
    check(receipt.recallHandle, 'no recall handle');
    await producer.recallMessage(DELAY, receipt.recallHandle);
    await until(60, () => 'the one that stays', () => came.has('stays'));
    await sleep(2000);
    same([...came], ['stays'], 'delivered');
  },

  async transaction(scene) {
    const came = new Set();
    const checked = new Set();
    const checker = {
      async check(message) {
        checked.add(text(message));
        return text(message) === 'unknown-commit' ? COMMIT : ROLLBACK;
      },
    };
    await scene.push(TRANSACTION, message => came.add(text(message)));
    const producer = await scene.producer([TRANSACTION], { checker });
    for (const body of ['commit', 'rollback', 'unknown-commit', 'unknown-rollback']) {
      const begun = producer.beginTransaction();
      await producer.send(scene.message(TRANSACTION, body), begun);
      if (body === 'commit') await begun.commit();
      if (body === 'rollback') await begun.rollback();
    }
    const what = () => `two commits and both checks, got ${[...came]}, checked ${[...checked]}`;
    await until(100, what, () => came.size >= 2 && checked.has('unknown-rollback'));
    await sleep(1000);
    same([...came].sort(), ['commit', 'unknown-commit'], 'visible');
  },

  async wrong_message_type(scene) {
    const producer = await scene.producer([FIFO]);
    const refused = await producer.send(scene.message(FIFO, 'of no group')).then(() => false, () => true);
    check(refused, 'a message without a group was taken by a FIFO topic');
  },
};

async function run(name) {
  const scene = new Scene(name);
  const start = Date.now();
  const late = sleep(CASE_MS).then(() => { throw new Error('the case took too long'); });
  late.catch(silent);
  let outcome = 'PASS';
  try {
    await Promise.race([CASES[name](scene), late]);
  } catch (error) {
    outcome = `FAIL: ${String(error.stack || error).replace(/\s+/g, ' ').slice(0, 300)}`;
  }
  console.log(name.padEnd(24), String(Date.now() - start).padStart(6), 'ms ', outcome);
  for (const client of scene.clients) {
    Promise.resolve().then(() => client.shutdown()).catch(error => {
      console.log(name.padEnd(24), 'while it was shut down:', String(error));
    });
  }
  return outcome === 'PASS';
}

async function main(parts) {
  const names = Object.keys(CASES).filter(name => !LEFT_OUT.includes(name));
  const wanted = names.filter(name => !parts.length || parts.some(part => name.includes(part)));
  const waiting = [...wanted];
  let passed = 0;
  const turn = async () => {
    for (let name; (name = waiting.shift());) {
      const holds = await run(name);
      passed += holds;
    }
  };
  await Promise.all([...Array(Number(process.env.PAR || 3))].map(turn));
  const failed = wanted.length - passed;
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

// The client leaves calls behind that end with its connections.
process.on('unhandledRejection', silent);
main(process.argv.slice(2));
