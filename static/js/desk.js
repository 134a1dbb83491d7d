// What every page does: local time on hover, toasts that leave, menus that close, selection, copying.
import { all, hit, one } from "./dom.js";

const FIELD = ".editor-body :is(input:not([type=hidden]), textarea, select)";

document.addEventListener("mouseover", (event) => {
  const time = hit(event, "time[datetime]");
  if (!(time instanceof HTMLTimeElement) || time.dataset.local) return;
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
  const open = one("[aria-current]", strip);
  if (open && open.offsetLeft + open.offsetWidth > strip.clientWidth)
    strip.scrollLeft = open.offsetLeft + open.offsetWidth - strip.clientWidth + 12;
});

all("[data-print]").forEach((button) => {
  button.hidden = false;
});
// what is folded away or not drawn yet is on paper too
addEventListener("beforeprint", () =>
  all("details[data-printed]").forEach((fold) => {
    fold.setAttribute("open", "");
  }),
);

document.addEventListener("click", (event) => {
  if (hit(event, "[data-print]")) {
    /** @type {Promise<void>[]} */
    const waiting = [];
    document.dispatchEvent(new CustomEvent("prepareprint", { detail: waiting }));
    Promise.all(waiting).then(() => print());
  }
  const { target } = event;
  if (target instanceof Node)
    all("details.menu[open]")
      .filter((menu) => !menu.contains(target))
      .forEach((menu) => menu.removeAttribute("open"));
  const copy = hit(event, "[data-copy], [data-copy-url], [data-copy-of]");
  if (copy) copyFrom(copy);
  close(hit(event, "[data-close]")?.closest("details"));
  // Whoever opens an editor goes on by typing, and letters that no field takes are keys of the page. A finger gets no
  // keyboard over what it just opened.
  const editor = hit(event, "details.editor > summary")?.parentElement;
  const isTouched = event instanceof PointerEvent && event.pointerType === "touch";
  if (editor && !editor.hasAttribute("open") && !isTouched) {
    event.preventDefault(); // opened here, because a letter may come before the browser's "toggle"
    editor.setAttribute("open", "");
    one(FIELD, editor)?.focus();
  }
  const whole = hit(event, "[data-select-all]");
  if (whole instanceof HTMLInputElement) {
    for (const box of boxes()) box.checked = whole.checked;
    announce();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") all("details.menu[open], details.editor[open]").forEach(close);
});

/** @param {HTMLElement | null} [fold] its button gets the focus */
function close(fold) {
  if (!fold) return;
  fold.removeAttribute("open");
  one("summary", fold)?.focus();
}
/** @type {() => HTMLInputElement[]} */
const boxes = () => /** @type {HTMLInputElement[]} */ (all("[data-cursor] input[type=checkbox]"));

/** @param {HTMLElement} button */
async function copyFrom(button) {
  const shown = button.dataset.copyOf && one(button.dataset.copyOf)?.textContent;
  const text = button.dataset.copy ?? (shown || (await (await fetch(button.dataset.copyUrl ?? "")).text()));
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser did not allow copying.");
  }
}
/** @param {string} words */
function say(words) {
  const toast = Object.assign(document.createElement("div"), { className: "toast", textContent: words });
  one("#toasts")?.append(toast);
  leave();
}

// selection: the bar says how many, and that there are more than this page shows
function announce() {
  const form = one("form[data-bulk]");
  if (!form) return;
  const count = boxes().filter((box) => box.checked && form.contains(box)).length;
  form.classList.toggle("has-selection", count > 0);
  const words = one("[data-selected]", form);
  if (words) words.textContent = `${count} selected`;
}
document.addEventListener("change", (event) => {
  const { target } = event;
  if (target instanceof HTMLInputElement && target.matches("[data-cursor] input[type=checkbox]")) announce();
  if (target instanceof HTMLSelectElement && target.matches("select[data-submit]")) target.form?.requestSubmit();
});
document.addEventListener("htmx:after:settle", announce);
announce();

// live lists: [data-live] is asked again, soon while things change, rarely else, never while hidden, selected or
// typed in. New rows are marked and announced; the row under the cursor and the focus stay where they are.
const SOON_MS = 5000,
  LATE_MS = 30000,
  QUIET = 12;
let quietFor = 0;
const live = () => one("[data-live]");
const ids = () => new Set(all("[data-live] [data-cursor][id]").map((row) => row.id));
let known = ids();
/** Asks again and again, with pauses. */
const again = () =>
  setTimeout(
    () => {
      const isBusy =
        document.hidden ||
        document.querySelector(".has-selection, dialog[open], details[open].editor, details[open].menu") ||
        document.activeElement?.matches("input:not([type=checkbox]), textarea, select");
      if (live() && !isBusy) {
        quietFor += 1;
        live()?.dispatchEvent(new CustomEvent("live"));
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
  fresh.forEach((id) => document.getElementById(id)?.classList.add("is-new"));
  const status = document.querySelector("[data-live-said]");
  if (status && fresh.length) status.textContent = `${fresh.length} new`;
  known = now;
});
