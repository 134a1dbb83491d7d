// How the upload page says sizes, counts and names.

/** @param {number} bytes */
export const size = (bytes) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let n = bytes,
    unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
};

/** @type {(n: number, what: string) => string} */
export const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

/**
 * A text that fits; what is cut off ends with an ellipsis. A field without a limit has the limit -1.
 * @type {(text: string, most: number) => string}
 */
export const shortened = (text, most) => (most < 1 || text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** @param {number} seconds */
export function left(seconds) {
  if (seconds < 90) return `about ${Math.max(1, Math.round(seconds))} s left`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${Math.round(seconds / 3600)} h left`;
}

/**
 * The name of a file without a character that is hidden, turns the direction of text or acts otherwise.
 * @param {string} text
 */
export const visible = (text) =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu,
    (sign) => `[U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`,
  );

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} className
 * @param {string} text
 */
export const element = (tag, className, text = "") =>
  Object.assign(document.createElement(tag), { className, textContent: visible(text) });
