// Resumable sending of files, against a site that answers as its API does.
import assert from "node:assert/strict";
import { Kept } from "../../static/js/upload/kept.js";
import { Sending } from "../../static/js/upload/sending.js";

/** @typedef {{method: string, url: string, offset: number, size: number}} Call */
/** The answers to come, by method; without one the request succeeds. @type {Record<string, (Answer | "broken")[]>} */
let planned = {};
/** @typedef {{status: number, detail?: string, headers?: Record<string, string>, stored?: number}} Answer */
/** @type {Call[]} */
let calls = [];
let stored = 0;

class Request extends EventTarget {
  upload = new EventTarget();
  status = 0;
  responseText = "";
  /** @type {Record<string, string>} */
  headers = {};
  /** @type {Record<string, string>} */
  answer = {};
  #method = "";
  #url = "";
  /** @param {string} method @param {string} url */
  open(method, url) {
    [this.#method, this.#url] = [method, url];
  }
  /** @param {string} name @param {string} value */
  setRequestHeader(name, value) {
    this.headers[name] = value;
  }
  /** @param {string} name */
  getResponseHeader(name) {
    return this.answer[name] ?? null;
  }
  abort() {
    this.dispatchEvent(new Event("abort"));
  }
  /** @param {Blob} [body] */
  send(body) {
    const size = body?.size ?? 0;
    calls.push({ method: this.#method, url: this.#url, offset: Number(this.headers["Upload-Offset"] ?? -1), size });
    const next = planned[this.#method]?.shift();
    queueMicrotask(() => {
      if (next === "broken") {
        stored += Math.floor(size / 2);
        this.dispatchEvent(new Event("error"));
        return;
      }
      if (this.#method === "PATCH" && !next) stored += size;
      this.status = next?.status ?? 200;
      this.responseText = JSON.stringify({ detail: next?.detail });
      this.answer = { "Upload-Offset": String(stored), Location: "/uploads/1", ...next?.headers };
      this.dispatchEvent(new Event("load"));
      this.dispatchEvent(new Event("loadend"));
    });
  }
}
Object.assign(globalThis, { XMLHttpRequest: Request, window: globalThis });

/**
 * Send one file of ten bytes in pieces of four; returns its entry and what was said of troubles.
 * @param {Record<string, (Answer | "broken")[]>} answers
 */
const send = async (answers) => {
  [planned, calls, stored] = [answers, [], 0];
  localStorage.clear();
  /** @type {any} */
  const entry = { file: new File(["0123456789"], "a.log"), path: "a.log", sent: 0, state: "", problem: "" };
  /** @type {string[]} */
  const troubles = [];
  const sending = new Sending({
    slug: "job",
    address: "/uploads/",
    token: "t",
    chunkBytes: 4,
    kept: new Kept("7"),
    onSent: (one, sent) => (one.sent = sent),
    onEnded: () => {},
    onTrouble: (words) => troubles.push(words),
  });
  await sending.all([entry]);
  return { entry, troubles };
};
const offsets = () => calls.filter((call) => call.method === "PATCH").map((call) => call.offset);

Deno.test("a file goes up in pieces until all its bytes have arrived", async () => {
  const { entry } = await send({});
  assert.deepEqual([offsets(), entry.state, entry.sent, localStorage.length], [[0, 4, 8], "done", 10, 0]);
});

Deno.test("after a broken connection it continues at the byte that the site has", async () => {
  const { entry, troubles } = await send({ PATCH: ["broken"] });
  assert.deepEqual([offsets(), entry.state, troubles.length], [[0, 2, 6], "done", 1]);
});

Deno.test("a busy site is asked again after the time that it states", async () => {
  const { entry } = await send({ POST: [{ status: 429, detail: "Too many.", headers: { "Retry-After": "0.01" } }] });
  assert.deepEqual([entry.state, calls.filter((call) => call.method === "POST").length], ["done", 2]);
});

Deno.test("a refusal ends the file with the site's sentence, and is not repeated", async () => {
  const { entry } = await send({ POST: [{ status: 413, detail: "a.log is too large." }] });
  assert.deepEqual([entry.state, entry.problem, calls.length], ["refused", "a.log is too large.", 1]);
});

Deno.test("a person who was signed out is asked to sign in again", async () => {
  const { entry } = await send({ POST: [{ status: 401 }] });
  assert.match(entry.problem, /sign in in another tab/);
});
