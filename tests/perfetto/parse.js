// SPDX-License-Identifier: Apache-2.0
// What Perfetto's own trace processor (its WebAssembly build, as its UI runs it) makes of a trace.
//
//   node parse.js FOLDER TRACE.json     FOLDER: a release of Perfetto's UI
//
// Prints one JSON object: `errors`, the processor's own counts of what it could not import; `lanes`,
// for each thread its process, name, slices and their total length in ns. Speaks the processor's
// protocol, protos/perfetto/trace_processor/trace_processor.proto, by hand: fields are numbers.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');
const [folder, trace] = process.argv.slice(2);

// --- Protobuf ---

function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 + 128);
  return Buffer.from([...out, n]);
}
const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint(field * 8 + 2), varint(b.length), b]);

function readVarint(b, at) {
  let n = 0n, shift = 0n, byte;
  do {
    byte = b[at.i++];
    n |= BigInt(byte & 127) << shift;
    shift += 7n;
  } while (byte > 127);
  return Number(BigInt.asIntN(64, n));
}

// {field: [value, ...]}: numbers, or Buffers for what has a length.
function fields(b) {
  const out = {}, at = {i: 0};
  while (at.i < b.length) {
    const key = readVarint(b, at), field = key >>> 3;
    let value;
    if ((key & 7) === 0) value = readVarint(b, at);
    else if ((key & 7) === 1) value = b.readDoubleLE(at.i), at.i += 8;
    else if ((key & 7) === 2) {
      const n = readVarint(b, at);
      value = b.subarray(at.i, at.i + n), at.i += n;
    } else throw new Error(`wire type ${key & 7}`);
    (out[field] = out[field] || []).push(value);
  }
  return out;
}

// --- The processor ---

const APPEND = 1, FINALIZE = 2, QUERY = 3;
const replies = [];
const port = {postMessage: (data) => replies.push(Buffer.from(data))};
let sequence = 0;

function request(method, args) {
  const rpc = Buffer.concat([number(1, sequence++), number(2, method), args]);
  replies.length = 0;
  port.onmessage({data: new Uint8Array(bytes(1, rpc))});
  return replies.flatMap((r) => fields(r)[1].map((m) => {
    const f = fields(m);
    if (f[5]) throw new Error(`the processor died: ${f[5][0]}`);
    return f;
  }));
}

// Rows of a query, as arrays of numbers, strings and null.
function query(sql) {
  const cells = [];
  let columns = 0;
  for (const f of request(QUERY, bytes(103, bytes(1, Buffer.from(sql)))))
    for (const result of f[203] || []) {
      const r = fields(result);
      if (r[2]) throw new Error(`${sql}: ${r[2][0]}`);
      columns = columns || (r[1] || []).length;
      for (const batch of r[3] || []) {
        const c = fields(batch), at = {i: 0};
        const types = c[1] ? [...c[1][0]] : [];
        const strings = c[5] ? c[5][0].toString().split('\0') : [];
        for (const type of types)
          if (type === 1) cells.push(null);
          else if (type === 2) cells.push(readVarint(c[2][0], at));
          else if (type === 4) cells.push(strings.shift());
          else throw new Error(`cells of type ${type}`);
      }
    }
  const rows = [];
  while (cells.length) rows.push(cells.splice(0, columns));
  return rows;
}

function main() {
  const text = fs.readFileSync(trace);
  for (let at = 0; at < text.length; at += 1 << 20)
    request(APPEND, bytes(101, text.subarray(at, at + (1 << 20))));
  request(FINALIZE, Buffer.alloc(0));
  const errors = query(
      "select name, value from stats where severity in ('error', 'data_loss') and value > 0");
  const lanes = query(
      'select process.pid, process.name, thread.tid, thread.name, count(*), sum(slice.dur), ' +
      'max(slice.depth) from slice join thread_track on slice.track_id = thread_track.id ' +
      'join thread using (utid) join process using (upid) group by utid order by process.pid, ' +
      'thread.tid');
  console.log(JSON.stringify({errors, lanes}));
  process.exit(0);
}

// The engine is a Web worker's script: it asks for its WebAssembly, and its first message is a port.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function() {};
globalThis.location = {href: 'http://localhost/engine_bundle.js'};
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = class {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
  }
};
const node = globalThis.process;
globalThis.process = undefined; // it refuses to be started by node
vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'));
globalThis.process = node;
self.onmessage({data: port});
setImmediate(main); // after the promises by which it starts
