// `npm run doc`: the pages of what a program sees, in doc/. What typedoc warns of is an error.
import { OptionDefaults } from "typedoc";

export default {
  entryPoints: ["src/index.ts"],
  out: "doc",
  excludeInternal: true,
  treatWarningsAsErrors: true,
  // Links to lines of sources would want a repository that git knows the address of.
  disableSources: true,
  // The protocol's messages are at home in proto/, and have no page here.
  validation: { notExported: false, invalidLink: true },
  // The generated messages have one of their own.
  blockTags: [...OptionDefaults.blockTags, "@generated"],
};
