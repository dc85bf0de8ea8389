// Opens a trace with Perfetto's own trace processor (WebAssembly, as the Perfetto page ships it) and asks it SQL.
//
// node perfetto.cjs FOLDER TRACE QUERY...  FOLDER: of engine_bundle.js. Prints a JSON list, per query a list of rows.
// The engine runs in a web worker and speaks protobuf (TraceProcessorRpc): enough of both is made here.
const fs = require("fs");
const path = require("path");
const vm = require("vm");
const { MessageChannel } = require("worker_threads");

const APPEND = 1, FINALIZE = 2, QUERY = 3;
const [folder, trace, ...queries] = process.argv.slice(2);

// -- protobuf: only what is needed ---------------------------------------------------------------------------

function varint(number) {
  const bytes = [];
  let left = BigInt(number);
  do {
    bytes.push(Number(left & 127n) | (left > 127n ? 128 : 0));
    left >>= 7n;
  } while (left);
  return Buffer.from(bytes);
}

const field = (number, data) => Buffer.concat([varint((number << 3) | 2), varint(data.length), data]);
const scalar = (number, value) => Buffer.concat([varint(number << 3), varint(value)]);

function* fields(data) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  };
  while (at < data.length) {
    const key = Number(read());
    if ((key & 7) === 0) yield [key >> 3, read()];
    else if ((key & 7) === 1) (yield [key >> 3, data.subarray(at, at + 8)], (at += 8));
    else {
      const length = Number(read());
      yield [key >> 3, data.subarray(at, at + length)];
      at += length;
    }
  }
}

function* unpack(data) {
  let value = 0n, shift = 0n;
  for (const byte of data) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      yield BigInt.asUintN(64, value);
      value = shift = 0n;
    }
  }
}

// -- rows of a QueryResult -----------------------------------------------------------------------------------

function rowsOf(results) {
  const names = [], rows = [];
  let row = [];
  for (const result of results)
    for (const [number, data] of fields(result)) {
      if (number === 1) names.push(data.toString());
      if (number === 2 && data.length) throw new Error(data.toString());
      if (number !== 3) continue;
      const kinds = [], whole = [], doubles = [], texts = [];
      for (const [part, cells] of fields(data)) {
        if (part === 1) kinds.push(...cells);
        if (part === 2) whole.push(...[...unpack(cells)].map((one) => BigInt.asIntN(64, one)));
        if (part === 3) for (let i = 0; i < cells.length; i += 8) doubles.push(cells.readDoubleLE(i));
        if (part === 5) texts.push(...cells.toString().split("\0"));
      }
      for (const kind of kinds) {
        row.push(kind === 2 ? Number(whole.shift()) : kind === 3 ? doubles.shift() : kind === 4 ? texts.shift() : null);
        if (row.length === names.length) {
          rows.push(Object.fromEntries(names.map((name, at) => [name, row[at]])));
          row = [];
        }
      }
    }
  return rows;
}

// -- the engine ----------------------------------------------------------------------------------------------

class XMLHttpRequest {
  open(method, name) {
    this.file = path.join(folder, path.basename(String(name)));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
  }
}

// Not Node's own context: there the engine would see that it is no web worker. Byte arrays are shared with it.
const quiet = { log() {}, warn() {}, error() {} };
const self = { location: { href: "file:///" } };
const worker = {
  self, console: quiet, location: self.location, WorkerGlobalScope: Object, XMLHttpRequest, WebAssembly, URL,
  TextDecoder, TextEncoder, Uint8Array, ArrayBuffer, TypeError, setTimeout, clearTimeout, performance, crypto: globalThis.crypto,
};
vm.runInNewContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker, { displayErrors: false });

const { port1, port2 } = new MessageChannel();
const engine = {};
Object.defineProperty(engine, "onmessage", { set: (handle) => port2.on("message", (data) => handle({ data })) });
engine.postMessage = (data) => port2.postMessage(data);

let sequence = 0;
const waiting = new Map();

function ask(method, args) {
  const message = Buffer.concat([scalar(1, ++sequence), scalar(2, method), args ?? Buffer.alloc(0)]);
  port1.postMessage(new Uint8Array(field(1, message)));
  return new Promise((resolve, reject) => waiting.set(method, { resolve, reject, results: [] }));
}

port1.on("message", (data) => {
  for (const [, message] of fields(Buffer.from(data))) {
    let method = 0, result = null;
    for (const [number, value] of fields(message)) {
      if (number === 5) throw new Error(value.toString());
      if (number === 3) method = Number(value);
      if (number === 201 || number === 203) result = value;
    }
    const asked = waiting.get(method);
    if (result) asked.results.push(result);
    const last = method !== QUERY || [...fields(result)].some(([n, v]) => n === 3 && [...fields(v)].some(([f, w]) => f === 6 && w));
    if (last) asked.resolve(asked.results);
  }
});

async function main() {
  await new Promise((resolve) => setTimeout(resolve, 0)); // the engine gets ready behind its promises
  self.onmessage({ data: engine });
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 1 << 20) await ask(APPEND, field(101, data.subarray(at, at + (1 << 20))));
  await ask(FINALIZE);
  const answers = [];
  for (const query of queries) answers.push(rowsOf(await ask(QUERY, field(103, field(1, Buffer.from(query))))));
  process.stdout.write(JSON.stringify(answers), () => process.exit(0));
}

main().catch((error) => {
  process.stderr.write(`${error.stack ?? error}\n`, () => process.exit(1));
});
