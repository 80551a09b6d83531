// While another content of a list is on its way, the old rows are greyed and cannot be selected,
// opened or acted on: they are not what was asked for. Live updates of the same list change nothing.
import {words} from './times.js';

const SAY_AFTER_MS = 300; // sooner it would only flicker

const PAGE_MS = 30_000; // an answer that long in coming may be a download, or none at all
const PAGE = 'page'; // a whole page is on its way instead of a part of this one

const underWay = new Set(); // requests
let pageTimer = 0;
let timer = 0;

const note = document.createElement('p');
note.className = 'loading';
note.setAttribute('role', 'status');
document.querySelector('main')?.append(note);

export const isLoading = () => underWay.size > 0;

function paint() {
  const on = isLoading();
  const list = document.getElementById('rows');
  if (list) {
    list.inert = on;
    if (on) list.setAttribute('aria-busy', 'true');
    else list.removeAttribute('aria-busy');
  }
  for (const form of document.querySelectorAll('form.selection')) form.inert = on;
  if (on && !timer) {
    timer = setTimeout(() => { note.textContent = words.loading; }, SAY_AFTER_MS);
  } else if (!on) {
    clearTimeout(timer);
    timer = 0;
    note.textContent = '';
  }
}

function begin(what) {
  underWay.add(what);
  paint();
}

function end(what) {
  if (underWay.delete(what)) paint();
}

document.body.addEventListener('htmx:beforeSend', ({detail}) => {
  // A part that fetches itself again shows the same list, only newer.
  if (detail.target.id === 'rows' && detail.elt !== detail.target) begin(detail.xhr);
});
for (const name of ['htmx:afterRequest', 'htmx:sendAbort', 'htmx:sendError', 'htmx:timeout']) {
  document.body.addEventListener(name, ({detail}) => end(detail.xhr));
}

// Tabs, pages, orders and plain filters load the whole page: same address, another content.
function beginPage() {
  begin(PAGE);
  clearTimeout(pageTimer);
  pageTimer = setTimeout(() => end(PAGE), PAGE_MS);
}

const isHere = (address) => address.origin === location.origin && address.pathname === location.pathname;

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute('download') || link.matches('[hx-get], [data-dialog]')) return;
  if (!link.getAttribute('href').startsWith('#') && isHere(link)) beginPage();
});
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== 'get' || form.hasAttribute('hx-get')) return;
  const action = event.submitter?.getAttribute('formaction') ?? form.getAttribute('action') ?? '';
  if (isHere(new URL(action, location.href))) beginPage();
});
// The browser's own way to stop a page from loading, and a page that comes back as it was left.
document.addEventListener('keydown', ({key}) => { if (key === 'Escape') end(PAGE); });
window.addEventListener('pageshow', () => end(PAGE));

// What was swapped in while something newer is on its way is old as well.
document.addEventListener('htmx:afterSwap', () => { if (isLoading()) paint(); });
