// What terminals understand, as classes: `parts` cuts a line into texts that look the same. Colours
// of 256 and of 24 bits become the nearest of the sixteen that the style sheet has for both themes.

// One escape sequence of any kind: CSI, OSC (to BEL or ST), other strings, or two characters.
const SEQUENCE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

const STYLES = {1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'reverse', 9: 'strike', 21: 'underline'};
const ENDS = {22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'], 27: ['reverse'], 29: ['strike']};

// The sixteen as xterm has them.
const SIXTEEN = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
  [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255],
];

export const withoutCodes = (text) => text.replace(SEQUENCE, '').replace(CONTROLS, '');

// [{text, classes}], in order; texts hold no control character.
export function parts(text) {
  const found = [];
  let look = plain();
  let from = 0;
  const take = (end) => {
    const shown = text.slice(from, end).replace(CONTROLS, '');
    if (shown) found.push({text: shown, classes: classesOf(look)});
  };
  for (const match of text.matchAll(SEQUENCE)) {
    take(match.index);
    from = match.index + match[0].length;
    if (match[2] === 'm' && /^[\d;:]*$/.test(match[1])) look = applied(look, match[1]);
  }
  take(text.length);
  return found;
}

const plain = () => ({styles: new Set(), front: null, back: null});

function applied(look, codes) {
  const next = {...look, styles: new Set(look.styles)};
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(next, plain());
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1));
      at += used;
      if (colour !== null) next[code === 38 ? 'front' : 'back'] = colour;
    } else if (STYLES[code]) next.styles.add(STYLES[code]);
    else if (ENDS[code]) for (const name of ENDS[code]) next.styles.delete(name);
    else if (code >= 30 && code <= 37) next.front = code - 30;
    else if (code >= 90 && code <= 97) next.front = code - 82;
    else if (code >= 40 && code <= 47) next.back = code - 40;
    else if (code >= 100 && code <= 107) next.back = code - 92;
    else if (code === 39) next.front = null;
    else if (code === 49) next.back = null;
  }
  return next;
}

// After 38 or 48: "5;n" or "2;r;g;b". Returns the colour, null for none, and how many were used.
function extended([kind, ...rest]) {
  const isByte = (value) => Number.isInteger(value) && value >= 0 && value <= 255;
  if (kind === 5) return [isByte(rest[0]) ? ofPalette(rest[0]) : null, 2];
  if (kind === 2) return [rest.length >= 3 && rest.slice(0, 3).every(isByte) ? nearest(rest.slice(0, 3)) : null, 4];
  return [null, rest.length + 1];
}

function ofPalette(number) {
  if (number < 16) return number;
  if (number >= 232) {
    const grey = 8 + (number - 232) * 10;
    return nearest([grey, grey, grey]);
  }
  const level = (value) => (value ? 55 + value * 40 : 0);
  const cube = number - 16;
  return nearest([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

function nearest([red, green, blue]) {
  const spread = Math.max(red, green, blue) - Math.min(red, green, blue);
  let best = 0;
  let least = Infinity;
  SIXTEEN.forEach(([r, g, b], index) => {
    // What has a hue keeps one: grey would say nothing.
    if (spread > 40 && r === g && g === b) return;
    // Eyes weigh the three unequally.
    const distance = 2 * (r - red) ** 2 + 4 * (g - green) ** 2 + 3 * (b - blue) ** 2;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function classesOf({styles, front, back}) {
  const classes = [...styles].filter((name) => name !== 'reverse').map((name) => `ansi-${name}`);
  // Reversed, a colour lies behind the text, which has the ink of that colour or of the other one.
  const behind = styles.has('reverse') ? (front ?? 7) : back;
  const ink = styles.has('reverse') ? back : front;
  if (ink !== null) classes.push(`ansi-${ink}`);
  if (behind !== null) classes.push(`ansi-on-${behind}`);
  return classes.join(' ');
}
