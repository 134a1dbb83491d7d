// Acts that do not leave the page: what an answer swaps takes nothing away from whoever goes on working meanwhile, and
// an answer that never came, or that is another page, is told instead of shown.
(() => {
  const piece = () => document.getElementById("judged");
  const named = (e) => ["data-open", "data-testid", "data-act", "aria-label"].filter((name) => e.hasAttribute(name)).map((name) => `[${name}="${CSS.escape(e.getAttribute(name))}"]`)[0];

  // The focus and the cursor go to the same control of the new piece, else to the row, else to the piece itself; what
  // was typed into other forms than the one that is answered goes into the same fields.
  const isTyped = (field) => field.matches("select") ? [...field.options].some((option) => option.selected !== option.defaultSelected) : field.value !== field.defaultValue;
  const place = (field) => JSON.stringify([field.id, field.form?.elements.subject?.value]);
  const fields = () => [...(piece()?.querySelectorAll("form :is(input:not([type=hidden]), select, textarea)[id]") ?? [])];
  let held;
  document.addEventListener("htmx:before:swap", (event) => {
    if (!piece()) return;
    const at = document.activeElement, inside = piece().contains(at);
    const row = piece().querySelector("[data-cursor].is-current") ?? (inside ? at.closest("[data-cursor]") : null);
    const answered = event.detail.ctx.sourceElement;
    const typed = new Map(fields().filter((field) => field.form !== answered && (isTyped(field) || field === at)).map((field) => [place(field), field.value]));
    const control = inside && (at.form === answered && !at.matches("button") ? undefined : named(at));
    held = { row: row && named(row), control, inside, typed, at: inside && at.id && typed.has(place(at)) ? place(at) : undefined };
  });
  document.addEventListener("htmx:after:settle", () => {
    if (!held || !piece()) return;
    const { row: rowName, control, inside, typed, at } = held;
    held = undefined;
    for (const field of fields().filter((one) => typed.has(place(one)))) {
      field.value = typed.get(place(field));
      for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      if (place(field) === at) field.focus({ preventScroll: true });
    }
    const row = rowName && piece().querySelector(rowName);
    row?.classList.add("is-current");
    if (!inside || document.activeElement !== document.body) return;
    const to = (control && (row ?? piece()).querySelector(control)) ?? (control && piece().querySelector(control)) ?? row?.querySelector("[data-open]") ?? piece();
    to.focus({ preventScroll: true });
  });

  const tell = (words, link) => {
    const toast = Object.assign(document.createElement("div"), { className: "toast error", textContent: `${words} ` });
    if (link) toast.append(Object.assign(document.createElement("a"), link));
    document.getElementById("toasts").append(toast);
  };
  const isAct = (ctx) => ctx.request.method === "POST";

  // A page of its own is no piece of this one: a refusal is quoted, and whoever was signed out is told so.
  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail, answer = ctx.response.raw;
    const isSignIn = answer.redirected && new URL(answer.url).pathname === document.body.dataset.signIn;
    const isPage = /<html[\s>]/i.test(ctx.text);
    if (isSignIn && !isAct(ctx)) { event.preventDefault(); location.reload(); return; }
    if (isSignIn) {
      const next = new URLSearchParams({ next: location.pathname + location.search });
      tell("You were signed out, so this was not saved.", { href: `${document.body.dataset.signIn}?${next}`, textContent: "Sign in" });
    } else if (answer.status >= 400 && isPage) {
      const said = [...new DOMParser().parseFromString(ctx.text, "text/html").querySelectorAll(".error-page :is(h1, h1 + p)")].map((e) => e.textContent).join(": ");
      if (!ctx.sourceElement.matches("[data-live]")) tell(said || `The site answered ${answer.status}.`);
    } else {
      if (ctx.sourceElement.matches("form[data-emptied]")) ctx.sourceElement.reset();
      return;
    }
    event.preventDefault();
  });
  document.addEventListener("htmx:error", (event) => {
    const { ctx } = event.detail;
    if (ctx && isAct(ctx)) tell("The site did not answer: reload the page to see whether this was saved.", { href: location.href, textContent: "Reload" });
  });
})();
