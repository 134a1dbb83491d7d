// The log page: #L120-L134 marks lines (loading their window when it is not here), shift-click or J and K make a range,
// the map jumps, search walks the bytes and is taken up again where the page was left.

const head = document.querySelector("[data-log]");
const base = head.dataset.log;
const at = (line) => `${base}?line=${line}#L${line}`;

const range = () => {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  return found && [Number(found[1]), Number(found[2] || found[1])].sort((a, b) => a - b);
};
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
  const wanted = range();
  if (!wanted) return;
  const rows = rowsOf(wanted);
  if (!rows.length) {
    const url = new URL(location.href);
    if (url.searchParams.get("line") === String(wanted[0])) return;
    for (const name of ["from", "count", "level", "who", "masked"]) url.searchParams.delete(name);
    url.searchParams.set("line", wanted[0]);
    location.replace(url);
    return;
  }
  rows.forEach((row) => row.classList.add("is-marked"));
  if (isScrolled) rows[0].scrollIntoView({ block: "center" });
  offer(wanted, rows);
};
// what can be done with the marked lines: taken along as a file or as words, looked at in all logs
const offer = ([first, last], rows) => {
  const words = first === last ? `${first}` : `${first}–${last}`;
  const raw = document.querySelector("[data-range-raw]");
  raw.href = `${head.dataset.raw}?from=${first}&to=${last}`;
  raw.querySelector("[data-range-words]").textContent = words;
  const copy = document.querySelector("[data-range-copy]");
  copy.hidden = false;
  const text = rows.map((row) => row.querySelector(".text").textContent).join("\n");
  copy.dataset.copy = `${location.href}\n\`\`\`\n${text}\n\`\`\`\n`;
  const instant = rows[0].querySelector(".at a");
  const link = document.querySelector('[data-act="instant"]');
  if (instant && link) link.href = instant.href;
};
addEventListener("hashchange", () => mark());
mark();

const show = (first, last, isScrolled) => {
  const url = new URL(location.href);
  url.hash = first === last ? `#L${first}` : `#L${first}-L${last}`;
  if (url.searchParams.has("line")) url.searchParams.set("line", first);
  history.replaceState(null, "", url);
  mark(isScrolled);
};
document.addEventListener("click", (event) => {
  const link = event.target.closest("#lines .no a");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const no = Number(link.textContent);
  const now = event.shiftKey && range();
  show(now ? Math.min(now[0], no) : no, now ? Math.max(now[1], no) : no, false);
});
document.addEventListener("logextend", (event) => {
  const now = range();
  const current = document.querySelector("#lines tr.is-current");
  if (!now && !current) return;
  const [first, last] = now ?? Array(2).fill(Number(current.id.slice(1)));
  const row = document.getElementById(`L${now ? last : first}`);
  const next = event.detail > 0 ? row?.nextElementSibling : last > first ? row?.previousElementSibling : row;
  if (!next?.id) return;
  event.preventDefault();
  show(first, Number(next.id.slice(1)), false);
  next.scrollIntoView({ block: "nearest" });
});

// the map: a slider over the file; pointing and keys only move, a click or Enter goes
const parts = () => [...document.querySelectorAll("#log-map g")];
const place = (map, line) => {
  const total = Number(map.dataset.lines);
  const no = Math.min(Math.max(Math.round(line), 1), total);
  const part = parts().findLast((one) => Number(one.dataset.first) <= no);
  map.setAttribute("aria-valuenow", no);
  map.setAttribute(
    "aria-valuetext",
    `line ${no.toLocaleString("en")}; ${part?.querySelector("title").textContent ?? ""}`,
  );
  map.querySelector("[data-map-said]").textContent =
    `line ${no.toLocaleString("en")} · ${part?.querySelector("title").textContent ?? ""}`;
  const cursor = map.querySelector(".at");
  cursor.setAttribute("x", (1000 * (no - 1)) / total);
  cursor.setAttribute("visibility", "visible");
  return no;
};
const under = (map, event) => {
  const box = map.querySelector("svg").getBoundingClientRect();
  return 1 + ((event.clientX - box.left) / box.width) * (Number(map.dataset.lines) - 1);
};
document.addEventListener("pointermove", (event) => {
  const map = event.target.closest?.("#log-map[data-map]");
  if (map) place(map, under(map, event));
});
document.addEventListener("click", (event) => {
  const map = event.target.closest("#log-map[data-map]");
  if (map) location.assign(at(place(map, under(map, event))));
});
document.addEventListener("keydown", (event) => {
  const map = event.target.closest?.("#log-map[data-map]");
  if (!map || event.ctrlKey || event.metaKey || event.altKey) return;
  const total = Number(map.dataset.lines),
    now = Number(map.getAttribute("aria-valuenow")),
    step = Math.max(1, total / 180);
  const to = {
    ArrowLeft: now - step,
    ArrowDown: now - step,
    ArrowRight: now + step,
    ArrowUp: now + step,
    PageUp: now - 10 * step,
    PageDown: now + 10 * step,
    Home: 1,
    End: total,
  }[event.key];
  if (to === undefined && event.key !== "Enter") return;
  event.preventDefault();
  if (event.key === "Enter") location.assign(at(now));
  else place(map, to);
});
document.addEventListener("logerrors", (event) => {
  const map = document.getElementById("log-map");
  if (!map?.dataset.map) return;
  const here = Number(/line=(\d+)/.exec(location.search)?.[1] ?? map.getAttribute("aria-valuenow"));
  const wanted = parts().filter(
    (one) =>
      Number(one.dataset.errors) &&
      (event.detail > 0 ? Number(one.dataset.first) > here : Number(one.dataset.first) < here),
  );
  const part = event.detail > 0 ? wanted[0] : wanted.at(-1);
  if (!part) return;
  event.preventDefault();
  location.assign(`${base}?from=${part.dataset.first}&level=4`);
});
// lines that the search found (find.js): one that is here is marked, another one is opened
document.addEventListener("logfound", (event) => {
  const here = range()?.[0] ?? Number(document.querySelector("#lines tr[id]")?.id.slice(1) ?? 1) - 1;
  const found = [...document.querySelectorAll("[data-find-lines] li")].map((item) => ({
    line: Number(item.dataset.line),
    link: item.querySelector("a"),
  }));
  const hit = event.detail > 0 ? found.find((one) => one.line > here) : found.findLast((one) => one.line < here);
  if (!hit) return;
  event.preventDefault();
  if (document.getElementById(`L${hit.line}`)) show(hit.line, hit.line);
  else location.assign(hit.link.href);
});
