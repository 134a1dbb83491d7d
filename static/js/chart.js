// Charts: loads plotly only where a chart comes into view, draws what its URL answers, in the page's colours and in the
// zone that times are shown in.
import { inZone } from "./clock.js";
import { all, one } from "./dom.js";
import { BREADTHS, frame, themed } from "./chart/look.js";
import { timeline } from "./chart/timeline.js";
import { followLinks, showReset, zoomable } from "./chart/zoom.js";

const source = one("script[data-plotly]")?.dataset.plotly ?? "";
/** @type {Promise<void> | undefined} */
let library;
/** Loads plotly once. */
const load = () =>
  (library ??= new Promise((/** @type {(nothing: void) => void} */ done, fail) => {
    if (window.Plotly) {
      done();
      return;
    }
    const script = Object.assign(document.createElement("script"), {
      src: source,
      onload: () => done(),
      onerror: () => fail(new Error("plotly")),
    });
    document.head.append(script);
  }));

/**
 * Seconds as texts; nulls for all of it.
 * @typedef {[string | null, string | null]} Range
 */

/** @type {(z: unknown[][], names: string[]) => string[][]} the name of its row for each cell */
const repeated = (z, names) => z.map((row, r) => row.map(() => names[r]));

/** @type {(box: HTMLElement, range?: Range) => URL} */
function urlOf(box, range) {
  const at = new URL(box.dataset.chartUrl ?? "", location.href);
  const here = new URLSearchParams(location.search);
  const [t0, t1] = range ?? [here.get("t0"), here.get("t1")];
  if (t0 && t1 && "keys" in box.dataset) {
    at.searchParams.set("t0", t0);
    at.searchParams.set("t1", t1);
  } else if (range) at.searchParams.set("whole", "1");
  return at;
}

/**
 * A chart's data is in the page (data-chart names a JSON script) or is fetched (data-chart-url).
 * @type {(box: HTMLElement, range?: Range) => Promise<any>}
 */
async function dataOf(box, range) {
  if (box.dataset.chart) return JSON.parse(document.getElementById(box.dataset.chart)?.textContent ?? "{}");
  const answer = await fetch(urlOf(box, range));
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

/** @type {(box: HTMLElement, range?: Range) => Promise<void>} */
async function draw(box, range) {
  try {
    const [data] = await Promise.all([dataOf(box, range), load()]);
    if (data.empty) {
      box.replaceChildren(
        Object.assign(document.createElement("p"), { className: "chart-wait muted", textContent: data.empty }),
      );
      return;
    }
    const isTimeline = "z" in data;
    const figure = isTimeline ? data : inZone(data);
    for (const trace of data.data ?? [])
      // plotly names no tick in a hover
      if (trace.type === "heatmap" && trace.meta) trace.text = repeated(trace.z, trace.meta);
    const [traces, layout] = isTimeline ? timeline(data, box) : [figure.data, frame(themed(figure.layout, box))];
    if (isOnPaper) layout.width = PAPER_PX;
    if (!box.querySelector(".js-plotly-plot, .plot-container")) box.replaceChildren();
    if (layout.height) box.style.height = `${layout.height + 8}px`; // its padding
    await window.Plotly.react(box, traces, layout, { displayModeBar: false, responsive: true, displaylogo: false });
    const drawn = /** @type {import("./chart/zoom.js").Drawn} */ (box);
    if (!box.dataset.wired) {
      followLinks(drawn);
      if ("keys" in box.dataset) zoomable(drawn, (part) => draw(box, part));
    }
    box.dataset.wired = "1";
    drawn.whole = data.whole;
    if ("keys" in box.dataset && data.whole) showReset(drawn, data.t0 > data.whole[0] || data.t1 < data.whole[1]);
    box.dataset.breadth = breadth(box);
    resized.observe(box);
    box.setAttribute("role", "img");
    box.setAttribute(
      "aria-label",
      isTimeline ? `Timeline of ${data.lanes} nodes with ${data.marks.length} marks` : (data.label ?? "Chart"),
    );
  } catch {
    box.replaceChildren(
      Object.assign(document.createElement("p"), {
        className: "chart-wait problem",
        textContent: "The chart could not be drawn: reload the page to try again.",
      }),
    );
  }
}

// Paper is white and narrow: charts are drawn for it before printing, and for the screen again afterwards.
const PAPER_PX = 660;
let isOnPaper = false,
  /** @type {string | undefined} */ chosen;
const drawn = () => all(".chart[data-wired]");
/** @param {boolean} is */
const print = (is) => {
  isOnPaper = is;
  const root = document.documentElement;
  if (is) {
    chosen = root.dataset.theme;
    root.dataset.theme = "light";
  } else if (chosen) root.dataset.theme = chosen;
  else delete root.dataset.theme;
  // without a width plotly keeps the one it drew with last
  for (const box of drawn()) draw(box).then(() => isOnPaper || window.Plotly.Plots.resize(box));
};
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
// those below the fold are not drawn before they are asked for
document.addEventListener("prepareprint", (event) => {
  const waiting = /** @type {CustomEvent<Promise<void>[]>} */ (event).detail;
  waiting.push(...all(".chart[data-watched]:not([data-wired])").map((box) => draw(box)));
});

// How much a chart says of its legend and ticks depends on its width; plotly itself only stretches it.
/** @param {HTMLElement} box */
const breadth = (box) => String(BREADTHS.filter((least) => box.clientWidth > least).length);
const resized = new ResizeObserver((entries) => {
  if (isOnPaper) return;
  for (const { target } of entries)
    if (target instanceof HTMLElement && target.dataset.breadth !== breadth(target)) draw(target);
});

const visibility = new IntersectionObserver(
  (entries) =>
    entries.forEach((entry) => {
      if (entry.isIntersecting) {
        visibility.unobserve(entry.target);
        draw(/** @type {HTMLElement} */ (entry.target));
      }
    }),
  { rootMargin: "200px" },
);
const watch = () =>
  all(".chart:is([data-chart-url], [data-chart]):not([data-watched])").forEach((box) => {
    box.dataset.watched = "1";
    visibility.observe(box);
  });
watch();
document.addEventListener("htmx:after:settle", watch);
for (const change of ["themechange", "zonechange"])
  document.addEventListener(change, () => drawn().forEach((box) => draw(box)));
