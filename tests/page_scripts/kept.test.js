// What the upload page remembers of uploads that have not ended.
import assert from "node:assert/strict";
import { Kept, choiceOf } from "../../static/js/upload/kept.js";

/** @type {(path: string, text: string) => {path: string, file: File}} */
const entry = (path, text) => ({ path, file: new File([text], path, { lastModified: 5 }) });

Deno.test("a note of one person is there for a later page of the same person alone", () => {
  localStorage.clear();
  new Kept("7").note("pending", { slug: "llama" });
  assert.deepEqual(new Kept("7").of("pending"), { slug: "llama" });
  assert.equal(new Kept("8").of("pending"), null);
  new Kept("7").note("pending", null);
  assert.equal(localStorage.length, 0);
});

Deno.test("a note older than what the site keeps is forgotten, and so is a damaged one", () => {
  localStorage.clear();
  localStorage.setItem(
    "faultline-upload:7:old",
    JSON.stringify({ value: "/uploads/1", at: Date.now() - 3 * 86_400_000 }),
  );
  localStorage.setItem("faultline-upload:7:odd", "null");
  new Kept("7").note("new", "/uploads/2");
  assert.equal(new Kept("7").of("new"), "/uploads/2");
  assert.equal(localStorage.length, 1);
});

Deno.test("the same files in any order are one choice, other ones another", () => {
  const [a, b, longer] = [entry("a", "1"), entry("b", "1"), entry("b", "12")];
  assert.equal(choiceOf([a, b]), choiceOf([b, a]));
  assert.notEqual(choiceOf([a, b]), choiceOf([a, longer]));
});
