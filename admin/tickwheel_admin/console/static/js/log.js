// The log of a run. The page holds a window of it: the end, which goes on while the run does, or
// any other place. Scrolling to an edge of the window fetches what lies behind it.
import {withoutCodes} from './ansi.js';
import {append, clear, firstLine, isClear, lastLine, mark, numberIn, prepend, scrollToEnd, shown, view} from './log-view.js';
import {words} from './times.js';

const AGAIN_MS = 10000; // after a refused stream
const NEAR_PX = 1500; // fetch what lies behind an edge when it is so close
const AROUND = 300; // lines before the one that was asked for

const {language} = document.body.dataset;
const box = document.querySelector('[data-log]');
const counter = document.querySelector('[data-log-count]');
const followButton = box.querySelector('[data-follow]');
const findField = box.querySelector('[data-find]');
const lineField = box.querySelector('[data-line]');
const levelButtons = document.querySelectorAll('[data-level]:is(button)');

let following = true;
let find = '';
let levels = [];

// The window: lines first to last have been looked at, those that are wanted are in the page.
let attempt = '';
let first = 1;
let last = 0;
let total = 0; // lines that the log is known to have
let attached = false; // the window reaches the end, and goes on with the log
let source = null; // the stream: none while the tab is hidden
let ended = false; // the window reaches the end, and no more will come
let loading = null; // aborts what is being fetched
let queue = [];
let frame = 0;

const atEnd = () => attached || ended;
const isChosen = () => find !== '' || levels.length > 0;

// --- fetching ---

function address(part, values) {
  const [path, query] = box.dataset.log.split('?');
  const asked = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) if (value !== '') asked.set(name, value);
  return `${path}/${part}?${asked}`;
}

async function fetchLines(values) {
  loading?.abort();
  const mine = loading = new AbortController();
  try {
    const wanted = {find, levels: levels.join(' '), attempt, ...values};
    const answer = await fetch(address('lines', wanted), {signal: mine.signal});
    if (!answer.ok) throw new Error(answer.status);
    return await answer.json();
  } catch (error) {
    if (error.name !== 'AbortError') say(words.unreachable);
    return null;
  } finally {
    if (loading === mine) loading = null;
  }
}

function startOver() {
  loading?.abort();
  detach();
  queue = [];
  ended = false;
  attempt = '';
  [first, last, total] = [1, 0, 0];
  clear(isChosen() ? words.searching : words.waiting);
}

// The end of the log; with a choice, the last lines that match.
async function showEnd() {
  startOver();
  setFollowing(true);
  let page = await fetchLines({});
  if (!page) return;
  ({attempt, first, next: last} = page);
  total = last;
  prepend(page.lines);
  scrollToEnd(() => following);
  attach();
  await loadEarlier();
  tellNothing();
}

// A line and what is around it.
async function showLine(number) {
  startOver();
  setFollowing(false);
  const after = Math.max(number - AROUND - 1, 0);
  const page = await fetchLines({after});
  if (!page) return;
  if (!page.lines.length) { await showEnd(); return; }
  ({attempt, next: last, last: total} = page);
  first = page.lines[0].n;
  append(page.lines);
  if (!page.more) attach();
  count();
  mark(Math.min(number, last), true);
}

async function loadEarlier() {
  while (!loading && first > 1 && view.scrollTop < NEAR_PX) {
    const page = await fetchLines({before: first});
    if (!page) return;
    first = page.first;
    if (prepend(page.lines)) {
      last = numberIn(lastLine());
      detach();
      ended = false;
    }
    count();
  }
}

async function loadLater() {
  while (!loading && !atEnd() && last > 0 && isNearEnd(NEAR_PX)) {
    const page = await fetchLines({after: last});
    if (!page) return;
    last = page.next;
    total = Math.max(total, page.last);
    if (append(page.lines)) first = numberIn(firstLine());
    count();
    if (!page.more) attach();
  }
}

// --- the stream ---

function attach() {
  if (ended) return;
  attached = true;
  if (!source && !document.hidden) open();
}

function open() {
  source = new EventSource(address('stream', {after: attempt === '' ? '' : `${attempt}.${last}`}));
  source.addEventListener('lines', (event) => {
    queue.push(...JSON.parse(event.data));
    frame ||= requestAnimationFrame(flush);
  });
  source.addEventListener('attempt', (event) => {
    flush();
    queue = [];
    attempt = event.data;
    [first, last, total] = [1, 0, 0];
    clear(words.waiting);
  });
  // Lines were written faster than anybody reads; those left out are fetched when scrolled to.
  source.addEventListener('skip', () => {
    flush();
    if (!following) { detach(); return; }
    first = 0;
    clear(words.waiting);
  });
  source.addEventListener('end', () => {
    flush();
    detach();
    ended = true;
    tellNothing();
  });
  const stream = source;
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED || source !== stream) return;
    source = null; // refused, as when too many pages are live: it does not come back by itself
    setTimeout(() => { if (attached) attach(); }, AGAIN_MS);
  };
}

function detach() {
  attached = false;
  close();
}

function close() {
  source?.close();
  source = null;
}

function flush() {
  cancelAnimationFrame(frame);
  frame = 0;
  if (!queue.length) return;
  const entries = queue;
  queue = [];
  total = last = entries.at(-1).n;
  if (first === 0) first = entries[0].n;
  if (append(isChosen() ? entries.filter(isWanted) : entries)) first = numberIn(firstLine());
  count();
  if (following) scrollToEnd(() => following);
  else if (view.scrollHeight - view.scrollTop > view.clientHeight + 20 * NEAR_PX) detach();
}

function isWanted({l, x}) {
  if (levels.length && !levels.includes(l)) return false;
  return withoutCodes(x).toLowerCase().includes(find.toLowerCase());
}

// A hidden tab holds no connection; it goes on after the last line that it has.
function rest() { flush(); close(); }
function goOn() { if (attached) attach(); }
document.addEventListener('visibilitychange', () => (document.hidden ? rest() : goOn()));
addEventListener('pagehide', rest);
addEventListener('pageshow', goOn);

// --- what it says ---

function count() {
  const number = isChosen() ? shown() : total;
  counter.textContent = number ? number.toLocaleString(language) : '';
}

function say(text) {
  if (isClear()) clear(text);
}

function tellNothing() {
  count();
  if (!isClear()) return;
  if (isChosen()) say(words.no_lines);
  else if (ended) say(words.no_log);
}

// --- following, finding, going somewhere ---

const isNearEnd = (px) => view.scrollTop + view.clientHeight > view.scrollHeight - px;

function setFollowing(value) {
  following = value;
  followButton.setAttribute('aria-pressed', value);
  followButton.classList.toggle('primary', value);
}

function follow() {
  if (!atEnd()) { showEnd(); return; }
  setFollowing(true);
  scrollToEnd(() => following);
}
followButton.addEventListener('click', () => (following ? setFollowing(false) : follow()));
view.addEventListener('wheel', (event) => { if (event.deltaY < 0) setFollowing(false); }, {passive: true});
view.addEventListener('keydown', (event) => {
  if (event.key === 'Home') { event.preventDefault(); goTo(1); }
  else if (event.key === 'End') { event.preventDefault(); follow(); }
  else if (['ArrowUp', 'PageUp'].includes(event.key)) setFollowing(false);
});
view.addEventListener('pointerdown', (event) => {
  if (event.offsetX >= view.clientWidth) setFollowing(false); // the bar for scrolling
});
view.addEventListener('touchmove', () => setFollowing(false), {passive: true});
view.addEventListener('scroll', () => {
  if (following) return;
  if (isNearEnd(4) && atEnd()) setFollowing(true);
  else if (view.scrollTop < NEAR_PX) loadEarlier();
  loadLater();
}, {passive: true});

let typing = 0;
findField.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => { find = findField.value.trim(); showEnd(); }, 200);
});
for (const button of levelButtons) {
  button.addEventListener('click', () => {
    levels = button.dataset.level ? button.dataset.level.split(' ') : [];
    for (const other of levelButtons) other.setAttribute('aria-pressed', other === button);
    showEnd();
  });
}
for (const button of box.querySelectorAll('[data-toggle]')) {
  button.addEventListener('click', () => {
    const on = view.classList.toggle(button.dataset.toggle);
    button.setAttribute('aria-pressed', 'inverse' in button.dataset ? !on : on);
  });
}

// One key each, as their tips say; "g" begins a chord that leads to another page.
let chordAt = 0;
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest?.('input, textarea, select, dialog')) return;
  if (event.key === 'g') chordAt = Date.now();
  else if (Date.now() - chordAt > 1200) document.querySelector(`[data-log] [data-key="${CSS.escape(event.key)}"]`)?.click();
});

// Among the lines that match, a line's number leads to where it stands in the log.
function goTo(number) {
  history.replaceState(null, '', `#L${number}`);
  if (isChosen()) {
    findField.value = find = '';
    levels = [];
    for (const button of levelButtons) button.setAttribute('aria-pressed', !button.dataset.level);
    showLine(number);
  } else if (document.getElementById(`L${number}`)) {
    setFollowing(false);
    mark(number, true);
  } else showLine(number);
}
view.addEventListener('click', (event) => {
  const number = event.target.closest('.line-number');
  if (!number) return;
  event.preventDefault();
  const line = number.parentElement;
  if (isChosen()) { goTo(numberIn(line)); return; }
  setFollowing(false);
  history.replaceState(null, '', number.getAttribute('href'));
  mark(numberIn(line), false);
});
lineField.addEventListener('change', () => {
  const number = Math.trunc(lineField.valueAsNumber);
  if (number >= 1) goTo(Math.min(number, 2 ** 31 - 1));
});

function named() {
  const found = /^#L(\d{1,9})$/.exec(location.hash);
  return found ? Math.max(Number(found[1]), 1) : null;
}
addEventListener('hashchange', () => { if (named()) goTo(named()); });

if (named()) showLine(named());
else showEnd();
