// The zone that times are shown in: UTC, or the reader's own while the switch at the foot of the page says so.
const STORAGE_KEY = "times";
const HAS_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;

export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const isLocal = () => localStorage.getItem(STORAGE_KEY) === "local";

/** Switches between UTC and the reader's zone, and notifies all parts that show times. */
export const switchZone = () => {
  localStorage.setItem(STORAGE_KEY, isLocal() ? "utc" : "local");
  document.dispatchEvent(new CustomEvent("zonechange"));
};

/** @type {(number: number, digits?: number) => string} */
const pad = (number, digits = 2) => String(number).padStart(digits, "0");
/** @typedef {(at: Date) => string} Written */
/** @type {Written} */
export const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
/** @type {Written} */
export const minute = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}`;
/** @type {Written} */
export const second = (at) => `${minute(at)}:${pad(at.getSeconds())}`;
/** @type {Written} */
export const milli = (at) => `${second(at)}.${pad(at.getMilliseconds(), 3)}`;

// plotly draws Date objects in the reader's zone, and a text without a zone as it is written
/**
 * Milliseconds since the epoch as such a text, in the zone that times are shown in.
 * @param {number} ms
 */
export const written = (ms) => {
  const at = new Date(ms);
  return isLocal() ? `${day(at)} ${milli(at)}` : at.toISOString().replace("T", " ").replace("Z", "");
};

/**
 * The milliseconds of a text that `written`, or plotly after a zoom, has made.
 * @param {string | number} text
 */
export const instant = (text) => {
  const whole = String(text).length > 10 ? String(text).replace(" ", "T") : `${text}T00:00`;
  return Date.parse(isLocal() ? whole : `${whole}Z`);
};

/**
 * The figure of the site, whose times are UTC, in the zone that times are shown in; days stay days.
 * @param {import("./chart/look.js").Figure} figure
 */
export const inZone = (figure) => {
  if (!isLocal()) return figure;
  /** @type {(value: unknown) => unknown} */
  const move = (value) => {
    if (Array.isArray(value)) return value.map(move);
    return typeof value === "string" && HAS_TIME.test(value)
      ? written(Date.parse(`${value.replace(" ", "T")}Z`))
      : value;
  };
  /** @type {(part: Record<string, any>, names: string[]) => Record<string, any>} */
  const moved = (part, names) => ({ ...part, ...Object.fromEntries(names.map((name) => [name, move(part[name])])) });
  /** @type {Record<string, any>} */
  const layout = { ...figure.layout };
  for (const name of Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key)))
    if (layout[name].range) layout[name] = moved(layout[name], ["range"]);
  if (layout.shapes) layout.shapes = layout.shapes.map((/** @type {any} */ shape) => moved(shape, ["x0", "x1"]));
  if (layout.annotations) layout.annotations = layout.annotations.map((/** @type {any} */ note) => moved(note, ["x"]));
  return {
    ...figure,
    data: (figure.data ?? []).map((trace) =>
      moved(
        trace,
        ["x", "base"].filter((name) => name in trace),
      ),
    ),
    layout,
  };
};
