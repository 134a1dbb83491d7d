// The figure of a job's timeline.
import assert from "node:assert/strict";

const probe = { style: {}, remove() {} };
Object.assign(globalThis, {
  document: { createElement: () => probe, body: { append() {} } },
  getComputedStyle: () => ({ color: "rgb(0, 0, 0)", fontFamily: "sans-serif" }),
});
const { timeline } = await import("../../static/js/chart/timeline.js");

/** @param {number} nodes */
const job = (nodes) => ({
  t0: 0,
  t1: 4000,
  stages: ["launch", "training"],
  nodes: Array.from({ length: nodes }, (_, i) => `node-${i}`),
  z: Array.from({ length: nodes }, () => [0, 1, 1, -1]),
  marks: [
    { row: 0, t: 3000, role: "root", text: "<b>Xid 79</b>", url: "/log" },
    { row: 0, t: 3500, role: "teardown", text: "end", url: "/log" },
  ],
  last_steps: [],
  iterations: { t: [1000, 2000], seconds: [1, 1], n: [1, 2] },
});
/** @param {number} width @param {object} data */
const box = (width, data = { keys: "", height: "400" }) => /** @type {any} */ ({ clientWidth: width, dataset: data });

localStorage.clear(); // times in UTC

Deno.test("a column is drawn at its middle, and unknown stages stay empty", () => {
  const [[heat]] = timeline(job(1), box(1000));
  assert.deepEqual(
    heat.x,
    ["00.500", "01.500", "02.500", "03.500"].map((s) => `1970-01-01 00:00:${s}`),
  );
  assert.deepEqual(heat.z, [[0, 1, 1, null]]);
});

Deno.test("root causes are drawn last, and their text is no markup", () => {
  const [traces] = timeline(job(1), box(1000));
  const names = traces.map((trace) => trace.name).filter((name) => ["root", "teardown"].includes(name));
  assert.deepEqual(names, ["teardown", "root"]);
  const text = traces.find((trace) => trace.name === "root")?.text[0];
  assert.equal(text.split("<br>")[1].includes("<"), false);
});

Deno.test("iterations are drawn in the chart that can be zoomed, and many nodes name only some lanes", () => {
  const names = (/** @type {any} */ drawn) => drawn[0].map((/** @type {any} */ trace) => trace.name);
  assert.equal(names(timeline(job(2), box(1000))).includes("iteration time"), true);
  assert.equal(names(timeline(job(2), box(1000, { height: "190" }))).includes("iteration time"), false);
  const [, layout] = timeline(job(1000), box(1000, { keys: "", height: "640" }));
  assert.equal(layout.height, 640);
  assert.equal(layout.yaxis.ticktext.length < 50, true);
});

Deno.test("the chart is as high as the room that the page kept free, and higher where its legend is beneath", () => {
  assert.equal(timeline(job(2), box(1000))[1].height, 400);
  assert.equal(timeline(job(2), box(390))[1].height, 464);
});
