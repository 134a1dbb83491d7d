// The log page: #L120-L134 marks lines (loading their window when it is not here), shift-click or J and K make a range,
// the map jumps, search walks the bytes and is taken up again where the page was left.

import { all, hit, one } from "./dom.js";

const head = one("[data-log]");
const base = head?.dataset.log ?? "";
/** @param {number} line */
const at = (line) => `${base}?line=${line}#L${line}`;

/** @type {() => [number, number] | null} the marked lines, both ends included */
const range = () => {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  if (!found) return null;
  const [a, b] = [Number(found[1]), Number(found[2] || found[1])];
  return [Math.min(a, b), Math.max(a, b)];
};
/** @param {[number, number]} lines */
const rowsOf = ([first, last]) => {
  const rows = [];
  for (let no = first; no <= Math.min(last, first + 5000); no += 1) {
    const row = document.getElementById(`L${no}`);
    if (row) rows.push(row);
  }
  return rows;
};
const mark = (isScrolled = true) => {
  document.querySelectorAll("tr.is-marked").forEach((row) => row.classList.remove("is-marked"));
  const lines = range();
  if (!lines) return;
  const rows = rowsOf(lines);
  if (!rows.length) {
    const url = new URL(location.href);
    if (url.searchParams.get("line") === String(lines[0])) return;
    for (const name of ["from", "count", "level", "who", "masked"]) url.searchParams.delete(name);
    url.searchParams.set("line", String(lines[0]));
    location.replace(url.href);
    return;
  }
  rows.forEach((row) => row.classList.add("is-marked"));
  if (isScrolled) {
    rows[0].scrollIntoView({ block: "center" });
    // a row may be wider than the page: its beginning is never cut off
    rows[0].closest(".table-wrap")?.scrollTo({ left: 0 });
  }
  offer(lines, rows);
};
// what can be done with the marked lines: taken along as a file or as words, looked at in all logs
/** @type {(lines: [number, number], rows: HTMLElement[]) => void} */
const offer = ([first, last], rows) => {
  const words = first === last ? `${first}` : `${first}–${last}`;
  one("[data-range-raw]")?.setAttribute("href", `${head?.dataset.raw}?from=${first}&to=${last}`);
  one("[data-range-raw] [data-range-words]")?.replaceChildren(words);
  const copy = one("[data-range-copy]");
  const text = rows.map((row) => one(".text", row)?.textContent).join("\n");
  if (copy) {
    copy.hidden = false;
    copy.dataset.copy = `${location.href}\n\`\`\`\n${text}\n\`\`\`\n`;
  }
  const instant = one(".at a", rows[0])?.getAttribute("href");
  if (instant) one('[data-act="instant"]')?.setAttribute("href", instant);
};
addEventListener("hashchange", () => mark());
mark();

/** @type {(first: number, last: number, isScrolled?: boolean) => void} */
const show = (first, last, isScrolled) => {
  const url = new URL(location.href);
  url.hash = first === last ? `#L${first}` : `#L${first}-L${last}`;
  if (url.searchParams.has("line")) url.searchParams.set("line", String(first));
  history.replaceState(null, "", url);
  mark(isScrolled);
};
document.addEventListener("click", (event) => {
  const link = hit(event, "#lines .no a");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const no = Number(link.textContent);
  const now = event.shiftKey && range();
  show(now ? Math.min(now[0], no) : no, now ? Math.max(now[1], no) : no, false);
});
document.addEventListener("logextend", (event) => {
  const now = range();
  const current = Number(one("#lines tr.is-current")?.id.slice(1));
  if (!now && !current) return;
  const [first, last] = now ?? [current, current];
  const row = document.getElementById(`L${now ? last : first}`);
  const next = by(event) > 0 ? row?.nextElementSibling : last > first ? row?.previousElementSibling : row;
  if (!next?.id) return;
  event.preventDefault();
  show(first, Number(next.id.slice(1)), false);
  next.scrollIntoView({ block: "nearest" });
});

// the map: a slider over the file; pointing and keys only move, a click or Enter goes
/** @type {(event: Event) => number} by how much an event of the page's own moves */
const by = (event) => /** @type {CustomEvent<number>} */ (event).detail;
const parts = () => all("#log-map g");
/** @param {HTMLElement | undefined} part */
const words = (part) => part?.querySelector("title")?.textContent ?? "";
/** @type {(map: HTMLElement, line: number) => number} */
const place = (map, line) => {
  const total = Number(map.dataset.lines);
  const no = Math.min(Math.max(Math.round(line), 1), total);
  const part = parts().findLast((one) => Number(one.dataset.first) <= no);
  map.setAttribute("aria-valuenow", String(no));
  map.setAttribute("aria-valuetext", `line ${no.toLocaleString("en")}; ${words(part)}`);
  one("[data-map-said]", map)?.replaceChildren(`line ${no.toLocaleString("en")} · ${words(part)}`);
  const cursor = map.querySelector(".at");
  cursor?.setAttribute("x", String((1000 * (no - 1)) / total));
  cursor?.setAttribute("visibility", "visible");
  return no;
};
/** @type {(map: HTMLElement, event: MouseEvent) => number} */
const under = (map, event) => {
  const box = (one("svg", map) ?? map).getBoundingClientRect();
  return 1 + ((event.clientX - box.left) / box.width) * (Number(map.dataset.lines) - 1);
};
document.addEventListener("pointermove", (event) => {
  const map = hit(event, "#log-map[data-map]");
  if (map) place(map, under(map, event));
});
document.addEventListener("click", (event) => {
  const map = hit(event, "#log-map[data-map]");
  if (map) location.assign(at(place(map, under(map, event))));
});
document.addEventListener("keydown", (event) => {
  const map = hit(event, "#log-map[data-map]");
  if (!map || event.ctrlKey || event.metaKey || event.altKey) return;
  const total = Number(map.dataset.lines),
    now = Number(map.getAttribute("aria-valuenow")),
    step = Math.max(1, total / 180);
  /** @type {Record<string, number>} */
  const keys = {
    ArrowLeft: now - step,
    ArrowDown: now - step,
    ArrowRight: now + step,
    ArrowUp: now + step,
    PageUp: now - 10 * step,
    PageDown: now + 10 * step,
    Home: 1,
    End: total,
  };
  if (!(event.key in keys) && event.key !== "Enter") return;
  event.preventDefault();
  if (event.key === "Enter") location.assign(at(now));
  else place(map, keys[event.key]);
});
document.addEventListener("logerrors", (event) => {
  const map = one("#log-map");
  if (!map?.dataset.map) return;
  const here = Number(/line=(\d+)/.exec(location.search)?.[1] ?? map.getAttribute("aria-valuenow"));
  const first = (/** @type {HTMLElement} */ part) => Number(part.dataset.first);
  const candidates = parts().filter(
    (part) => Number(part.dataset.errors) && (by(event) > 0 ? first(part) > here : first(part) < here),
  );
  const part = by(event) > 0 ? candidates[0] : candidates.at(-1);
  if (!part) return;
  event.preventDefault();
  location.assign(`${base}?from=${part.dataset.first}&level=4`);
});
// lines that the search found (find.js): one that is here is marked, another one is opened
document.addEventListener("logfound", (event) => {
  const here = range()?.[0] ?? Number(one("#lines tr[id]")?.id.slice(1) ?? 1) - 1;
  const found = all("[data-find-lines] li").map((item) => ({
    line: Number(item.dataset.line),
    link: item.querySelector("a"),
  }));
  const to = by(event) > 0 ? found.find(({ line }) => line > here) : found.findLast(({ line }) => line < here);
  if (!to) return;
  event.preventDefault();
  if (document.getElementById(`L${to.line}`)) show(to.line, to.line);
  else if (to.link) location.assign(to.link.href);
});
