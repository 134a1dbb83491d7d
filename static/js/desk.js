// What every page does: local time on hover, toasts that leave, menus that close, selection, copying, suggestions.

const FIELD = ".editor-body :is(input:not([type=hidden]), textarea, select)";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

document.addEventListener("mouseover", (event) => {
  const time = event.target.closest("time[datetime]");
  if (!time || time.dataset.local) return;
  time.dataset.local = "1";
  time.title = `${time.title}\n${new Date(time.dateTime).toLocaleString()} here`;
});

const leave = () =>
  all(".toast:not([data-timed])").forEach((toast) => {
    toast.dataset.timed = "1";
    setTimeout(() => toast.remove(), toast.querySelector("form") ? 12000 : 6000);
  });
leave();
document.addEventListener("htmx:after:settle", leave);

// what scrolls is reached by keys too
const reach = () =>
  all(":is(.table-wrap, .command pre, .prose pre, .rail):not([tabindex])").forEach((box) => {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
  });
reach();
addEventListener("resize", reach);
document.addEventListener("htmx:after:settle", reach);

// on a phone the tab that is open may lie outside its strip
all(".tabs").forEach((strip) => {
  const open = strip.querySelector("[aria-current]");
  if (open && open.offsetLeft + open.offsetWidth > strip.clientWidth)
    strip.scrollLeft = open.offsetLeft + open.offsetWidth - strip.clientWidth + 12;
});

all("[data-print]").forEach((button) => {
  button.hidden = false;
});
// what is folded away or not drawn yet is on paper too
addEventListener("beforeprint", () =>
  all("details[data-printed]").forEach((fold) => {
    fold.open = true;
  }),
);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) {
    const waiting = [];
    document.dispatchEvent(new CustomEvent("prepareprint", { detail: waiting }));
    Promise.all(waiting).then(() => print());
  }
  all("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  const copy = event.target.closest("[data-copy], [data-copy-url]");
  if (copy) copyFrom(copy);
  const closer = event.target.closest("[data-close]");
  if (closer) {
    const fold = closer.closest("details");
    fold.open = false;
    fold.querySelector("summary").focus();
  }
  // Whoever opens an editor goes on by typing, and letters that no field takes are keys of the page. A finger gets no
  // keyboard over what it just opened.
  const editor = event.target.closest("details.editor > summary")?.parentElement;
  if (editor?.open === false && event.pointerType !== "touch")
    editor.addEventListener("toggle", () => editor.querySelector(FIELD)?.focus(), { once: true });
  const all_box = event.target.closest("[data-select-all]");
  if (all_box) {
    all("[data-cursor] input[type=checkbox]").forEach((box) => {
      box.checked = all_box.checked;
    });
    tell();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape")
    all("details.menu[open], details.editor[open]").forEach((menu) => {
      menu.open = false;
      menu.querySelector("summary").focus();
    });
});

async function copyFrom(button) {
  const text = button.dataset.copy ?? (await (await fetch(button.dataset.copyUrl)).text());
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser did not allow copying.");
  }
}
function say(words) {
  const toast = Object.assign(document.createElement("div"), { className: "toast", textContent: words });
  document.getElementById("toasts").append(toast);
  leave();
}

// selection: the bar says how many, and that there are more than this page shows
function tell() {
  const form = document.querySelector("form[data-bulk]");
  if (!form) return;
  const count = all("[data-cursor] input[type=checkbox]:checked", form).length;
  form.classList.toggle("has-selection", count > 0);
  const words = form.querySelector("[data-selected]");
  if (words) words.textContent = `${count} selected`;
}
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-cursor] input[type=checkbox]")) tell();
  if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
});
document.addEventListener("htmx:after:settle", tell);
tell();

// live lists: [data-live] is asked again, soon while things change, rarely else, never while hidden, selected or
// typed in. What is new is marked and told; the row under the cursor and the focus stay where they are.
const SOON_MS = 5000,
  LATE_MS = 30000,
  QUIET = 12;
let quietFor = 0;
const live = () => document.querySelector("[data-live]");
const ids = () => new Set(all("[data-live] [data-cursor][id]").map((row) => row.id));
let known = ids();
const again = () =>
  setTimeout(
    () => {
      const isBusy =
        document.hidden ||
        document.querySelector(".has-selection, dialog[open], details[open].editor, details[open].menu") ||
        document.activeElement?.matches("input:not([type=checkbox]), textarea, select");
      if (live() && !isBusy) {
        quietFor += 1;
        live().dispatchEvent(new CustomEvent("live"));
      }
      again();
    },
    quietFor > QUIET && live()?.dataset.live !== "always" ? LATE_MS : SOON_MS,
  );
if (live()) again();
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    quietFor = 0;
    live()?.dispatchEvent(new CustomEvent("live"));
  }
});
document.addEventListener("htmx:after:settle", () => {
  document.activeElement?.closest("[data-cursor]")?.classList.add("is-current");
  if (!live()) return;
  const now = ids();
  const fresh = [...now].filter((id) => !known.has(id));
  if (fresh.length || now.size !== known.size) quietFor = 0;
  fresh.forEach((id) => document.getElementById(id).classList.add("is-new"));
  const said = document.querySelector("[data-live-said]");
  if (said && fresh.length) said.textContent = `${fresh.length} new`;
  known = now;
});

// suggestions for the search box: a listbox under it, arrows choose, Tab or Enter takes
const box = document.getElementById("q");
const form = box?.form;
if (form?.dataset.suggest) {
  const list = Object.assign(document.createElement("ul"), { className: "suggestions", id: "q-list", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  form.append(list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "q-list",
    "aria-autocomplete": "list",
  }))
    box.setAttribute(name, value);
  let found = [],
    at = -1,
    timer,
    asked;
  const close = () => {
    list.hidden = true;
    at = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const show = () => {
    list.replaceChildren(
      ...found.map((one, n) => {
        const item = Object.assign(document.createElement("li"), { id: `q-${n}` });
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(n === at));
        item.append(
          Object.assign(document.createElement("code"), { textContent: one.text }),
          Object.assign(document.createElement("span"), { textContent: one.explanation }),
        );
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(n);
        });
        return item;
      }),
    );
    list.hidden = !found.length;
    box.setAttribute("aria-expanded", String(found.length > 0));
    if (at >= 0) {
      box.setAttribute("aria-activedescendant", `q-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  };
  const take = (n) => {
    const one = found[n];
    const space = one.text.endsWith(":") ? "" : " ";
    box.value = box.value.slice(0, one.start) + one.text + space + box.value.slice(one.end);
    box.selectionStart = box.selectionEnd = one.start + one.text.length + space.length;
    ask();
  };
  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      asked?.abort();
      asked = new AbortController();
      const query = new URLSearchParams({ q: box.value, cursor: box.selectionStart });
      try {
        found = (await (await fetch(`${form.dataset.suggest}?${query}`, { signal: asked.signal })).json()).suggestions;
      } catch {
        return;
      }
      at = -1;
      if (document.activeElement === box) show();
    }, 120);
  };
  box.addEventListener("input", ask);
  box.addEventListener("focus", ask);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length;
      show();
    } else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) {
      event.preventDefault();
      take(at);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    } // else the browser empties the box
  });
}
