// Keys: one table. The ? sheet and docs/keys.md come from it; a page offers a key by showing the element it acts on.
const KEYS = [
  { key: "?", group: "Everywhere", help: "Show this sheet", run: () => showSheet() },
  { key: "/", group: "Everywhere", help: "Search", run: () => focus("#q") },
  { key: "g q", group: "Everywhere", help: "Go to the queue", run: () => go("/") },
  { key: "g i", group: "Everywhere", help: "Go to incidents", run: () => go("/incidents/") },
  { key: "g j", group: "Everywhere", help: "Go to jobs", run: () => go("/jobs/") },
  { key: "g n", group: "Everywhere", help: "Go to nodes", run: () => go("/nodes/") },
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
    help: "Next incident of the queue or list (in a log: next evidence)",
    run: () => press('[data-act="next"], [data-act="next-evidence"]'),
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
    help: "Confirm the category (of the row, of the selection)",
    run: () => Cursor.act("confirm"),
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
      const chart = document.querySelector(".chart[data-keys]");
      chart?.scrollIntoView({ block: "nearest" });
      return focus(".chart[data-keys]");
    },
  },
  { key: "f", group: "Logs", help: "Search in this log", run: () => focus("#find") },
  { key: ".", group: "Logs", help: "Next line that the search found", run: () => tell("logfound", 1) },
  { key: ",", group: "Logs", help: "Previous line that the search found", run: () => tell("logfound", -1) },
  { key: "]", group: "Logs", help: "Next part of the file with errors", run: () => tell("logerrors", 1) },
  { key: "[", group: "Logs", help: "Previous part of the file with errors", run: () => tell("logerrors", -1) },
  { key: "J", group: "Logs", help: "Mark one more line", run: () => tell("logextend", 1) },
  { key: "K", group: "Logs", help: "Mark one line less", run: () => tell("logextend", -1) },
  { key: "w", group: "Logs", help: "The same instant in all logs", run: () => press('[data-act="instant"]') },
];

const focus = (selector) => {
  const found = document.querySelector(selector);
  if (found) {
    found.focus();
    found.select?.();
  }
  return !!found;
};
const send = (selector) => {
  const form = document.querySelector(selector);
  form?.requestSubmit();
  return !!form;
};
const go = (path) => {
  location.assign(path);
  return true;
};
// a page that understands the key stops the event
const tell = (name, detail) => !document.dispatchEvent(new CustomEvent(name, { detail, cancelable: true }));
const press = (selector, root = document) => {
  const found = [...root.querySelectorAll(selector)].find((e) => e.checkVisibility());
  if (!found) return false;
  if (found.tagName === "DETAILS") {
    found.open = true;
    found.querySelector("select, input:not([type=hidden]), textarea")?.focus();
  } else found.click();
  return true;
};

// The row under the cursor of the page's list ([data-cursor] marks rows; the first list wins).
const Cursor = {
  rows: () => [...document.querySelectorAll("[data-cursor]")].filter((row) => row.checkVisibility()),
  current() {
    return document.querySelector("[data-cursor].is-current");
  },
  move(step) {
    const rows = this.rows();
    if (!rows.length) return false;
    const at = rows.indexOf(this.current() ?? document.querySelector("[data-cursor].is-marked"));
    const next = rows[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step, 0), rows.length - 1)];
    this.current()?.classList.remove("is-current");
    next.classList.add("is-current");
    next.scrollIntoView({ block: "nearest" });
    (next.querySelector("[data-open]") || next).focus({ preventScroll: true });
    return true;
  },
  open() {
    return !!this.current() && press("[data-open]", this.current());
  },
  select() {
    const box = this.current()?.querySelector('input[type="checkbox"]');
    if (box) box.click();
    return !!box;
  },
  clear() {
    const boxes = document.querySelectorAll('[data-cursor] input[type="checkbox"]:checked');
    boxes.forEach((box) => box.click());
    return boxes.length > 0;
  },
  // On an incident's page the act is a button; in a list it goes to the selection, else to the row under the cursor.
  act(name) {
    if (press(`[data-act~="${name}"]`)) return true;
    const form = document.querySelector("form[data-bulk]");
    if (!form) return false;
    const chosen = form.querySelectorAll('[data-cursor] input[type="checkbox"]:checked');
    if (!chosen.length) {
      const box = this.current()?.querySelector('input[type="checkbox"]');
      if (!box) return false;
      box.checked = true;
    }
    const button = form.querySelector(`[data-bulk-act="${name}"]`);
    if (!button) return name === "correct" && this.open();
    form.requestSubmit(button);
    return true;
  },
  within(name) {
    const root = this.current() || this.rows()[0];
    return !!root && press(`[data-act="${name}"]`, root);
  },
};

function showSheet() {
  const sheet = document.getElementById("keys-sheet");
  const list = sheet.querySelector("[data-keys-list]");
  if (!list.childElementCount) {
    for (const group of new Set(KEYS.map((entry) => entry.group))) {
      const title = Object.assign(document.createElement("h3"), { textContent: group });
      const keys = Object.assign(document.createElement("dl"), { className: "keys" });
      for (const entry of KEYS.filter((one) => one.group === group)) {
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

(() => {
  let prefix = "",
    timer;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const at = event.target;
    if (at.closest("dialog[open]")) return;
    if (at.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) {
      if (event.key === "Escape") {
        event.preventDefault();
        at.blur();
      }
      return;
    }
    if (event.key === "Enter" && at.matches("a, button, summary")) return;
    const typed = prefix ? `${prefix} ${event.key}` : event.key;
    clearTimeout(timer);
    const entry = KEYS.find((one) => one.key === typed);
    if (entry) {
      prefix = "";
      if (entry.run()) event.preventDefault();
    } else if (!prefix && KEYS.some((one) => one.key.startsWith(`${event.key} `))) {
      prefix = event.key;
      timer = setTimeout(() => {
        prefix = "";
      }, 1200);
    } else {
      prefix = "";
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys-sheet]")) showSheet();
  });
})();
