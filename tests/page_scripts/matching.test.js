// The order of choices in a field that filters its options.
import assert from "node:assert/strict";
import { matching, plain } from "../../static/js/matching.js";

/** @param {string} label @param {string} value */
const choice = (label, value = label) => {
  const title = label.split(" › ").at(-1) ?? "";
  return { value, label, title, path: "", name: plain(title), text: plain(`${label} ${value}`), group: "" };
};
/** @param {string} typed @param {ReturnType<typeof choice>[]} options */
const found = (typed, options) => matching(options, plain(typed).split(" ")).map((option) => option.label);

Deno.test("a name that begins with the typed text comes before a word, and a word before a part of a word", () => {
  const options = [choice("Thermal link"), choice("Unlinked"), choice("Link down")];
  assert.deepEqual(found("link", options), ["Link down", "Thermal link", "Unlinked"]);
});

Deno.test("all typed words must occur, in the path or in the id too", () => {
  const options = [choice("Hardware › GPU › Bus error", "hardware.gpu.off_bus"), choice("Hardware › Host")];
  assert.deepEqual(found("gpu bus", options), ["Hardware › GPU › Bus error"]);
  assert.deepEqual(found("off_bus", options), ["Hardware › GPU › Bus error"]);
  assert.deepEqual(found("gpu host", options), []);
});

Deno.test("a value in two groups is listed once, at its better place", () => {
  assert.deepEqual(found("a", [choice("b a", "same"), choice("a", "same")]), ["a"]);
});
