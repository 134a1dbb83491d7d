// The log of a running job. New lines are added at the end. While somebody reads further up, or has paused, they wait
// behind a button, so that nothing moves. It asks soon while lines arrive, seldom else, never while the page is hidden.

import { one } from "./dom.js";

/** @typedef {[number, number, string]} Line file, level, text */
/** @typedef {{lines: Line[], files: string[], cursor: string, skipped: number, growing: number, alarm?: string,
 *   iteration?: number | null}} Answer */

const SOON_MS = 1000;
const LATE_MS = 10_000;
// the time between two questions is so many times that of an answer
const PAUSE_FACTOR = 10;
/** lines on the page; the oldest go while the page follows */
const MAX_LINES = 5000;
/** lines that wait; of more only the last are kept */
const MAX_WAITING = 5000;
/** so near to the end, the page follows */
const NEAR_PX = 80;

const head = one("[data-live-log]");
const body = one("#live-lines");
const first = one("#live-first");

/** @param {HTMLElement} head @param {HTMLElement} body @param {Answer} answer */
function follow(head, body, answer) {
  const more = one("[data-live-more]");
  const pause = one("[data-live-pause]");
  const state = one("[data-live-state]");
  const alarm = one("[data-live-alarm]");
  const skipped = one("[data-live-skipped]");
  let cursor = answer.cursor;
  let wait = SOON_MS;
  let isPaused = false;
  let missed = 0;
  let timer = 0;
  /** @type {HTMLElement[]} rows that wait */
  let waiting = [];

  const isAtEnd = () => document.documentElement.scrollHeight - scrollY - innerHeight < NEAR_PX;
  const follows = () => !isPaused && isAtEnd();
  /** @type {(line: Line, files: string[]) => HTMLElement} */
  const rowOf = ([file, level, text], files) => {
    const row = document.createElement("tr");
    row.className = `level-${level}`;
    const who = Object.assign(document.createElement("td"), { className: "who", title: files[file] });
    who.textContent = files[file].split("/").slice(-2).join("/");
    const textCell = Object.assign(document.createElement("td"), { className: "text", textContent: text });
    row.append(who, textCell);
    return row;
  };
  const show = () => {
    body.append(...waiting);
    waiting = [];
    while (body.childElementCount > MAX_LINES) body.firstElementChild?.remove();
    scrollTo({ top: document.documentElement.scrollHeight });
  };
  const showState = () => {
    const count = waiting.length.toLocaleString("en");
    if (more) {
      more.hidden = !waiting.length;
      more.textContent = `${count} new line${waiting.length === 1 ? "" : "s"} ↓`;
    }
    if (state) state.textContent = isPaused ? "paused" : waiting.length ? "reading further up" : "following";
    if (pause) {
      pause.textContent = isPaused ? "Go on" : "Pause";
      pause.setAttribute("aria-pressed", String(isPaused));
    }
    const none = one("[data-live-none]");
    if (none) none.hidden = Boolean(body.childElementCount || waiting.length);
    if (skipped) {
      skipped.hidden = !missed;
      const bytes = missed.toLocaleString("en");
      skipped.textContent = `${bytes} bytes were passed over: they came faster than a page can show.`;
    }
  };
  /** @param {Answer} answer */
  const take = (answer) => {
    const stays = follows();
    cursor = answer.cursor;
    missed += answer.skipped;
    waiting.push(...answer.lines.map((line) => rowOf(line, answer.files)));
    waiting = waiting.slice(-MAX_WAITING);
    if (stays && waiting.length) show();
    if (alarm && answer.alarm !== undefined && alarm.textContent !== answer.alarm) {
      alarm.textContent = answer.alarm;
      alarm.hidden = !answer.alarm;
    }
    const growing = one("[data-live-growing]");
    if (growing) growing.textContent = answer.growing.toLocaleString("en");
    const iteration = one("[data-live-iteration]");
    if (iteration && answer.iteration) iteration.textContent = `, iteration ${answer.iteration.toLocaleString("en")}`;
    showState();
  };
  async function ask() {
    timer = 0;
    if (document.hidden || isPaused) return;
    try {
      const query = new URLSearchParams(location.search);
      query.set("cursor", cursor);
      const askedAt = performance.now();
      const reply = await fetch(`${head.dataset.liveLog}?${query}`, { headers: { "Faultline-Unattended": "1" } });
      if (!reply.ok) throw new Error(String(reply.status));
      /** @type {Answer} */
      const answer = await reply.json();
      take(answer);
      // a site that answers slowly has many viewers: all of them ask less often
      const least = Math.max(SOON_MS, PAUSE_FACTOR * (performance.now() - askedAt));
      wait = Math.min(LATE_MS, answer.lines.length ? least : Math.max(least, wait * 1.5));
      if (!answer.growing) {
        if (state) state.textContent = "all files are complete: the job's page has them";
        return;
      }
    } catch {
      wait = LATE_MS;
      if (state) state.textContent = "the site does not answer: asked again in 10 s";
    }
    again(wait);
  }
  /** @param {number} ms */
  const again = (ms) => {
    clearTimeout(timer);
    timer = setTimeout(ask, ms);
  };
  more?.addEventListener("click", () => {
    isPaused = false;
    show();
    showState();
    again(0);
  });
  pause?.addEventListener("click", () => {
    isPaused = !isPaused;
    if (!isPaused) {
      show();
      again(0);
    }
    showState();
  });
  addEventListener("scrollend", () => {
    if (waiting.length && follows()) show();
    showState();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !timer) again(0);
  });
  waiting = answer.lines.map((line) => rowOf(line, answer.files));
  show();
  showState();
  again(SOON_MS);
}

if (head && body && first) follow(head, body, JSON.parse(first.textContent ?? "{}"));
