// Text for the wire: quoted, cut to size, valid Unicode.
'use strict';

const p = load('primordials');

// The text as a JSON string. Halves of surrogate pairs become U+FFFD.
exports.quote = (text) => {
  const quoted = p.stringify(text);
  return p.indexOf(quoted, '\\ud') < 0 ? quoted : p.stringify(p.decode(p.encode(text)));
};

// The beginning of a text, at most so many bytes of UTF-8 without half a character, and whether that is a part only.
exports.clip = (text, most) => {
  if (text.length <= most / 3) return { text, cut: false };
  const bytes = p.encode(p.slice(text, 0, most + 1));
  if (bytes.length <= most && text.length <= most) return { text, cut: false };
  let end = most;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return { text: p.decode(p.subarray(bytes, 0, end)), cut: true };
};
