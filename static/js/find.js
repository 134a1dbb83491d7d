// Search through the bytes of one log or of all: the server has found the messages; here the lines are walked, step by
// step, and taken up again where the page was left.

import { one } from "./dom.js";

/**
 * A line that the search found; `path` where all logs are searched.
 * @typedef {{line: number, text: string, path?: string}} Hit
 */

const params = new URLSearchParams(location.search);
const isPattern = params.has("regex");

/**
 * @param {HTMLFormElement} form
 * @param {HTMLElement} box of the results
 * @param {string} words
 */
function search(form, box, words) {
  const base = form.getAttribute("action") ?? "";
  /** @type {(name: string) => any} */
  const part = (name) => one(`[data-find-${name}]`, box);
  const MAX_HITS = 500;
  const key = `find ${base} ${isPattern ? "regex" : "words"} ${words}`;
  const already = JSON.parse(sessionStorage.getItem(key) ?? "null");
  /** @type {{hits: Hit[], cursor: string | null, done: number, size: number}} */
  const state = already ?? { hits: [], cursor: "", done: 0, size: 0 };
  const foundHtml = part("said").innerHTML;
  /** @type {AbortController | undefined} */
  let walk;
  // in a search of all logs each line names its file, whose page is next to this one
  /** @param {string} path */
  const pathOf = (path) => path.split("/").map(encodeURIComponent).join("/");
  /** @param {Hit} hit */
  const pageOf = (hit) =>
    hit.path === undefined
      ? base
      : base.replace(/search\/(\d+)\/$/, (_, attempt) => `logs/${attempt}/${pathOf(hit.path ?? "")}`);
  /** @param {Hit} hit */
  const searchQuery = (hit) =>
    hit.path === undefined ? `&find=${encodeURIComponent(words)}${isPattern ? "&regex=1" : ""}` : "";
  /** @param {Hit[]} hits */
  const add = (hits) =>
    part("lines").append(
      ...hits.map((hit) => {
        const item = document.createElement("li");
        item.dataset.cursor = "";
        item.dataset.line = String(hit.line);
        const name =
          hit.path === undefined ? hit.line.toLocaleString("en") : `${hit.path.split("/").at(-1)}:${hit.line}`;
        const link = Object.assign(document.createElement("a"), {
          href: `${pageOf(hit)}?line=${hit.line}${searchQuery(hit)}#L${hit.line}`,
          textContent: name,
          title: hit.path ?? "",
        });
        link.dataset.open = "";
        item.append(link, " ", Object.assign(document.createElement("code"), { textContent: hit.text }));
        return item;
      }),
    );
  /** @type {(isGoing: boolean, trouble?: string) => void} */
  const showProgress = (isGoing, trouble = "") => {
    const share = state.size ? Math.floor((100 * state.done) / state.size) : isGoing ? 0 : 100;
    const count = document.createElement("span");
    const lines = `${state.hits.length.toLocaleString("en")} line${state.hits.length === 1 ? "" : "s"}`;
    const end = isGoing ? "…" : state.cursor === null ? "." : ", stopped.";
    count.textContent = ` ${lines} found in ${share}\u00a0% of the bytes${trouble || end}`;
    part("said").innerHTML = foundHtml;
    part("said").append(count);
    part("progress").value = share / 100;
    part("progress").hidden = part("stop").hidden = !isGoing;
    part("more").hidden = isGoing || state.cursor === null;
  };
  // within one log: the next and the last hit from the marked line, round and round, and all of them on the map
  /** @type {(act: string, line: number | undefined) => void} */
  const point = (act, line) => {
    const link = one(`[data-act="${act}"]`, box);
    if (!link) return;
    link.hidden = line === undefined;
    link.setAttribute("href", `${base}?line=${line}${searchQuery({ line: line ?? 0, text: "" })}#L${line}`);
  };
  const lead = () => {
    const lines = state.hits.map((hit) => hit.line);
    const here = Number(/^#L(\d+)/.exec(location.hash)?.[1] ?? 0);
    point("next-hit", lines.find((line) => line > here) ?? lines[0]);
    point("previous-hit", lines.findLast((line) => line < here) ?? lines.at(-1));
    const map = one("#log-map[data-lines]");
    const picture = map?.querySelector("svg");
    if (!map || !picture) return;
    const total = Number(map.dataset.lines);
    const height = picture.viewBox.baseVal.height;
    const path = picture.querySelector(".found") ?? document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("class", "found");
    path.setAttribute("d", lines.map((line) => `M${(1000 * (line - 1)) / total} 0v${height}`).join(""));
    picture.append(path);
  };
  const mapWait = one(".log-map-wait");
  if (mapWait) new MutationObserver(lead).observe(mapWait, { childList: true });
  addEventListener("hashchange", lead);
  const keep = () => {
    try {
      sessionStorage.setItem(key, JSON.stringify(state));
    } catch {
      /* too much to remember: it is searched again */
    }
  };
  async function go() {
    const controller = (walk = new AbortController());
    const until = state.hits.length + MAX_HITS;
    try {
      while (state.cursor !== null && state.hits.length < until) {
        showProgress(true);
        const query = new URLSearchParams({ words, cursor: state.cursor, ...(isPattern ? { regex: "1" } : {}) });
        const reply = await fetch(`${form.dataset.find}?${query}`, { signal: controller.signal });
        if (reply.status === 410) {
          location.reload();
          return;
        } // the bytes are lost: the page says so
        if (!reply.ok) throw new Error(String(reply.status));
        const answer = await reply.json();
        const lastHits = new Set(state.hits.slice(-1).map((hit) => `${hit.path}:${hit.line}`));
        const fresh = answer.lines.filter((/** @type {Hit} */ hit) => !lastHits.has(`${hit.path}:${hit.line}`));
        add(fresh);
        state.hits.push(...fresh);
        Object.assign(state, { cursor: answer.next, done: answer.done, size: answer.size });
        keep();
        lead();
      }
      showProgress(false);
    } catch (/** @type {any} */ error) {
      showProgress(
        false,
        error.name === "AbortError" ? ", stopped." : "; then the server did not answer. Go on to try again.",
      );
    }
  }
  part("stop").addEventListener("click", () => walk?.abort());
  part("more").addEventListener("click", go);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !part("stop").hidden) walk?.abort();
  });
  part("lines").replaceChildren(); // what the server showed for want of JavaScript is walked here
  add(state.hits);
  lead();
  if (already) showProgress(false);
  else go();
}

const form = one("form[data-find]"),
  box = one("[data-find-results]");
const words = params.get("find")?.trim();
if (form instanceof HTMLFormElement && box && !box.hidden && words) search(form, box, words);
