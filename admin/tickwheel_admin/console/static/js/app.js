// Entry of every page. Modules talk to each other by events on the document and by few exports;
// none of them needs eval, inline script or style attributes.
import './times.js';
import './dialogs.js';
import './live.js';
import './loading.js';
import './palette.js';

// Whoever goes on to another page before a transition is over aborts it, which is no error.
const letItEnd = (transition) => {
  for (const promise of [transition?.ready, transition?.finished, transition?.updateCallbackDone]) promise?.catch(() => {});
};
letItEnd(document.activeViewTransition); // of a page that was shown before this script came
for (const moment of ['pageswap', 'pagereveal']) addEventListener(moment, (event) => letItEnd(event.viewTransition));

const YEAR_SECONDS = 31536000;

function setCookie(name, value) {
  const secure = location.protocol === 'https:' ? ';Secure' : '';
  document.cookie = `${name}=${value};path=/;max-age=${YEAR_SECONDS};SameSite=Lax${secure}`;
}

// The server writes instants in the zone of this cookie; scripts correct them on the first visit.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && zone !== document.body.dataset.zone) setCookie(document.body.dataset.zoneCookie, zone);

// Language and theme: cookies that the server reads, so that no page shows the wrong one first.
// Of whoever is logged in the server keeps the choice as well; without script its form does all.
document.addEventListener('click', async (event) => {
  const choice = event.target.closest('[data-set]');
  if (!choice) return;
  event.preventDefault();
  const [name, value] = choice.dataset.set.split('=');
  setCookie(name, value);
  const form = choice.closest('form');
  const kept = form && fetch(form.action, {
    method: 'POST',
    body: new URLSearchParams(new FormData(form, choice)),
    headers: {'HX-Request': 'true'}, // the answer is not a page
  }).catch(() => {}); // then it holds for this browser only
  if (!name.endsWith('theme')) {
    await kept;
    return location.reload();
  }
  const root = document.documentElement;
  if (value === 'system') delete root.dataset.theme;
  else root.dataset.theme = value;
  for (const other of choice.parentElement.querySelectorAll('[data-set]')) {
    other.setAttribute('aria-checked', other === choice);
  }
  choice.closest('[popover]').hidePopover();
});

// Menus open below the button they belong to.
document.addEventListener('toggle', (event) => {
  const menu = event.target;
  if (!menu.matches?.('[popover]:is(.menu, .ask)') || event.newState !== 'open') return;
  // One menu may serve many rows: it opens below the button that was pressed.
  const opener = event.source ?? document.querySelector(`[popovertarget="${menu.id}"]`);
  const button = opener.getBoundingClientRect();
  const below = button.bottom + 6;
  const fits = below + menu.offsetHeight < innerHeight;
  menu.style.top = `${fits ? below : button.top - menu.offsetHeight - 6}px`;
  menu.style.left = `${Math.max(8, Math.min(button.right, innerWidth - 8) - menu.offsetWidth)}px`;
}, true);

// For tests, which are faster than any person: the page now answers to keys and clicks.
document.documentElement.dataset.ready = '';
