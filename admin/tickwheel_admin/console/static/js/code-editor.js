// A code editor: CodeMirror in a shadow root, where its styles need nothing of the page's policy. The text area below it
// is what the form sends, and all there is without scripts.
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
  '.cm-content, .cm-gutter': {minHeight: '360px'},
  '.cm-cursor': {borderLeftColor: 'var(--ink)'},
  '.cm-gutters': {backgroundColor: 'var(--sunken)', color: 'var(--ink-3)', border: 'none'},
  '.cm-activeLine, .cm-activeLineGutter': {backgroundColor: 'var(--hover)'},
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground':
    {backgroundColor: 'color-mix(in srgb, var(--accent) 24%, transparent)'},
  '.cm-panels': {backgroundColor: 'var(--sunken)', color: 'var(--ink)', borderColor: 'var(--line)'},
  '.cm-panel input, .cm-panel button': {font: 'inherit', color: 'var(--ink)', background: 'var(--card)'},
  '.cm-tooltip': {backgroundColor: 'var(--raised)', color: 'var(--ink)', border: '1px solid var(--line)'},
  '.cm-matchingBracket': {backgroundColor: 'var(--chosen)', color: 'inherit'},
  // Its own marks are images in the style sheet, which the page's policy refuses.
  '.cm-lintRange-error': {backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)'},
  '.cm-lintPoint-error:after': {borderBottomColor: 'var(--bad)'},
  '.cm-lint-marker-error': {content: 'normal'},
  '.cm-lint-marker-error::after': {content: '"●"', color: 'var(--bad-ink)'},
  '.cm-diagnostic-error': {borderLeftColor: 'var(--bad)'},
});

/** The mode of a language as an extension; none for one that is not known. */
export function modeOf(name) {
  const make = languages[name];
  return make ? make() : [];
}

/** An editor in the place of a text area, which keeps its text. Its extensions come before those that all have. */
export function codeEditor(area, extensions) {
  const host = document.createElement('div');
  host.className = 'script-editor';
  const root = host.attachShadow({mode: 'open'});
  const view = new EditorView({
    root,
    parent: root,
    doc: area.value,
    extensions: [
      extensions,
      basicSetup,
      keymap.of([indentWithTab]),
      syntaxHighlighting(colours),
      look,
      EditorState.readOnly.of(area.readOnly),
      EditorView.contentAttributes.of({'aria-label': area.dataset.label, tabindex: '0'}),
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
  return view;
}

/** Puts the cursor at the beginning of a line; a number that means none is left alone. */
export function goToLine(view, number, {focus = true} = {}) {
  if (!number || number > view.state.doc.lines) return;
  const {from} = view.state.doc.line(number);
  view.dispatch({selection: {anchor: from}, effects: EditorView.scrollIntoView(from, {y: 'center'})});
  if (focus) view.focus();
}
