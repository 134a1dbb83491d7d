// Acts that do not leave the page: an answer replaces content without disturbing a person who continues to work, and
// a missing answer, or another page as the answer, is reported in a message.

import { one } from "./dom.js";

const piece = () => document.getElementById("judged");
const page = () => document.getElementById("incident");
const NAMES = ["data-open", "data-testid", "data-act", "aria-label"];
/** @type {(e: Element) => string | undefined} a selector of it by what it is called */
const named = (e) =>
  NAMES.filter((name) => e.hasAttribute(name)).map(
    (name) => `[${name}="${CSS.escape(e.getAttribute(name) ?? "")}"]`,
  )[0];

/**
 * A fold is identified by its summary and by its row or panel.
 * @param {HTMLElement} fold
 */
const foldName = (fold) => {
  const summary = fold.querySelector("summary"),
    around = /** @type {HTMLElement | null} */ (fold.parentElement?.closest("[data-testid], [id]") ?? null);
  const words = summary?.getAttribute("aria-label") ?? summary?.textContent?.trim();
  return JSON.stringify([around?.dataset.testid ?? around?.id, fold.dataset.testid ?? fold.dataset.act ?? words]);
};
const folds = () => [...(page()?.querySelectorAll("details") ?? [])];
/** @param {string} name */
const foldNamed = (name) => folds().find((fold) => foldName(fold) === name);
// These are there for the form inside them and close when it is answered.
const FORM_FOLDS = "details.editor, details.menu, details.record";

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */

/**
 * A select whose options name no default begins with its first one.
 * @param {Field} field
 */
const initial = (field) => {
  if (!(field instanceof HTMLSelectElement)) return field.defaultValue;
  return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value ?? "";
};
/** @param {Field} field */
const isTyped = (field) => field.value !== initial(field);
/** @param {Field} field */
const place = (field) => {
  const subject = field.form?.elements.namedItem("subject");
  return JSON.stringify([field.id, subject instanceof HTMLInputElement ? subject.value : undefined]);
};
const FIELDS = "form :is(input:not([type=hidden]), select, textarea)[id]";
/** @type {() => Field[]} */
const fields = () => [...(piece()?.querySelectorAll(/** @type {"input"} */ (FIELDS)) ?? [])];

// Folds are open as before. The focus and the cursor go to the same control of the new piece, else to the fold that
// was answered, else to the row, else to the piece. What was typed into other forms is in their fields again.
/**
 * @type {{row?: string, control?: string, fold?: string, isReplaced: boolean, typed: Map<string, string>, at?: string,
 *   open: string[]} | undefined}
 */
let beforeSwap;
document.addEventListener("htmx:before:swap", (event) => {
  const judged = piece(),
    at = document.activeElement,
    answered = context(event).sourceElement;
  if (!judged || !at) return;
  const inside = judged.contains(at),
    isReplaced = inside || !!at.closest("#toasts, #activity-said, #evictions");
  const row = judged.querySelector("[data-cursor].is-current") ?? (inside ? at.closest("[data-cursor]") : null);
  const closing = answered?.closest(FORM_FOLDS);
  const field = fields().find((field) => field === at);
  const others = fields().filter((other) => other.form !== answered && (isTyped(other) || other === at));
  const typed = new Map(others.map((other) => [place(other), other.value]));
  const folded = closing?.contains(at) ? closing : at.matches("summary") ? at.parentElement : null;
  const isAnswered = "form" in at && at.form === answered && !at.matches("button");
  beforeSwap = {
    row: row ? named(row) : undefined,
    control: isReplaced && !isAnswered ? named(at) : undefined,
    fold: isReplaced && folded instanceof HTMLElement ? foldName(folded) : undefined,
    isReplaced,
    typed,
    at: field && typed.has(place(field)) ? place(field) : undefined,
    open: folds()
      .filter((fold) => fold.open && fold !== closing)
      .map(foldName),
  };
});
document.addEventListener("htmx:after:settle", () => {
  const judged = piece();
  if (!beforeSwap || !judged) return;
  const { row: rowName, control, fold, isReplaced, typed, at, open } = beforeSwap;
  beforeSwap = undefined;
  for (const one of folds()) if (open.includes(foldName(one))) one.open = true;
  for (const field of fields()) {
    const was = typed.get(place(field));
    if (was === undefined) continue;
    field.value = was;
    if (place(field) === at) field.focus({ preventScroll: true });
  }
  const row = rowName ? one(rowName, judged) : null;
  row?.classList.add("is-current");
  if (!isReplaced || document.activeElement !== document.body) return;
  const found = control ? (one(control, row ?? judged) ?? one(control, judged)) : null;
  const summary = fold ? foldNamed(fold)?.querySelector("summary") : null;
  const to = found ?? summary ?? (row && one("[data-open]", row)) ?? judged;
  to.focus({ preventScroll: true });
});

/** @type {(words: string, link?: {href: string, textContent: string}) => void} */
const showMessage = (words, link) => {
  const toast = Object.assign(document.createElement("div"), { className: "toast error", textContent: `${words} ` });
  if (link) toast.append(Object.assign(document.createElement("a"), link));
  one("#toasts")?.append(toast);
};
/** @type {(event: Event) => any} what htmx says of its request */
const context = (event) => /** @type {CustomEvent} */ (event).detail.ctx;
/** @param {any} ctx */
const isAct = (ctx) => ctx.request.method === "POST";

// A whole page cannot replace a part of this one: a refusal is quoted, and a signed-out person gets a message.
// what a page asks for by itself is no use of the session by a person
const UNATTENDED = "[data-live], [hx-trigger^='every'], [hx-trigger^='load delay']";
document.addEventListener("htmx:config:request", (event) => {
  const ctx = context(event);
  if (ctx.sourceElement.matches(UNATTENDED)) ctx.request.headers["Faultline-Unattended"] = "1";
});

document.addEventListener("htmx:after:request", (event) => {
  const ctx = context(event),
    answer = ctx.response.raw;
  const isSignIn = answer.redirected && new URL(answer.url).pathname === document.body.dataset.signIn;
  const isPage = /<html[\s>]/i.test(ctx.text);
  if (isSignIn && !isAct(ctx)) {
    event.preventDefault();
    location.reload();
    return;
  }
  if (isSignIn) {
    const next = new URLSearchParams({ next: location.pathname + location.search });
    showMessage("You were signed out, so this was not saved.", {
      href: `${document.body.dataset.signIn}?${next}`,
      textContent: "Sign in",
    });
  } else if (answer.status >= 400 && isPage) {
    const refusal = new DOMParser().parseFromString(ctx.text, "text/html");
    const reason = [...refusal.querySelectorAll(".error-page :is(h1, h1 + p)")].map((e) => e.textContent).join(": ");
    if (!ctx.sourceElement.matches("[data-live]")) showMessage(reason || `The site answered ${answer.status}.`);
  } else {
    if (ctx.sourceElement.matches("form[data-emptied]")) ctx.sourceElement.reset();
    return;
  }
  event.preventDefault();
});
document.addEventListener("htmx:error", (event) => {
  const ctx = context(event);
  const words = "The site did not answer: reload the page to see whether this was saved.";
  if (ctx && isAct(ctx)) showMessage(words, { href: location.href, textContent: "Reload" });
});
