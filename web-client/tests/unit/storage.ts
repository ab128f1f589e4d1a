/** A storage of a tab, in memory. */
export function storage(): Storage {
  const texts = new Map<string, string>();
  return {
    get length() {
      return texts.size;
    },
    clear: () => texts.clear(),
    getItem: (name) => texts.get(name) ?? null,
    key: (index) => [...texts.keys()][index] ?? null,
    removeItem: (name) => void texts.delete(name),
    setItem: (name, text) => void texts.set(name, text),
  };
}
