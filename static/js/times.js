// Times are UTC as the site writes them; a switch at the foot of each page shows them in the reader's zone and is kept.
(() => {
  const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const pad = (number, digits = 2) => String(number).padStart(digits, "0");
  const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  const STYLES = {
    minute: (at) => `${day(at)} ${clock(at)}`,
    second: (at) => `${day(at)} ${clock(at)}:${pad(at.getSeconds())}`,
    clock: (at) => `${clock(at)}:${pad(at.getSeconds())}`,
    milli: (at) => `${clock(at)}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`,
    date: day,
  };
  let isLocal = localStorage.getItem("times") === "local";

  const write = (time) => {
    const shown = STYLES[time.dataset.style];
    if (!shown || isLocal === (time.dataset.shown === "local")) return;
    time.dataset.utc ??= time.textContent;
    time.textContent = isLocal ? shown(new Date(time.dateTime)) : time.dataset.utc;
    time.dataset.shown = isLocal ? "local" : "utc";
  };
  const show = () => {
    document.querySelectorAll("time[data-style]").forEach(write);
    const said = document.querySelector("[data-times-said]"),
      button = document.querySelector("[data-times]");
    if (!said || !button) return;
    said.textContent = isLocal
      ? `Times are those of ${ZONE}; charts and files stay in UTC.`
      : "Times are UTC; hover for yours.";
    button.textContent = isLocal ? "Show UTC" : "Show local time";
    button.hidden = false;
  };
  document.addEventListener("DOMContentLoaded", show);
  document.addEventListener("htmx:after:settle", show);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-times]")) return;
    isLocal = !isLocal;
    localStorage.setItem("times", isLocal ? "local" : "utc");
    show();
  });
})();
