// Builds dist/culm.js: one module for browsers and for node, and says how large it is.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

await build({
  entryPoints: ["src/index.ts"],
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "eof",
  outfile: "dist/culm.js",
});
const code = readFileSync("dist/culm.js");
console.log(`dist/culm.js: ${code.length} bytes, ${gzipSync(code, { level: 9 }).length} compressed`);
