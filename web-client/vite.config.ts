import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** What the browsable description of the API needs of its package. */
const SWAGGER_FILES = [
  "swagger-ui-bundle.js",
  "swagger-ui-bundle.js.LICENSE.txt",
  "swagger-ui.css",
  "LICENSE",
  "NOTICE",
];

/** Puts `docs/` and the files of Swagger UI side by side into `dist/docs/`, under the names that they have. */
function docs(): Plugin {
  const own = join(import.meta.dirname, "docs");
  const swagger = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
  return {
    name: "docs",
    apply: "build",
    generateBundle() {
      const names = existsSync(own) ? readdirSync(own) : [];
      const paths = [...names.map((name) => join(own, name)), ...SWAGGER_FILES.map((name) => join(swagger, name))];
      for (const path of paths) {
        const fileName = `docs/${path.slice(dirname(path).length + 1)}`;
        this.emitFile({ type: "asset", fileName, source: readFileSync(path) });
      }
    },
  };
}

export default defineConfig({
  plugins: [docs()],
  build: {
    target: "es2022",
    sourcemap: false,
    // The page's policy allows no data URL but in pictures.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
  },
});
