// What opens over the page (menus, editors) stays inside the window: it is moved sideways, opens upwards where there
// is more room, and scrolls where there is too little.

const GAP = 8;
const FOLDS = "details.menu, details.editor";
/** @type {(fold: Element) => HTMLElement | null} */
const bodyOf = (fold) => fold.querySelector(":scope > :is(.menu-body, .editor-body)");

/** @param {Element} fold */
const place = (fold) => {
  const body = bodyOf(fold);
  if (!body) return;
  Object.assign(body.style, { translate: "", maxHeight: "", overflowY: "", top: "", bottom: "" });
  body.scrollTop = 0;
  const width = document.documentElement.clientWidth,
    height = innerHeight;
  let box = body.getBoundingClientRect();
  if (getComputedStyle(body).position === "absolute" && box.bottom > height - GAP) {
    const above = fold.getBoundingClientRect().top - GAP,
      below = height - GAP - box.top;
    if (above > below) Object.assign(body.style, { top: "auto", bottom: "calc(100% + 4px)" });
    const room = Math.max(above, below);
    if (box.height > room) Object.assign(body.style, { maxHeight: `${Math.max(room, 160)}px`, overflowY: "auto" });
    box = body.getBoundingClientRect();
  }
  const right = Math.max(0, box.right - (width - GAP)),
    left = Math.max(0, GAP - box.left);
  if (right || left) body.style.translate = `${left - right}px`;
};

const grown = new ResizeObserver((entries) =>
  entries.forEach(({ target }) => {
    if (target.parentElement?.hasAttribute("open")) place(target.parentElement);
    else grown.unobserve(target);
  }),
);
document.addEventListener(
  "toggle",
  (event) => {
    const fold = event.target;
    if (!(fold instanceof HTMLDetailsElement) || !fold.matches(FOLDS) || !fold.open) return;
    place(fold);
    const body = bodyOf(fold);
    if (body) grown.observe(body);
  },
  true,
);
addEventListener("resize", () =>
  document.querySelectorAll(FOLDS).forEach((fold) => {
    if (fold.hasAttribute("open")) place(fold);
  }),
);
