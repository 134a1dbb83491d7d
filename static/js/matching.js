// Which options match a typed text, and in which order. Without the page, so that it can be tested alone.

/**
 * One choice. `name` is its title and `text` all of it, both as they are compared with what is typed.
 * @typedef {Record<"value" | "label" | "title" | "path" | "name" | "text" | "group", string>} Choice
 */

/** @param {string} text as it is compared: lower case, signs of paths as blanks */
export const plain = (text) =>
  text
    .toLowerCase()
    .replace(/[_.›\s]+/g, " ")
    .trim();

/**
 * Where all words are found: better at the beginning of the name, then of a word in it, then anywhere.
 * @type {(option: Choice, words: string[]) => number}
 */
const rank = (option, words) => {
  if (!words.every((word) => option.text.includes(word))) return -1;
  if (option.name.startsWith(words[0])) return 0;
  return words.every((word) => ` ${option.text}`.includes(` ${word}`)) ? 1 : 2;
};

/**
 * The best first, each once: a category is among the frequent ones and in the tree.
 * @type {(options: Choice[], words: string[]) => Choice[]}
 */
export const matching = (options, words) => {
  const ranked = options.map((option) => ({ option, rank: rank(option, words) })).filter((one) => one.rank >= 0);
  const best = ranked.sort((a, b) => a.rank - b.rank).map((one) => one.option);
  return [...new Map(best.map((option) => /** @type {const} */ ([option.value, option])).reverse()).values()].reverse();
};
