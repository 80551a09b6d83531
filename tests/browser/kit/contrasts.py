"""Contrasts of text, each combination of colours looked at once however many pages show it.

Axe takes a fifth of a second for the contrasts of one page and theme, most of it for texts that it
has seen on every page before. What decides is read of the page in some milliseconds: the colour,
size and weight of a text, and every background and opacity behind it.
"""

from __future__ import annotations

from collections import Counter

from playwright.sync_api import Page

from tests.support.nightly import IS_NIGHT

_PAGES_TO_DECIDE = 3
"""Axe says nothing of texts that are a single character or on an image. A combination is
looked at until axe has decided about a text that shows it, on so many pages at most."""

_LOOK = """async ([seen, all]) => {
  const known = new Set(seen), met = new Map(), behind = new Map();
  const isClear = (colour) => colour === 'transparent' || /,\\s*0\\)$/.test(colour);
  const isOpaque = (colour) => colour.startsWith('rgb(');
  // The backgrounds down to the first that hides those below it, and what changes all of them.
  const backgrounds = (element) => {
    if (element === null) return ['', ''];
    if (!behind.has(element)) {
      const style = getComputedStyle(element);
      const effect = [style.opacity, style.mixBlendMode, style.filter].join(' ');
      const image = style.backgroundImage === 'none' ? '' : style.backgroundImage;
      const own = isClear(style.backgroundColor) ? image : `${style.backgroundColor} ${image}`;
      const [colours, effects] = backgrounds(element.parentElement);
      behind.set(element, [
        own + (isOpaque(style.backgroundColor) ? '' : `; ${colours}`),
        (effect === '1 normal none' ? '' : `${effect}; `) + effects,
      ]);
    }
    return behind.get(element);
  };
  for (const element of document.body.querySelectorAll('*')) {
    const says = [...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!says && !element.matches('input, textarea, select')) continue;
    if (!element.checkVisibility({visibilityProperty: true}) || element.offsetWidth < 2) continue;
    if (element.closest(':disabled, [aria-disabled="true"]')) continue; // they may be faint
    const style = getComputedStyle(element);
    // Large texts need less contrast: from 24 pixels on, bold ones from 18.66.
    const isLarge = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24);
    const text = [style.color, style.textShadow, isLarge].join(' ');
    const key = `${text} on ${backgrounds(element).join(' with ')}`;
    const shown = met.get(key) ?? met.set(key, []).get(key);
    if (!known.has(key) && (all || shown.length < 3)) shown.push(element);
  }
  const looked = [...met.values()].flat();
  if (!looked.length) return [[], [], []];
  looked.forEach((element) => element.setAttribute('data-contrast', ''));
  const found = await axe.run({include: [['[data-contrast]']]},
    {runOnly: ['color-contrast'], elementRef: true, preload: false});
  looked.forEach((element) => element.removeAttribute('data-contrast'));
  const nodes = (results) => results.flatMap((result) => result.nodes);
  const decided = new Set(nodes([...found.passes, ...found.violations]).map((n) => n.element));
  const asked = [...met].filter(([, elements]) => elements.length);
  const done = asked.filter(([, elements]) => elements.some((each) => decided.has(each)));
  const faults = nodes(found.violations).slice(0, 3).map((node) => 'color-contrast: ' +
    node.html.slice(0, 160) + ' | ' + node.failureSummary.split('\\n').slice(1, 3).join(' '));
  return [faults, asked.map(([key]) => key), done.map(([key]) => key)];
}"""


class Contrasts:
    """What was looked at in all pages of one test; by night every text of every page."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def faults(self, page: Page) -> list[str]:
        """Texts of a page, which has loaded axe, that are hard to read."""
        known = [key for key, tries in self._tries.items() if tries >= _PAGES_TO_DECIDE]
        faults, asked, decided = page.evaluate(_LOOK, [[] if IS_NIGHT else known, IS_NIGHT])
        self._tries.update(asked)
        self._tries.update(dict.fromkeys(decided, _PAGES_TO_DECIDE))
        return list(faults)
