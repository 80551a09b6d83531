// The script editor: CodeMirror in a shadow root, where its styles need nothing of the page's policy. The text area
// below it is what the form sends, and all there is without scripts.
import {
  basicSetup, Compartment, EditorState, EditorView, HighlightStyle, indentWithTab, keymap, languages,
  syntaxHighlighting, tags,
} from '../vendor/codemirror-6.0.2.min.js';

const colours = HighlightStyle.define([
  {tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--accent)'},
  {tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--ok-ink)'},
  {tag: [tags.comment, tags.meta], color: 'var(--ink-3)', fontStyle: 'italic'},
  {tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--warn-ink)'},
  {tag: [tags.function(tags.variableName), tags.standard(tags.name)], color: 'var(--run-ink)'},
  {tag: [tags.definition(tags.variableName), tags.special(tags.variableName)], color: 'var(--late-ink)'},
  {tag: tags.invalid, color: 'var(--bad-ink)'},
]);

const look = EditorView.theme({
  '&': {backgroundColor: 'var(--card)', color: 'var(--ink)', minHeight: '360px', maxHeight: '75vh'},
  '&.cm-focused': {outline: 'none'},
  '.cm-scroller': {font: '12.5px/1.6 var(--mono)', fontVariantLigatures: 'none', overflow: 'auto'},
  '.cm-content': {caretColor: 'var(--ink)'},
  '.cm-cursor': {borderLeftColor: 'var(--ink)'},
  '.cm-gutters': {backgroundColor: 'var(--sunken)', color: 'var(--ink-3)', border: 'none'},
  '.cm-activeLine, .cm-activeLineGutter': {backgroundColor: 'var(--hover)'},
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground':
    {backgroundColor: 'color-mix(in srgb, var(--accent) 24%, transparent)'},
  '.cm-panels': {backgroundColor: 'var(--sunken)', color: 'var(--ink)', borderColor: 'var(--line)'},
  '.cm-panel input, .cm-panel button': {font: 'inherit', color: 'var(--ink)', background: 'var(--card)'},
  '.cm-tooltip': {backgroundColor: 'var(--raised)', color: 'var(--ink)', border: '1px solid var(--line)'},
  '.cm-matchingBracket': {backgroundColor: 'var(--chosen)', color: 'inherit'},
});

function modeOf(name) {
  const make = languages[name];
  return make ? make() : [];
}

function edit(area) {
  const chosen = area.form.querySelector('[data-script-language]');
  const host = document.createElement('div');
  host.className = 'script-editor';
  const root = host.attachShadow({mode: 'open'});
  const mode = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    doc: area.value,
    extensions: [
      basicSetup,
      keymap.of([indentWithTab]),
      mode.of(modeOf(chosen.value)),
      syntaxHighlighting(colours),
      look,
      EditorState.readOnly.of(area.readOnly),
      EditorView.contentAttributes.of({'aria-label': area.dataset.label}),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        area.dispatchEvent(new Event('input', {bubbles: true}));
      }),
    ],
  });
  // Seen from the page, a key is pressed in this box and not in a field: it would be a shortcut.
  host.addEventListener('keydown', (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  area.hidden = true;
  area.after(host);
  document.querySelector(`label[for="${area.id}"]`)?.addEventListener('click', () => view.focus());
  chosen.addEventListener('change', () => view.dispatch({effects: mode.reconfigure(modeOf(chosen.value))}));
}

function editAll() {
  for (const area of document.querySelectorAll('textarea[data-script-source]:not([hidden])')) edit(area);
}

editAll();
document.body.addEventListener('htmx:afterSettle', editAll);
