// What the console uses of CodeMirror 6, for one file: `python -m tests.support.vendor` builds it.
import {indentWithTab} from '@codemirror/commands';
import {javascriptLanguage} from '@codemirror/lang-javascript';
import {pythonLanguage} from '@codemirror/lang-python';
import {HighlightStyle, LRLanguage, StreamLanguage, syntaxHighlighting} from '@codemirror/language';
import {groovy} from '@codemirror/legacy-modes/mode/groovy';
import {perl} from '@codemirror/legacy-modes/mode/perl';
import {powerShell} from '@codemirror/legacy-modes/mode/powershell';
import {ruby} from '@codemirror/legacy-modes/mode/ruby';
import {shell} from '@codemirror/legacy-modes/mode/shell';
import {yaml} from '@codemirror/legacy-modes/mode/yaml';
import {lintGutter, setDiagnostics} from '@codemirror/lint';
import {Compartment, EditorState} from '@codemirror/state';
import {EditorView, keymap} from '@codemirror/view';
import {tags} from '@lezer/highlight';
import {parser as phpParser} from '@lezer/php';
import {basicSetup} from 'codemirror';

// Made when they are chosen: most pages need one of them.
export const languages = {
  groovy: () => StreamLanguage.define(groovy),
  node: () => javascriptLanguage,
  perl: () => StreamLanguage.define(perl),
  php: () => LRLanguage.define({name: 'php', parser: phpParser.configure({top: 'Program'})}),
  powershell: () => StreamLanguage.define(powerShell),
  python: () => pythonLanguage,
  ruby: () => StreamLanguage.define(ruby),
  shell: () => StreamLanguage.define(shell),
  yaml: () => StreamLanguage.define(yaml),
};

export {
  basicSetup, Compartment, EditorState, EditorView, HighlightStyle, indentWithTab, keymap, lintGutter, setDiagnostics,
  syntaxHighlighting, tags,
};
