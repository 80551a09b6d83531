// The lines in the page: a window of the log, which holds a bounded number of them wherever in the
// log it is.
import {element, makeLine, numberOf} from './log-lines.js';

const CHUNK = 200; // lines that share one content-visibility box
const MOST = 20000; // lines kept in the page; the raw log has them all
const LINE_PX = 20; // the height that a box not shown yet is taken to have, for each of its lines

export const view = document.querySelector('.log-view');

let count = 0;

export const shown = () => count;
export const firstLine = () => view.querySelector('.log-line');
export const lastLine = () => [...(view.lastElementChild?.children ?? [])].at(-1);

export function clear(text) {
  count = 0;
  view.replaceChildren(element('p', 'log-empty', text));
}

export const isClear = () => count === 0;

// Lines behind those in the page; returns whether some had to go at the other end.
export function append(entries) {
  if (!entries.length) return false;
  view.querySelector('.log-empty')?.remove();
  let chunk = view.lastElementChild;
  for (const entry of entries) {
    if (!chunk || chunk.childElementCount >= CHUNK) {
      chunk = makeChunk(CHUNK);
      view.append(chunk);
    }
    chunk.append(makeLine(entry));
  }
  count += entries.length;
  let cut = false;
  while (count > MOST && view.firstElementChild !== view.lastElementChild) {
    count -= view.firstElementChild.childElementCount;
    view.firstElementChild.remove();
    cut = true;
  }
  return cut;
}

// Lines before those in the page, which stay where they are on the screen.
export function prepend(entries) {
  if (!entries.length) return false;
  view.querySelector('.log-empty')?.remove();
  const anchor = firstLine();
  const top = anchor?.getBoundingClientRect().top ?? 0;
  const made = document.createDocumentFragment();
  for (let end = entries.length; end > 0; end -= CHUNK) {
    const part = entries.slice(Math.max(end - CHUNK, 0), end);
    const chunk = makeChunk(part.length);
    chunk.append(...part.map(makeLine));
    made.prepend(chunk);
  }
  view.prepend(made);
  count += entries.length;
  // Browsers that hold the place themselves leave nothing to do.
  if (anchor) view.scrollTop += anchor.getBoundingClientRect().top - top;
  let cut = false;
  while (count > MOST && view.firstElementChild !== view.lastElementChild) {
    count -= view.lastElementChild.childElementCount;
    view.lastElementChild.remove();
    cut = true;
  }
  return cut;
}

function makeChunk(lines) {
  const chunk = document.createElement('div');
  chunk.className = 'log-chunk';
  chunk.style.containIntrinsicBlockSize = `auto ${lines * LINE_PX}px`;
  return chunk;
}

// Boxes that were never shown have an assumed height: the end moves when they are drawn.
export function scrollToEnd(isWanted, again = 3) {
  view.scrollTop = view.scrollHeight;
  if (again) requestAnimationFrame(() => { if (isWanted()) scrollToEnd(isWanted, again - 1); });
}

export function mark(number, scroll, again = 3) {
  const line = document.getElementById(`L${number}`);
  if (!line?.classList.contains('log-line')) return;
  view.querySelector('.marked')?.classList.remove('marked');
  line.classList.add('marked');
  if (!scroll) return;
  const place = line.getBoundingClientRect().top - view.getBoundingClientRect().top;
  view.scrollTop += place - view.clientHeight / 2;
  if (again) requestAnimationFrame(() => mark(number, true, again - 1));
}

export const numberIn = (line) => (line ? numberOf(line) : 0);
