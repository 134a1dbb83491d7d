// Times are UTC as the site writes them; a switch at the foot of each page shows them in the reader's zone and is kept.
import { ZONE, day, isLocal, milli, minute, second, switchZone } from "./clock.js";
import { all, hit } from "./dom.js";

/** @type {Record<string, import("./clock.js").Written>} */
const STYLES = {
  minute: (at) => `${day(at)} ${minute(at)}`,
  second: (at) => `${day(at)} ${second(at)}`,
  clock: second,
  milli,
  date: day,
};

/** @param {HTMLTimeElement} time */
const write = (time) => {
  const format = STYLES[time.dataset.style ?? ""];
  if (!format || isLocal() === (time.dataset.shown === "local")) return;
  time.dataset.utc ??= time.textContent;
  time.textContent = isLocal() ? format(new Date(time.dateTime)) : time.dataset.utc;
  time.dataset.shown = isLocal() ? "local" : "utc";
};
const show = () => {
  /** @type {HTMLTimeElement[]} */ (all("time[data-style]")).forEach(write);
  const status = document.querySelector("[data-times-said]"),
    button = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-times]"));
  if (!status || !button) return;
  status.textContent = isLocal() ? `Times are those of ${ZONE}; files stay in UTC.` : "Times are UTC; hover for yours.";
  button.textContent = isLocal() ? "Show UTC" : "Show local time";
  button.hidden = false;
};
show();
document.addEventListener("htmx:after:settle", show);
document.addEventListener("zonechange", show);
document.addEventListener("click", (event) => {
  if (hit(event, "[data-times]")) switchZone();
});
