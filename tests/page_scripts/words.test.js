// Sizes, counts and names on the upload page.
import assert from "node:assert/strict";
import { count, left, shortened, size, visible } from "../../static/js/upload/words.js";

Deno.test("a size has a unit and one decimal from a kilobyte on", () => {
  assert.deepEqual([0, 999, 1000, 1_234_567, 5e15].map(size), ["0 B", "999 B", "1.0 kB", "1.2 MB", "5000.0 TB"]);
});

Deno.test("one thing is singular, and thousands are separated", () => {
  assert.deepEqual([count(1, "file"), count(12_345, "file")], ["1 file", "12,345 files"]);
});

Deno.test("a name that is too long is proposed shortened, and a field without a limit takes all", () => {
  assert.deepEqual(
    [shortened("abcdef", 6), shortened("abcdef", 5), shortened("abcdef", -1)],
    ["abcdef", "abcd…", "abcdef"],
  );
});

Deno.test("the time left is rounded to seconds, minutes and hours", () => {
  assert.deepEqual([0, 89, 90, 5399, 5400].map(left), [
    "about 1 s left",
    "about 89 s left",
    "about 2 min left",
    "about 90 min left",
    "about 2 h left",
  ]);
});

Deno.test("a name shows characters that would act on the page or turn its direction", () => {
  assert.equal(visible("gpu\u202Egol.exe\u001b"), "gpu[U+202E]gol.exe[U+001B]");
  assert.equal(visible("gpu\u200B1\u2028\uFEFF"), "gpu[U+200B]1[U+2028][U+FEFF]");
  assert.equal(visible("日志.log"), "日志.log");
});
