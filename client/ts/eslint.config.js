// What tsc does not say: promises that nobody waits for, assertions that assert nothing, types that are lost on the way.
import { fileURLToPath } from "node:url";

import tseslint from "typescript-eslint";

const here = fileURLToPath(new URL(".", import.meta.url));
// node:test waits for its tests itself.
const awaited = { from: "package", package: "node:test", name: ["test"] };

export default tseslint.config(
  { ignores: ["dist/", "doc/", "src/gen/", "*.config.js"] },
  tseslint.configs.recommendedTypeChecked,
  { languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: here } } },
  {
    rules: {
      "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [awaited] }],
      // What is taken out of a message so that the rest remains.
      "@typescript-eslint/no-unused-vars": ["error", { ignoreRestSiblings: true }],
      // Shapes and hashes are shown as they are; what is of any type is not.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowArray: true }],
    },
  },
  {
    // Their requests are JSON of any form, and liars send what no type allows.
    files: ["adapter/**", "test/**"],
    rules: Object.fromEntries(
      ["argument", "assignment", "call", "member-access", "return"]
        .map((what) => [`@typescript-eslint/no-unsafe-${what}`, "off"])
        .concat([["@typescript-eslint/no-explicit-any", "off"]]),
    ),
  },
);
