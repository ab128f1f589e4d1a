import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // A browser and a server are started in between, on a machine that may have other things to do.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
    maxWorkers: 2,
  },
});
