// Keys: one table. The ? sheet and docs/keys.md come from it; a page offers a key by showing the element it acts on.
import { all, hit, one } from "./dom.js";

/** @type {{key: string, group: string, help: string, run: () => boolean}[]} */
const KEYS = [
  { key: "?", group: "Everywhere", help: "Show this sheet", run: () => showSheet() },
  { key: "/", group: "Everywhere", help: "Search", run: () => focus("#q") },
  { key: "g q", group: "Everywhere", help: "Go to the queue", run: () => go("/") },
  { key: "g i", group: "Everywhere", help: "Go to incidents", run: () => go("/incidents/") },
  { key: "g r", group: "Everywhere", help: "Go to running jobs", run: () => go("/running/") },
  { key: "g j", group: "Everywhere", help: "Go to jobs", run: () => go("/jobs/") },
  { key: "g n", group: "Everywhere", help: "Go to nodes", run: () => go("/nodes/") },
  { key: "g h", group: "Everywhere", help: "Go to the help", run: () => go("/help/") },
  { key: "g s", group: "Everywhere", help: "Go to statistics", run: () => go("/statistics/") },
  {
    key: "u",
    group: "Everywhere",
    help: "Undo your last act (of the last day; on an incident's page: on it)",
    run: () => press('[data-act="undo"]') || send("#undo-last"),
  },
  { key: "t", group: "Everywhere", help: "Light or dark", run: () => press("[data-theme-toggle]") },
  { key: "j", group: "Lists", help: "Next", run: () => Cursor.move(1) },
  { key: "k", group: "Lists", help: "Previous", run: () => Cursor.move(-1) },
  { key: "o", group: "Lists", help: "Open", run: () => Cursor.open() },
  { key: "Enter", group: "Lists", help: "Open", run: () => Cursor.open() },
  { key: "x", group: "Lists", help: "Select", run: () => Cursor.select() },
  { key: "Escape", group: "Lists", help: "Clear the selection", run: () => Cursor.clear() },
  {
    key: "n",
    group: "Review",
    help: "Next incident of the queue or list (in a log: next hit of the search, else next evidence)",
    run: () => press('[data-act="next-hit"]') || press('[data-act="next"], [data-act="next-evidence"]'),
  },
  {
    key: "N",
    group: "Review",
    help: "Previous hit of the search in a log",
    run: () => press('[data-act="previous-hit"]'),
  },
  {
    key: "p",
    group: "Review",
    help: "Previous incident of the queue or list (in a log: previous evidence)",
    run: () => press('[data-act="previous"], [data-act="previous-evidence"]'),
  },
  {
    key: "c",
    group: "Review",
    help: "Confirm the category and go to the next incident (in a list: of the row, of the selection)",
    run: () => confirmAndGoOn() || Cursor.act("confirm"),
  },
  {
    key: "C",
    group: "Review",
    help: "Confirm the category and suspect 1",
    run: () => press('[data-act="confirm-both"]'),
  },
  { key: "r", group: "Review", help: "Reject", run: () => Cursor.act("reject") },
  { key: "e", group: "Review", help: "Correct the category", run: () => Cursor.act("correct") },
  { key: "i", group: "Review", help: "Judge inconclusive", run: () => Cursor.act("inconclusive") },
  { key: "a", group: "Review", help: "Assign to me", run: () => Cursor.act("assign") },
  { key: "h", group: "Review", help: "Hand over to another person", run: () => press('[data-act="hand-over"]') },
  { key: "m", group: "Review", help: "Comment", run: () => focus("#comment") },
  {
    key: "s c",
    group: "Review",
    help: "Confirm the suspect under the cursor",
    run: () => Cursor.within("suspect-confirm"),
  },
  {
    key: "s r",
    group: "Review",
    help: "Reject the suspect under the cursor",
    run: () => Cursor.within("suspect-reject"),
  },
  {
    key: "s e",
    group: "Review",
    help: "Correct the suspect under the cursor",
    run: () => Cursor.within("suspect-correct"),
  },
  {
    key: "y",
    group: "Review",
    help: "Copy as Markdown (in a log: the marked lines)",
    run: () => press('[data-act="copy"]'),
  },
  {
    key: "z",
    group: "Job",
    help: "Go to the timeline: arrows move it, + and - zoom, 0 shows all",
    run: () => {
      one(".chart[data-keys]")?.scrollIntoView({ block: "nearest" });
      return focus(".chart[data-keys]");
    },
  },
  { key: "f", group: "Logs", help: "Search in this log", run: () => focus("#find") },
  { key: ".", group: "Logs", help: "Next line that the search found", run: () => dispatch("logfound", 1) },
  { key: ",", group: "Logs", help: "Previous line that the search found", run: () => dispatch("logfound", -1) },
  { key: "]", group: "Logs", help: "Next part of the file with errors", run: () => dispatch("logerrors", 1) },
  { key: "[", group: "Logs", help: "Previous part of the file with errors", run: () => dispatch("logerrors", -1) },
  { key: "J", group: "Logs", help: "Mark one more line", run: () => dispatch("logextend", 1) },
  { key: "K", group: "Logs", help: "Mark one line less", run: () => dispatch("logextend", -1) },
  { key: "w", group: "Logs", help: "The same instant in all logs", run: () => press('[data-act="instant"]') },
];

/** The form of this page's verdict says where to go after it; the next incident is where the link beside it leads. */
const confirmAndGoOn = () => {
  const form = one('button[data-act="confirm"]')?.closest("form"),
    next = one('[data-act="next"]')?.getAttribute("href");
  if (!form || !next) return false;
  const field = one('input[name="next"]', form) ?? document.createElement("input");
  form.append(Object.assign(field, { type: "hidden", name: "next", value: next }));
  form.requestSubmit();
  return true;
};

/** @param {string} selector */
const focus = (selector) => {
  const found = one(selector);
  if (!found) return false;
  found.focus();
  if (found instanceof HTMLInputElement || found instanceof HTMLTextAreaElement) found.select();
  return true;
};
/** @param {string} selector */
const send = (selector) => {
  const form = one(selector);
  if (!(form instanceof HTMLFormElement)) return false;
  form.requestSubmit();
  return true;
};
/** @param {string} path */
const go = (path) => {
  location.assign(path);
  return true;
};
/**
 * A page that understands the key stops the event.
 * @type {(name: string, detail: number) => boolean}
 */
const dispatch = (name, detail) => !document.dispatchEvent(new CustomEvent(name, { detail, cancelable: true }));
/** @type {(selector: string, root?: ParentNode) => boolean} */
const press = (selector, root = document) => {
  const found = all(selector, root).find((e) => e.checkVisibility());
  if (!found) return false;
  if (found instanceof HTMLDetailsElement) {
    found.open = true;
    one("select, input:not([type=hidden]), textarea", found)?.focus();
  } else found.click();
  return true;
};

const BOX = 'input[type="checkbox"]';
// The row under the cursor of the page's list ([data-cursor] marks rows; the first list wins).
const Cursor = {
  rows: () => all("[data-cursor]").filter((row) => row.checkVisibility()),
  current: () => one("[data-cursor].is-current"),
  /** @param {number} step */
  move(step) {
    const rows = this.rows();
    if (!rows.length) return false;
    const from = this.current() ?? one("[data-cursor].is-marked"),
      at = from ? rows.indexOf(from) : -1;
    const next = rows[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step, 0), rows.length - 1)];
    this.current()?.classList.remove("is-current");
    next.classList.add("is-current");
    next.scrollIntoView({ block: "nearest" });
    (one("[data-open]", next) ?? next).focus({ preventScroll: true });
    return true;
  },
  open() {
    const row = this.current();
    return !!row && press("[data-open]", row);
  },
  select() {
    const row = this.current(),
      box = row && one(BOX, row);
    box?.click();
    return !!box;
  },
  clear() {
    const boxes = all(`[data-cursor] ${BOX}:checked`);
    boxes.forEach((box) => box.click());
    return boxes.length > 0;
  },
  /**
   * On an incident's page the act is a button; in a list it goes to the selection, else to the row under the cursor.
   * @param {string} name
   */
  act(name) {
    if (press(`[data-act~="${name}"]`)) return true;
    const form = one("form[data-bulk]");
    if (!(form instanceof HTMLFormElement)) return false;
    if (!one(`[data-cursor] ${BOX}:checked`, form)) {
      const row = this.current(),
        box = row && one(BOX, row);
      if (!(box instanceof HTMLInputElement)) return false;
      box.checked = true;
    }
    const button = one(`[data-bulk-act="${name}"]`, form);
    if (!button) return name === "correct" && this.open();
    form.requestSubmit(button);
    return true;
  },
  /** @param {string} name */
  within(name) {
    const root = this.current() ?? this.rows()[0];
    return !!root && press(`[data-act="${name}"]`, root);
  },
};

function showSheet() {
  const sheet = one("#keys-sheet"),
    list = one("[data-keys-list]");
  if (!(sheet instanceof HTMLDialogElement) || !list) return false;
  if (!list.childElementCount) {
    for (const group of new Set(KEYS.map((entry) => entry.group))) {
      const title = Object.assign(document.createElement("h3"), { textContent: group });
      const keys = Object.assign(document.createElement("dl"), { className: "keys" });
      for (const entry of KEYS.filter((key) => key.group === group)) {
        const row = document.createElement("div");
        const name = document.createElement("dt");
        for (const part of entry.key.split(" "))
          name.append(Object.assign(document.createElement("kbd"), { textContent: part }), " ");
        row.append(name, Object.assign(document.createElement("dd"), { textContent: entry.help }));
        keys.append(row);
      }
      list.append(title, keys);
    }
  }
  sheet.showModal();
  return true;
}

const TYPED_INTO = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
let prefix = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
document.addEventListener("keydown", (event) => {
  const at = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !(at instanceof Element)) return;
  if (at.closest("dialog[open]")) return;
  if (at.matches(TYPED_INTO)) {
    if (event.key === "Escape") {
      event.preventDefault();
      if (at instanceof HTMLElement) at.blur();
    }
    return;
  }
  if (event.key === "Enter" && at.matches("a, button, summary")) return;
  const typed = prefix ? `${prefix} ${event.key}` : event.key;
  clearTimeout(timer);
  const entry = KEYS.find(({ key }) => key === typed);
  if (entry) {
    prefix = "";
    if (entry.run()) event.preventDefault();
  } else if (!prefix && KEYS.some(({ key }) => key.startsWith(`${event.key} `))) {
    prefix = event.key;
    timer = setTimeout(() => {
      prefix = "";
    }, 1200);
  } else {
    prefix = "";
  }
});
document.addEventListener("click", (event) => {
  if (hit(event, "[data-keys-sheet]")) showSheet();
});
