// Zoom of a chart by mouse and keys: the range is in the address, and other parts that show the range follow it.
import { instant } from "../clock.js";
import { all } from "../dom.js";

// other parts that show the range: the tabs' links, and the events, which are requested again when zooming pauses
/** @type {ReturnType<typeof setTimeout>} */
let rest;
/** @param {URL} at */
const follow = (at) => {
  /** @type {HTMLAnchorElement[]} */ (all("a[data-tab]")).forEach((tab) => {
    const to = new URL(tab.href);
    for (const name of ["t0", "t1"]) {
      const value = at.searchParams.get(name);
      if (value) to.searchParams.set(name, value);
      else to.searchParams.delete(name);
    }
    tab.href = to.href;
  });
  clearTimeout(rest);
  if (document.getElementById("events"))
    rest = setTimeout(
      () =>
        /** @type {any} */ (window).htmx?.ajax("GET", location.href, {
          target: "#events",
          select: "#events",
          swap: "outerHTML",
        }),
      400,
    );
};

/**
 * A box that plotly has drawn in.
 * @typedef {HTMLElement & {on: (name: string, act: (event: any) => void) => void, layout: any, whole: number[]}} Drawn
 */

/**
 * A click on a mark goes to the address that the mark carries.
 * @param {Drawn} box
 */
export function followLinks(box) {
  box.on("plotly_click", (event) => {
    const url = event.points
      .map((/** @type {any} */ point) => point.customdata)
      .find((/** @type {unknown} */ value) => typeof value === "string" && value.startsWith("/"));
    if (url) location.assign(url);
  });
}

/** @type {(box: HTMLElement) => HTMLElement | null | undefined} */
const resetOf = (box) => box.closest(".panel")?.querySelector("[data-chart-reset]");

/**
 * The button that shows all is there while the chart shows a part.
 * @param {HTMLElement} box
 * @param {boolean} isPart
 */
export function showReset(box, isPart) {
  const reset = resetOf(box);
  if (reset) reset.hidden = !isPart;
}

/**
 * Lets a drawn chart be zoomed; `redraw` draws the range that it gets, in seconds as texts, null for all of it.
 * @param {Drawn} box
 * @param {(range: [string | null, string | null]) => void} redraw
 */
export function zoomable(box, redraw) {
  resetOf(box)?.addEventListener("click", () => {
    go(null, null);
    box.focus();
  });
  /** @type {(t0: number | null, t1: number | null) => void} */
  const go = (t0, t1) => {
    const at = new URL(location.href);
    if (t0 === null || t1 === null) {
      at.searchParams.delete("t0");
      at.searchParams.delete("t1");
    } else {
      at.searchParams.set("t0", (t0 / 1000).toFixed(3));
      at.searchParams.set("t1", (t1 / 1000).toFixed(3));
    }
    history.replaceState(null, "", at);
    follow(at);
    redraw(t0 === null || t1 === null ? [null, null] : [String(t0 / 1000), String(t1 / 1000)]);
  };
  box.on("plotly_relayout", (event) => {
    if (event["xaxis.autorange"]) go(null, null);
    else if (event["xaxis.range[0]"]) go(instant(event["xaxis.range[0]"]), instant(event["xaxis.range[1]"]));
  });
  box.tabIndex = 0;
  box.addEventListener("keydown", (event) => {
    const [a, b] = box.layout.xaxis.range.map(instant);
    const span = b - a;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {(by: number, and: number) => [number, number]} */
    const moved = (by, and) => [a + by * span, b + and * span];
    const left = moved(-1 / 4, -1 / 4),
      right = moved(1 / 4, 1 / 4),
      near = moved(1 / 4, -1 / 4),
      far = moved(-1 / 2, 1 / 2);
    /** @type {Record<string, [number, number] | [null, null]>} */
    const keys = {
      ArrowLeft: left,
      a: left,
      ArrowRight: right,
      d: right,
      "+": near,
      "=": near,
      w: near,
      "-": far,
      s: far,
      0: [null, null],
    };
    const to = keys[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    if (to[0] === null) {
      go(null, null);
      return;
    }
    go(Math.max(to[0], box.whole[0]), Math.min(to[1], box.whole[1]));
  });
}
